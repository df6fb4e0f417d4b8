//! `search_files`: lines that match, file by file. What version control ignores
//! is left out.

use cofferdam_guest_protocol::{FileError, Match};
use cofferdam_sandbox::{FilesError, Ignored, Listing, Search};
use cofferdam_types::{ToolOutput, ToolSpec};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cut::readable;
use crate::lines::shortened;
use crate::paths;
use crate::tools::{Call, Tools, spec as object};
use crate::trouble::Trouble;

pub(crate) const NAME: &str = "search_files";

/// Matches that are shown.
const MATCHES: u32 = 200;

/// Characters shown of a line.
const LONGEST_LINE: usize = 300;

/// Lines around each match.
const MOST_CONTEXT: u64 = 20;

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "Search file contents for a regular expression; lines with numbers, grouped by file. \
         Ignored files (.gitignore) are left out.",
        json!({
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "directory or file, default /workspace"},
            "glob": {"type": "string", "description": "only such files, e.g. *.rs"},
            "ignore_case": {"type": "boolean"},
            "literal": {"type": "boolean", "description": "pattern is plain text"},
            "context": {"type": "integer", "description": "lines around each match"}
        }),
        &["pattern"],
    )
}

pub(crate) async fn run(
    tools: &Tools,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<ToolOutput, Trouble> {
    let pattern = arguments.text("pattern")?;
    if pattern.is_empty() {
        return Err(Trouble::refused("search_files: `pattern` is empty"));
    }
    let path = arguments.optional_text("path")?.filter(|path| !path.is_empty()).unwrap_or(".");
    paths::check(path)?;
    let context = arguments.number("context", 0..=MOST_CONTEXT)?.unwrap_or(0);
    let search = Search {
        literal: arguments.flag("literal")?,
        ignore_case: arguments.flag("ignore_case")?,
        glob: arguments.optional_text("glob")?.filter(|glob| !glob.is_empty()).map(str::to_owned),
        ignored: Ignored::LeaveOut,
        context: u32::try_from(context).unwrap_or(0),
        limit: MATCHES,
        ..Search::pattern(pattern)
    };
    let files = tools.files();
    let found = match files.search(path, search).await {
        Ok(found) => found,
        Err(FilesError::File(FileError::NotFound)) => {
            return Err(Trouble::Failed(paths::missing(&files, path).await));
        }
        Err(FilesError::File(FileError::Pattern(reason))) => {
            return Err(Trouble::Failed(format!(
                "{reason}\nTo search for plain text set `literal`"
            )));
        }
        Err(error) => return Err(Trouble::of_file(path, &error)),
    };
    Ok(tools.done(call.call, &show(&found, pattern, path)).await)
}

/// The lines, file by file.
fn show(found: &Listing<Match>, pattern: &str, path: &str) -> String {
    let mut text = String::new();
    let mut last: Option<&Match> = None;
    for line in &found.records {
        let same_file = last.is_some_and(|last| last.path == line.path);
        if !same_file {
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{}\n", readable(&line.path)));
        } else if last
            .is_some_and(|last| last.line + 1 < line.line && !(last.matched && line.matched))
        {
            text.push_str("  --\n");
        }
        let mark = if line.matched { ':' } else { '-' };
        let shown = readable(&line.text);
        text.push_str(&format!("{:>6}{mark} {}\n", line.line, shortened(&shown, LONGEST_LINE)));
        last = Some(line);
    }
    let matches = found.records.iter().filter(|line| line.matched).count();
    if matches == 0 {
        text = format!(
            "nothing in {path} matches {pattern} (ignored and binary files are not looked at)\n"
        );
    } else if found.more {
        text.push_str(&format!("\n[the first {matches} matches; narrow the search for more]\n"));
    }
    for (path, reason) in found.unreadable.iter().take(3) {
        text.push_str(&format!("[not searched: {}: {reason}]\n", readable(path)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, line: u64, text: &str, matched: bool) -> Match {
        Match { path: path.into(), line, text: text.into(), matched }
    }

    #[test]
    fn matches_are_grouped_by_file_and_gaps_are_marked() {
        let found = Listing {
            records: vec![
                line("a.rs", 1, "fn one", true),
                line("a.rs", 2, "}", false),
                line("a.rs", 9, "{", false),
                line("a.rs", 10, "fn two", true),
                line("b.rs", 3, "fn three", true),
            ],
            more: true,
            unreadable: vec![],
        };
        assert_eq!(
            show(&found, "fn", "."),
            "a.rs\n     1: fn one\n     2- }\n  --\n     9- {\n    10: fn two\n\n\
             b.rs\n     3: fn three\n\n[the first 3 matches; narrow the search for more]\n"
        );
    }
}
