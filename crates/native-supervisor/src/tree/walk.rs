//! The way through a layer and what its contents go to, with a stack of directories instead
//! of calls.
//!
//! A failure holds back nothing but itself and the directories around it: whoever has a
//! thousand files and one that nothing can be done with keeps the thousand.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::Stat;

use super::links::Place;
use super::names;
use crate::failure::{Failure, Step};

/// Trees deeper than this are refused rather than climbed: each directory on the way is two
/// open files.
pub(super) const MAX_DEPTH: usize = 2000;

/// So many directories on the way to a failure are named.
const SHOWN: usize = 8;

/// The directory that the contents of another go to.
pub(super) struct Target {
    pub(super) directory: OwnedFd,
    /// How it was found, unless it was made.
    pub(super) found: Option<Stat>,
}

/// A directory of a layer, and the one that its contents go to.
pub(super) struct Level {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    /// Where the latter is.
    pub(super) place: Place,
    /// How the latter was found, unless it was made.
    pub(super) found: Option<Stat>,
    pub(super) name: CString,
    pub(super) stat: Stat,
    left: std::vec::IntoIter<CString>,
    /// Something in it could not be done.
    pub(super) failed: bool,
}

impl Level {
    fn new(
        from: OwnedFd,
        to: Target,
        place: Place,
        name: &CStr,
        stat: Stat,
    ) -> Result<Self, Failure> {
        let left = names(from.as_fd())
            .step_with(|| format!("read {}", name.to_string_lossy()))?
            .into_iter();
        let Target { directory: to, found } = to;
        Ok(Self { from, to, place, found, name: name.to_owned(), stat, left, failed: false })
    }

    /// The one that all others are in.
    pub(super) fn top(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<Self, Failure> {
        let stat = rustix::fs::fstat(from).step("look at the changes")?;
        let [from, to] = [from, to].map(|directory| directory.try_clone_to_owned());
        let (from, directory) = (from.step("hold the changes")?, to.step("hold the directory")?);
        let to = Target { directory, found: None };
        Self::new(from, to, Place::default(), c"the changes", stat)
    }

    /// One that is in this one.
    pub(super) fn below(
        &self,
        from: OwnedFd,
        to: Target,
        name: &CStr,
        stat: Stat,
    ) -> Result<Self, Failure> {
        Self::new(from, to, self.place.below(name), name, stat)
    }
}

/// What is done with the names of a layer.
pub(super) trait Work {
    /// Does it with one of them. Of a directory only the beginning: it is returned, and its
    /// contents are next.
    fn begin(&mut self, above: &Level, name: &CStr) -> Result<Option<Level>, Failure>;

    /// Does the rest, after the contents, whether or not all of them could be done.
    fn finish(&mut self, above: &Level, level: &Level) -> Result<(), Failure>;

    /// Whether it is given up at the first failure.
    fn gives_up(&self) -> bool {
        false
    }
}

/// Works on a layer, and returns the first failure.
pub(super) fn walk(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    work: &mut impl Work,
) -> Result<(), Failure> {
    let mut levels = vec![Level::top(from, to)?];
    let mut outcome = Ok(());
    while let Some(level) = levels.last_mut() {
        let done = if let Some(name) = level.left.next() {
            work.begin(level, &name).and_then(|below| {
                levels.extend(below);
                refuse_depth(&mut levels)
            })
        } else {
            let Some(level) = levels.pop() else { break };
            let Some(above) = levels.last_mut() else { break };
            above.failed |= level.failed;
            work.finish(above, &level)
        };
        if let Err(failure) = done {
            outcome = outcome.and(Err(located(failure, &levels)));
            if work.gives_up() {
                break;
            }
            if let Some(level) = levels.last_mut() {
                level.failed = true;
            }
        }
    }
    outcome
}

/// Leaves out what is in the last directory where that is too deep. One with nothing in it
/// is not, or what a rescue made of a deep tree could never be applied.
fn refuse_depth(levels: &mut [Level]) -> Result<(), Failure> {
    let too_deep = levels.len() > MAX_DEPTH + 1;
    let Some(level) = levels.last_mut().filter(|level| too_deep && level.left.len() > 0) else {
        return Ok(());
    };
    level.left = Vec::new().into_iter();
    Err(Failure::new(format!("directories are nested more than {MAX_DEPTH} deep")))
}

/// Says of a failure where it was, unless that is longer than anybody reads.
fn located(failure: Failure, levels: &[Level]) -> Failure {
    let path = levels.iter().skip(1).map(|level| level.name.to_string_lossy());
    let mut path: Vec<_> = path.take(SHOWN + 1).collect();
    if let Some(rest) = path.get_mut(SHOWN) {
        *rest = "…".into();
    }
    if path.is_empty() {
        return failure;
    }
    Failure { step: format!("in {}: {}", path.join("/"), failure.step), ..failure }
}
