//! Namespaces that show the files of a workspace's owner as the agent's. To make
//! one takes a process; each serves all sandboxes on directories of that owner.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A user and a group.
type Owner = (u32, u32);

/// As many owners are remembered.
const MOST: usize = 64;

/// What supervisors have made so far.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    made: Mutex<HashMap<Owner, OwnedFd>>,
}

impl Owners {
    /// The owner of a directory and the namespace for it, if there is one.
    pub(crate) fn of(&self, directory: Option<&Path>) -> Option<(Owner, OwnedFd)> {
        let found = std::fs::metadata(directory?).ok()?;
        let owner = (found.uid(), found.gid());
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        Some((owner, made.get(&owner)?.try_clone().ok()?))
    }

    /// Keeps one for later.
    pub(crate) fn remember(&self, made: Option<(Owner, OwnedFd)>) {
        let Some((owner, namespace)) = made else { return };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < MOST {
            made.insert(owner, namespace);
        }
    }
}
