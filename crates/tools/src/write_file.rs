//! `write_file`: a whole file, new or replaced, in one step.

use bytes::Bytes;
use cofferdam_guest_protocol::{FileError, WriteMode};
use cofferdam_sandbox::FilesError;
use cofferdam_types::{ToolOutput, ToolSpec, ToolStatus};
use serde_json::json;

use crate::arguments::Arguments;
use crate::lines::count_lines;
use crate::paths;
use crate::tools::{Tools, spec as object};
use crate::trouble::Trouble;

pub(crate) const NAME: &str = "write_file";

/// Permission bits of a new file.
pub(crate) const NEW_FILE: u32 = 0o644;

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "Write a whole file. Makes missing directories; replaces what is there.",
        json!({
            "path": {"type": "string", "description": "relative to /workspace"},
            "content": {"type": "string"}
        }),
        &["path", "content"],
    )
}

pub(crate) async fn run(tools: &Tools, arguments: Arguments<'_>) -> Result<ToolOutput, Trouble> {
    let (path, content) = (arguments.text("path")?, arguments.text("content")?);
    paths::check(path)?;
    let files = tools.files();
    let bytes = Bytes::copy_from_slice(content.as_bytes());
    // Nearly every file is new: asking first would be a question too many.
    let (written, verb) = match files.write(path, bytes.clone(), WriteMode::Create, NEW_FILE).await
    {
        Ok(written) => (written, "created"),
        Err(FilesError::File(FileError::Exists)) => {
            let replaced = files.write(path, bytes, WriteMode::Replace, NEW_FILE).await;
            (replaced.map_err(|error| failed(path, &error))?, "replaced")
        }
        Err(error) => return Err(failed(path, &error)),
    };
    let (lines, size) = (count_lines(content.as_bytes()), written.size);
    let text = format!("{verb} {path}: {lines} lines, {size} bytes");
    Ok(ToolOutput::text(ToolStatus::Done, text))
}

fn failed(path: &str, error: &FilesError) -> Trouble {
    match error {
        FilesError::File(FileError::NotFile) => Trouble::Failed(format!(
            "{path}: there is a directory, or something else that is no regular file"
        )),
        FilesError::File(FileError::NotDirectory) => {
            Trouble::Failed(format!("{path}: a part of the path is a file, not a directory"))
        }
        other => Trouble::of_file(path, other),
    }
}
