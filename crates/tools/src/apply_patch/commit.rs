//! Writing a plan down: new content first, what goes last; and undoing it when
//! something fails on the way.

use cofferdam_guest_protocol::WriteMode;
use cofferdam_sandbox::{Files, FilesError};

use super::{Before, Plan, Planned};
use crate::trouble::Trouble;

/// Something that was done.
enum Done<'p> {
    Created(&'p str),
    Replaced(&'p str, &'p Before, Option<[u8; 32]>),
    Deleted(&'p str, &'p Before),
}

/// Carries a plan out, or leaves everything as it was.
pub(super) async fn commit(files: &Files, plan: &Plan) -> Result<(), Trouble> {
    let mut done = Vec::new();
    let (writes, deletions): (Vec<_>, Vec<_>) =
        plan.iter().partition(|(_, planned)| planned.after.is_some());
    for (path, planned) in writes.into_iter().chain(deletions) {
        match step(files, path, planned).await {
            Ok(Some(step)) => done.push(step),
            Ok(None) => {}
            Err(error) => return Err(undo(files, path, &error, done).await),
        }
    }
    Ok(())
}

async fn step<'p>(
    files: &Files,
    path: &'p str,
    planned: &'p Planned,
) -> Result<Option<Done<'p>>, FilesError> {
    Ok(match (&planned.before, &planned.after) {
        (None, None) => None,
        (None, Some(after)) => {
            let mode = WriteMode::Create;
            files.write(path, after.clone(), mode, planned.permissions).await?;
            Some(Done::Created(path))
        }
        (Some(before), Some(after)) => {
            let mode = WriteMode::ReplaceIf(before.digest);
            let written = files.write(path, after.clone(), mode, before.permissions).await?;
            Some(Done::Replaced(path, before, written.sha256))
        }
        (Some(before), None) => {
            files.delete(path, false).await?;
            Some(Done::Deleted(path, before))
        }
    })
}

/// Undoes what was done, the last first, and says what became of it.
async fn undo(files: &Files, path: &str, error: &FilesError, done: Vec<Done<'_>>) -> Trouble {
    let cause = Trouble::of_file(path, error);
    let (Trouble::Failed(cause) | Trouble::Refused(cause) | Trouble::Unknown(cause)) = cause;
    let mut stuck = Vec::new();
    for step in done.into_iter().rev() {
        let (path, outcome) = match step {
            Done::Created(path) => (path, files.delete(path, false).await.map(drop)),
            Done::Replaced(path, before, digest) => {
                let mode = digest.map_or(WriteMode::Replace, WriteMode::ReplaceIf);
                (path, write_back(files, path, before, mode).await)
            }
            Done::Deleted(path, before) => {
                (path, write_back(files, path, before, WriteMode::Create).await)
            }
        };
        if let Err(error) = outcome {
            stuck.push(format!("{path} ({error})"));
        }
    }
    if stuck.is_empty() {
        return Trouble::Failed(format!(
            "{cause}\nWhat had been written was undone: nothing was changed."
        ));
    }
    Trouble::Unknown(format!("{cause}\nThese could not be put back: {}", stuck.join(", ")))
}

async fn write_back(
    files: &Files,
    path: &str,
    before: &Before,
    mode: WriteMode,
) -> Result<(), FilesError> {
    files.write(path, before.bytes.clone(), mode, before.permissions).await.map(drop)
}
