//! `list_files`: what is in a directory, as a tree, or the files that a pattern
//! matches. What version control ignores is left out, but for its first level.

mod tree;

use cofferdam_guest_protocol::{Entry, EntryKind, FileError};
use cofferdam_sandbox::{FilesError, Ignored, Listing};
use cofferdam_types::{ToolOutput, ToolSpec};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cut::readable;
use crate::lines::size;
use crate::paths;
use crate::tools::{Call, Tools, spec as object};
use crate::trouble::Trouble;
use tree::Tree;

pub(crate) const NAME: &str = "list_files";

/// Files that are looked at.
const LOOKED_AT: u32 = 100_000;

/// Entries of the first level that are looked at.
const FIRST_LEVEL: u32 = 10_000;

/// Lines that are shown.
const SHOWN: usize = 200;

/// Levels of a tree, if nothing else is said, and at most.
const DEPTH: u64 = 2;
const DEEPEST: u64 = 32;

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "List a directory as a tree with sizes, or the files matching a glob. Ignored files \
         (.gitignore) are left out.",
        json!({
            "path": {"type": "string", "description": "directory, default /workspace"},
            "pattern": {"type": "string", "description": "glob such as **/*.py"},
            "depth": {"type": "integer", "description": "levels, default 2"}
        }),
        &[],
    )
}

pub(crate) async fn run(
    tools: &Tools,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<ToolOutput, Trouble> {
    let path = arguments.optional_text("path")?.filter(|path| !path.is_empty()).unwrap_or(".");
    let pattern = arguments.optional_text("pattern")?.filter(|pattern| !pattern.is_empty());
    let depth = arguments.number("depth", 1..=DEEPEST)?.unwrap_or(DEPTH);
    paths::check(path)?;
    let text = match pattern {
        Some(pattern) => matching(tools, path, pattern).await?,
        None => directory(tools, path, depth).await?,
    };
    Ok(tools.done(call.call, &text).await)
}

/// The files that a pattern matches, one a line.
async fn matching(tools: &Tools, path: &str, pattern: &str) -> Result<String, Trouble> {
    let files = tools.files();
    // A name alone is meant anywhere.
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let found = files.glob(path, anywhere, Ignored::LeaveOut, LOOKED_AT).await;
    let found = match found {
        Ok(found) => found,
        Err(error) => return Err(explain(tools, path, &error).await),
    };
    let count = found.records.len();
    if count == 0 {
        return Ok(format!("no file in {path} matches {pattern} (ignored ones are not looked at)"));
    }
    let mut text = String::new();
    for entry in found.records.iter().take(SHOWN) {
        text.push_str(&format!("{}  {}\n", readable(&entry.path), described(entry)));
    }
    if count > SHOWN || found.more {
        let more = if found.more { "or more " } else { "" };
        let rest = count.saturating_sub(SHOWN);
        text.push_str(&format!("… and {rest} {more}files; narrow the pattern\n"));
    }
    Ok(text + &unreadable(&found))
}

/// A directory as a tree.
async fn directory(tools: &Tools, path: &str, depth: u64) -> Result<String, Trouble> {
    let files = tools.files();
    let (level, all) = tokio::join!(
        files.list(path, 1, FIRST_LEVEL),
        files.glob(path, "**", Ignored::LeaveOut, LOOKED_AT),
    );
    let (level, all) = match (level, all) {
        (Ok(level), Ok(all)) => (level, all),
        (Err(error), _) | (_, Err(error)) => return Err(explain(tools, path, &error).await),
    };
    if level.records.is_empty() {
        return Ok(format!("{path} is empty"));
    }
    let prefix = paths::plain(path).unwrap_or_default();
    let mut tree = Tree::default();
    for entry in &all.records {
        tree.add(&from(&prefix, entry), described(entry), entry.stat.size);
    }
    for entry in &level.records {
        tree.add_first_level(&from(&prefix, entry), entry, &described(entry));
    }
    let mut text = tree.show(usize::try_from(depth).unwrap_or(1), SHOWN);
    if all.more {
        text.push_str(&format!("[only the first {LOOKED_AT} files were counted]\n"));
    }
    Ok(text + &unreadable(&all))
}

/// An entry's path from the directory that is listed.
fn from(prefix: &str, entry: &Entry) -> String {
    let path = readable(&entry.path);
    let plain = paths::plain(&path).unwrap_or(path);
    if prefix.is_empty() {
        return plain;
    }
    let rest = plain.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
    rest.map_or(plain.clone(), str::to_owned)
}

/// What stands after an entry's name.
fn described(entry: &Entry) -> String {
    match (entry.stat.kind, &entry.link) {
        (EntryKind::Link, Some(target)) => format!("-> {}", readable(target)),
        (EntryKind::File, _) => size(entry.stat.size),
        (EntryKind::Directory, _) => String::new(),
        _ => "(no regular file)".to_owned(),
    }
}

fn unreadable(found: &Listing<Entry>) -> String {
    match found.unreadable.as_slice() {
        [] => String::new(),
        [(path, reason), rest @ ..] => {
            let others = if rest.is_empty() { "" } else { " and others" };
            format!("[could not be read: {}{others}: {reason}]\n", readable(path))
        }
    }
}

async fn explain(tools: &Tools, path: &str, error: &FilesError) -> Trouble {
    match error {
        FilesError::File(FileError::NotFound) => {
            Trouble::Failed(paths::missing(&tools.files(), path).await)
        }
        FilesError::File(FileError::NotDirectory) => {
            Trouble::Failed(format!("{path} is a file; read_file shows what is in it"))
        }
        other => Trouble::of_file(path, other),
    }
}
