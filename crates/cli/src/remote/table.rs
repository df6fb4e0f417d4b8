//! Tables of text: aligned, and nothing in them moves the cursor.

use cofferdam_view::tame_line;
use rustix::termios::{isatty, tcgetwinsize};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between two columns.
const GAP: &str = "  ";

/// Rows below their headings. The last column is cut at the edge of the terminal.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| tame_line(cell)).collect());
    }

    /// The table as text, its lines not wider than this.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let lines = self.rows.iter().map(|row| {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str(GAP);
                }
                line.push_str(cell);
                let missing = widths.get(column).unwrap_or(&0).saturating_sub(cell.width());
                line.push_str(&" ".repeat(missing));
            }
            let line = line.trim_end();
            width.map_or_else(|| line.to_owned(), |width| cut(line, width))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The width of the terminal that stdout is, if it is one.
pub(crate) fn stdout_width() -> Option<usize> {
    let stdout = rustix::stdio::stdout();
    let size = isatty(stdout).then(|| tcgetwinsize(stdout).ok()).flatten()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

fn cut(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for character in line.chars() {
        used += character.width().unwrap_or(0);
        if used >= width {
            break;
        }
        cut.push(character);
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_last_is_cut() {
        let mut table = Table::new(["ID", "STATUS", "TITLE"]);
        table.row(vec!["1".to_owned(), "complete".to_owned(), "größer 漢字".to_owned()]);
        table.row(vec![
            "22".to_owned(),
            "error".to_owned(),
            "a\u{1b}]0;x\u{7}\nb\u{202e}".to_owned(),
        ]);
        let text = table.text(None);
        insta::assert_snapshot!(text, @r"
        ID  STATUS    TITLE
        1   complete  größer 漢字
        22  error     a␛]0;x␇ ⏎ b⟨U+202E⟩
        ");
        for width in 1..40 {
            assert!(table.text(Some(width)).lines().all(|line| line.width() <= width), "{width}");
        }
    }
}
