//! Words around cells, as Markdown that shows nothing from elsewhere.

use crate::room::shorten;

/// Characters of a heading.
const HEADING: usize = 100;

/// Where to cut a text that is long: its beginning says most.
fn beginning(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start} …"),
        _ => text.to_owned(),
    }
}

/// The first line of a text, cut to a heading's length.
pub(crate) fn heading(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    let mut heading: String = line.chars().filter(|c| !c.is_control()).take(HEADING).collect();
    if line.chars().count() > HEADING {
        heading.push('…');
    }
    heading
}

/// The task as a title, with the rest of it below where one line does not hold it.
pub(crate) fn title(task: &str, bytes: usize) -> String {
    let (heading, task) = (heading(task), task.trim());
    let title = if heading.is_empty() { "A job".to_owned() } else { without_pictures(&heading) };
    if heading == task || task.is_empty() {
        return format!("# {title}");
    }
    format!("# {title}\n\n{}", without_pictures(&shorten(task, bytes)))
}

/// What was said, in short.
pub(crate) fn said(words: &[String], bytes: usize) -> String {
    let words: Vec<&str> = words.iter().map(|text| text.trim()).collect();
    let text = words.join("\n\n");
    closed(without_pictures(&beginning(&text, bytes)))
}

/// A picture in Markdown is fetched from wherever it says by whoever opens the notebook. It
/// becomes a link.
fn without_pictures(text: &str) -> String {
    text.replace("![", "!\\[").replace("<img", "&lt;img").replace("<IMG", "&lt;IMG")
}

/// Ends a block of code that was cut, so that the words after it are no code.
fn closed(mut text: String) -> String {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    if fences % 2 == 1 {
        text.push_str("\n```");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_one_line_is_a_title_and_more_goes_below() {
        assert_eq!(title("Plot the data", 100), "# Plot the data");
        assert_eq!(title("\nPlot\nall of it\n", 100), "# Plot\n\nPlot\nall of it");
        assert_eq!(title("", 100), "# A job");
        let long = "word ".repeat(50);
        assert_eq!(title(&long, 1_000), format!("# {}…\n\n{}", "word ".repeat(20), long.trim()));
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        let words = ["see ![plot](http://example.org/x.png)".to_owned()];
        assert_eq!(said(&words, 100), "see !\\[plot](http://example.org/x.png)");
    }

    #[test]
    fn what_is_cut_inside_a_block_of_code_ends_there() {
        let words = ["first".to_owned(), "```py\nprint(1)\nprint(2)\n```".to_owned()];
        assert_eq!(said(&words, 18), "first\n\n```py\nprint …\n```");
        assert_eq!(said(&["ääää".to_owned()], 3), "ä …");
    }
}
