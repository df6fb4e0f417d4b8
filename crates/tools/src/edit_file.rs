//! `edit_file`: text in a file is replaced by other text, if it is there exactly
//! as given.
//!
//! Line ends, encoding, permissions and every byte outside the place stay as they
//! are. A file that somebody else changes meanwhile is not written.

pub(crate) mod nearest;
mod replace;

use bytes::Bytes;
use cofferdam_guest_protocol::WriteMode;
use cofferdam_sandbox::{FileContent, Files, Range};
use cofferdam_types::{ToolOutput, ToolSpec, ToolStatus};
use serde_json::json;

use crate::arguments::Arguments;
use crate::encoding::Encoding;
use crate::lines;
use crate::paths;
use crate::read_file::source::explain;
use crate::tools::{Tools, spec as object};
use crate::trouble::Trouble;
use crate::write_file::NEW_FILE;
use replace::{Miss, Replaced, Which, replace};

pub(crate) const NAME: &str = "edit_file";

/// The largest file that is edited.
const LARGEST: u64 = 16 << 20;

/// Lines that are named.
const NAMED: usize = 10;

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "Replace text in a file. old_string must be there exactly, white space included, and \
         only once unless replace_all is set. Do not give line numbers.",
        json!({
            "path": {"type": "string"},
            "old_string": {"type": "string"},
            "new_string": {"type": "string"},
            "replace_all": {"type": "boolean"}
        }),
        &["path", "old_string", "new_string"],
    )
}

pub(crate) async fn run(tools: &Tools, arguments: Arguments<'_>) -> Result<ToolOutput, Trouble> {
    let path = arguments.text("path")?;
    let (old, new) = (arguments.text("old_string")?, arguments.text("new_string")?);
    let which = if arguments.flag("replace_all")? { Which::All } else { Which::One };
    paths::check(path)?;
    if old.is_empty() {
        return Err(Trouble::refused(
            "edit_file: `old_string` is empty; to write a whole file use write_file",
        ));
    }
    if old == new {
        return Err(Trouble::refused("edit_file: `old_string` and `new_string` are the same"));
    }
    let files = tools.files();
    let (content, digest) = whole(&files, path).await?;
    let Replaced { bytes, lines } = replace(&content.bytes, old, new, which)
        .map_err(|miss| Trouble::Failed(told(path, &content.bytes, old, &miss)))?;
    let mode = WriteMode::ReplaceIf(digest);
    let written = files.write(path, Bytes::from(bytes), mode, NEW_FILE).await;
    written.map_err(|error| Trouble::of_file(path, &error))?;
    let text = match lines.as_slice() {
        [line] => format!("edited {path} at line {line}"),
        many => format!("edited {path} in {} places: {}", many.len(), named(many)),
    };
    Ok(ToolOutput::text(ToolStatus::Done, text))
}

/// All of a file that may be changed, with the digest it must still have then.
pub(crate) async fn whole(files: &Files, path: &str) -> Result<(FileContent, [u8; 32]), Trouble> {
    let content = match files.read(path, Range::first(LARGEST)).await {
        Ok(content) => content,
        Err(error) => return Err(explain(files, path, &error).await),
    };
    match content.sha256 {
        Some(digest) => Ok((content, digest)),
        None => {
            let (size, most) = (lines::size(content.stat.size), lines::size(LARGEST));
            Err(Trouble::Failed(format!(
                "{path} has {size}; files up to {most} can be edited. Use bash for it"
            )))
        }
    }
}

fn told(path: &str, content: &[u8], old: &str, miss: &Miss) -> String {
    match miss {
        Miss::NotThere => {
            let text = Encoding::of(content).decode(content);
            let reason = nearest::explain(&text, old);
            format!("{path} was not changed: old_string is not in it; {reason}")
        }
        Miss::Several(lines) => {
            let (count, lines) = (lines.len(), named(lines));
            format!(
                "{path} was not changed: old_string is in it {count} times, at {lines}. \
                 Give more of the lines around the one you mean, or set replace_all"
            )
        }
        Miss::Unwritable => format!(
            "{path} was not changed: it is not UTF-8 but Latin-1, and new_string has characters \
             that cannot be written so"
        ),
    }
}

fn named(lines: &[u64]) -> String {
    let first: Vec<String> = lines.iter().take(NAMED).map(u64::to_string).collect();
    let more = if lines.len() > NAMED { " and more" } else { "" };
    format!("lines {}{more}", first.join(", "))
}
