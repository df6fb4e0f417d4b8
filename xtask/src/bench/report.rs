//! The report: what was measured, as Markdown that also reads well as it is.

use std::time::Duration;

/// One table with what has to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// A table without rows. The first column holds names, the others numbers.
    pub(super) fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing are empty.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Adds a row that says why there are no numbers. The reason is a note: it
    /// would make its column wider than the page.
    pub(super) fn absent(&mut self, name: &str, reason: &str) {
        self.row([name, "-"]);
        self.note(format!("{name} was not measured: {reason}"));
    }

    /// Adds a line below the table.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let rows = || std::iter::once(&self.columns).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| rows().filter_map(|row| row.get(column)).map(width).max().unwrap_or(0))
            .collect();
        let mut text = format!("## {}\n\n", self.title);
        for (number, row) in rows().enumerate() {
            for (column, (cell, wide)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(wide - width(cell));
                text += &match column {
                    0 => format!("| {cell}{padding} |"),
                    _ => format!(" {padding}{cell} |"),
                };
            }
            text.push('\n');
            if number == 0 {
                for (column, wide) in widths.iter().enumerate() {
                    let line = "-".repeat(wide + 1);
                    text += &if column == 0 { format!("|{line}-|") } else { format!("{line}:|") };
                }
                text.push('\n');
            }
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("- {note}\n");
        }
        text
    }
}

fn width(cell: impl AsRef<str>) -> usize {
    cell.as_ref().chars().count()
}

/// A time in milliseconds, with about three digits.
pub(super) fn milliseconds(time: Duration) -> String {
    digits(time.as_secs_f64() * 1e3)
}

/// A time in microseconds.
pub(super) fn microseconds(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e6)
}

/// A number of bytes in KiB.
pub(super) fn kibibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / 1024.0)
}

/// A number with about three digits.
pub(super) fn digits(number: f64) -> String {
    match number.abs() {
        small if small < 9.995 => format!("{number:.2}"),
        middle if middle < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_well_as_it_is() {
        let mut table = Table::new("A fresh sandbox", &["runner", "median ms", "x raw"]);
        table.row(["raw fork+exec", "0.87", "1.00"]);
        table.row(["docker run", "244", "280"]);
        table.absent("a µ-runner", "there is none");
        table.note("40 rounds");
        assert_eq!(
            table.markdown(),
            "\
## A fresh sandbox

| runner        | median ms | x raw |
|---------------|----------:|------:|
| raw fork+exec |      0.87 |  1.00 |
| docker run    |       244 |   280 |
| a µ-runner    |         - |       |

- a µ-runner was not measured: there is none
- 40 rounds
"
        );
    }

    #[test]
    fn a_table_without_notes_ends_with_its_rows() {
        let mut table = Table::new("T", &["a", "b"]);
        table.row(["x"]);
        assert_eq!(table.markdown(), "## T\n\n| a | b |\n|---|--:|\n| x |   |\n");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let written = [0.0, 0.716, 9.994, 9.996, 12.34, 99.94, 99.96, 243.7, -1.5].map(digits);
        assert_eq!(
            written,
            ["0.00", "0.72", "9.99", "10.0", "12.3", "99.9", "100", "244", "-1.50"]
        );
        assert_eq!(milliseconds(Duration::from_micros(1234)), "1.23");
        assert_eq!(microseconds(Duration::from_nanos(1_234_567)), "1235");
        assert_eq!(kibibytes(2048.0), "2");
    }
}
