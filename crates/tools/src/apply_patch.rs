//! `apply_patch`: changes to several files in one patch, all of them or none.
//!
//! Everything is read, computed and checked before the first file is written. A
//! file that somebody else changes meanwhile is not overwritten; when a write
//! fails, those before it are undone, and the answer says so.

mod commit;
mod parse;
mod place;

use std::collections::BTreeMap;

use bytes::Bytes;
use cofferdam_guest_protocol::FileError;
use cofferdam_sandbox::{Files, FilesError};
use cofferdam_types::{ToolOutput, ToolSpec, ToolStatus};
use serde_json::json;

use crate::arguments::Arguments;
use crate::edit_file::whole;
use crate::paths;
use crate::tools::{Tools, spec as object};
use crate::trouble::Trouble;
use crate::write_file::NEW_FILE;
use parse::Change;

pub(crate) const NAME: &str = "apply_patch";

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "Change files by a patch, all of it or nothing: \"*** Begin Patch\", then for each file \
         \"*** Add File: PATH\" with lines +..., \"*** Delete File: PATH\", or \
         \"*** Update File: PATH\" (then maybe \"*** Move to: PATH\") with hunks: \"@@ line \
         before\", then lines beginning with space (context), - or +. Last line: \
         \"*** End Patch\". Give about 3 lines of context. Paths are relative to /workspace.",
        json!({"input": {"type": "string", "description": "the whole patch"}}),
        &["input"],
    )
}

/// A file before and after the patch.
#[derive(Debug)]
struct Planned {
    before: Option<Before>,
    after: Option<Bytes>,
    /// Permission bits, should it be new.
    permissions: u32,
}

/// A file as it was read.
#[derive(Clone, Debug)]
struct Before {
    bytes: Bytes,
    digest: [u8; 32],
    permissions: u32,
}

type Plan = BTreeMap<String, Planned>;

pub(crate) async fn run(tools: &Tools, arguments: Arguments<'_>) -> Result<ToolOutput, Trouble> {
    let input = arguments.text("input")?;
    let unchanged = |reason: String| Trouble::Failed(format!("{reason}\nNothing was changed."));
    let changes = parse::parse(input).map_err(unchanged)?;
    let files = tools.files();
    let mut plan = Plan::new();
    for change in &changes {
        add(&files, &mut plan, change).await.map_err(|trouble| match trouble {
            Trouble::Failed(reason) => unchanged(reason),
            other => other,
        })?;
    }
    plan.retain(|_, planned| {
        let before = planned.before.as_ref().map(|before| &before.bytes);
        before != planned.after.as_ref()
    });
    if plan.is_empty() {
        return Ok(ToolOutput::text(ToolStatus::Done, "the files are already as the patch says"));
    }
    commit::commit(&files, &plan).await?;
    let line = |(path, planned): (&String, &Planned)| {
        let mark = match (&planned.before, &planned.after) {
            (None, _) => 'A',
            (Some(_), Some(_)) => 'M',
            (Some(_), None) => 'D',
        };
        format!("{mark} {path}\n")
    };
    let text: String = plan.iter().map(line).collect();
    Ok(ToolOutput::text(ToolStatus::Done, format!("applied:\n{text}")))
}

/// Adds a change to the plan.
async fn add(files: &Files, plan: &mut Plan, change: &Change) -> Result<(), Trouble> {
    match change {
        Change::Add { path, lines } => {
            let path = inside(path)?;
            let mut text = lines.join("\n");
            if !lines.is_empty() {
                text.push('\n');
            }
            create(files, plan, path, text.into(), NEW_FILE).await
        }
        Change::Delete { path } => {
            let path = inside(path)?;
            existing(files, plan, &path).await?.after = None;
            Ok(())
        }
        Change::Update { path, to, hunks } => {
            let path = inside(path)?;
            let planned = existing(files, plan, &path).await?;
            let content = planned.after.clone().unwrap_or_default();
            let permissions = planned.permissions;
            let after = place::apply(&content, hunks)
                .map_err(|reason| Trouble::Failed(format!("{path}: {reason}")))?;
            let target = to.as_deref().map(inside).transpose()?.filter(|target| *target != path);
            let Some(target) = target else {
                planned.after = Some(after.into());
                return Ok(());
            };
            planned.after = None;
            create(files, plan, target, after.into(), permissions).await
        }
    }
}

/// The path as the plan names it.
fn inside(path: &str) -> Result<String, Trouble> {
    paths::check(path)?;
    paths::plain(path).filter(|plain| !plain.is_empty()).ok_or_else(|| {
        Trouble::Failed(format!("{path}: a patch changes files beneath /workspace only"))
    })
}

/// Plans a file that must not be there yet.
async fn create(
    files: &Files,
    plan: &mut Plan,
    path: String,
    after: Bytes,
    permissions: u32,
) -> Result<(), Trouble> {
    if let Some(planned) = plan.get_mut(&path) {
        if planned.after.is_some() {
            return Err(Trouble::Failed(format!("{path}: the patch already has this file")));
        }
        planned.after = Some(after);
        return Ok(());
    }
    match files.stat(path.as_str()).await {
        Err(FilesError::File(FileError::NotFound)) => {}
        Ok(_) => {
            return Err(Trouble::Failed(format!(
                "{path} is there already; use `*** Update File:` to change it"
            )));
        }
        Err(error) => return Err(Trouble::of_file(&path, &error)),
    }
    plan.insert(path, Planned { before: None, after: Some(after), permissions });
    Ok(())
}

/// A file of the plan that must be there, read if it is not part of it yet.
async fn existing<'p>(
    files: &Files,
    plan: &'p mut Plan,
    path: &str,
) -> Result<&'p mut Planned, Trouble> {
    if !plan.contains_key(path) {
        let (content, digest) = whole(files, path).await?;
        let permissions = content.stat.permissions;
        let after = Some(content.bytes.clone());
        let before = Some(Before { bytes: content.bytes, digest, permissions });
        plan.insert(path.to_owned(), Planned { before, after, permissions });
    }
    let gone = || Trouble::Failed(format!("{path}: the patch has deleted or moved it before"));
    plan.get_mut(path).filter(|planned| planned.after.is_some()).ok_or_else(gone)
}
