//! Who the processes of a sandbox are.
//!
//! Inside, everything runs as `agent` (1000). Outside, that is never user 0 of
//! the machine: root hands the sandbox a range of ids that nobody has, an
//! ordinary user the only id it may, its own. In a container without a user
//! namespace the two are one, and `agent` is an id of root's range.
//!
//! Each of root's sandboxes has a range of its own. The kernel counts for a user what is
//! waited for, descriptors on their way and pages of pipes: sandboxes with one user
//! would take them from each other.

use std::os::fd::BorrowedFd;

use rustix::process::{getegid, geteuid, getpid};

use crate::wire::UserKind;

/// The user and group `agent` inside a sandbox with a user namespace.
pub const AGENT: u32 = 1000;

/// The first of the ids on the host that sandboxes made by root use, from here up to 2^31,
/// where some programs stop counting: beyond what distributions hand out to people, services
/// and containers. The first range is that of containers, where an engine asks for one.
pub const RANGE_START: u32 = 1_900_000_000;

/// `agent` as the host numbers it, where root makes the sandbox.
pub const UNMAPPED_AGENT: u32 = RANGE_START + AGENT;

/// How many ids a range has.
pub const RANGE_LENGTH: u32 = 65_536;

/// How many ranges there are.
const RANGES: u32 = ((1 << 31) - RANGE_START) / RANGE_LENGTH;

/// How ids inside a sandbox map to ids outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Ids from 0 on inside are a range of their own outside.
    OwnRange {
        /// Its first id.
        start: u32,
    },
    /// Only `agent` exists; outside it is this user and group.
    Single {
        /// The user outside.
        uid: u32,
        /// The group outside.
        gid: u32,
    },
    /// Ids are the host's: a container without a user namespace, made by root.
    Unmapped,
}

impl Identity {
    /// The identity this process can give, from its user and what its own user
    /// namespace maps (the text of `/proc/self/uid_map`).
    #[must_use]
    pub fn choose(uid_map: &str) -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        if uid == 0 && maps_range(uid_map) {
            Self::OwnRange { start: range_of(getpid().as_raw_nonzero().get().cast_unsigned()) }
        } else {
            Self::Single { uid, gid }
        }
    }

    /// The same for a sandbox in this user namespace, which may be our own.
    #[must_use]
    pub fn within(self, namespace: BorrowedFd<'_>) -> Self {
        if is_own_namespace(namespace) { Self::Unmapped } else { self }
    }

    /// The same for a container whose user namespace maps so (the text of its `uid_map`):
    /// an engine may have a range of its own in mind.
    #[must_use]
    pub fn mapped_by(self, uid_map: &str) -> Self {
        match (self, outside_of_zero(uid_map)) {
            (Self::OwnRange { .. }, Some(start)) => Self::OwnRange { start },
            _ => self,
        }
    }

    /// What that is called.
    #[must_use]
    pub fn kind(self) -> UserKind {
        match self {
            Self::OwnRange { .. } => UserKind::OwnRange,
            Self::Single { .. } => UserKind::Caller,
            Self::Unmapped => UserKind::Unmapped,
        }
    }

    /// Whether the first process may become the guest by a call, rather than by
    /// executing it. The supervisor reads what the guest's children execute. Of a
    /// process that cannot be dumped, an ordinary user may only read what became
    /// another program inside the user namespace; root may in any case.
    #[must_use]
    pub fn enters_guest(self) -> bool {
        self.is_roots()
    }

    /// Whether root makes the sandbox, so that `agent` is somebody else.
    #[must_use]
    pub fn is_roots(self) -> bool {
        matches!(self, Self::OwnRange { .. } | Self::Unmapped)
    }

    /// The user `agent`, inside.
    #[must_use]
    pub fn agent(self) -> u32 {
        match self {
            Self::OwnRange { .. } | Self::Single { .. } => AGENT,
            Self::Unmapped => UNMAPPED_AGENT,
        }
    }

    /// What is written to `uid_map` and `gid_map`.
    #[must_use]
    pub fn maps(self) -> (String, String) {
        match self {
            Self::OwnRange { start } => {
                let map = format!("0 {start} {RANGE_LENGTH}\n");
                (map.clone(), map)
            }
            Self::Single { uid, gid } => {
                (format!("{AGENT} {uid} 1\n"), format!("{AGENT} {gid} 1\n"))
            }
            Self::Unmapped => (String::new(), String::new()),
        }
    }

    /// The user outside that `agent` is.
    #[must_use]
    pub fn agent_outside(self) -> u32 {
        match self {
            Self::OwnRange { start } => start + AGENT,
            Self::Unmapped => UNMAPPED_AGENT,
            Self::Single { uid, .. } => uid,
        }
    }

    /// Whose files, inside, are those the sandbox itself needs: root where there
    /// is one, else `agent`.
    #[must_use]
    pub fn builder(self) -> u32 {
        match self {
            Self::OwnRange { .. } | Self::Unmapped => 0,
            Self::Single { .. } => AGENT,
        }
    }

    /// The same user, outside.
    #[must_use]
    pub fn builder_outside(self) -> u32 {
        match self {
            Self::OwnRange { start } => start,
            Self::Unmapped => 0,
            Self::Single { uid, .. } => uid,
        }
    }
}

/// The range of the sandbox that a supervisor makes, by its number: those who live at the same
/// time have different ones, unless thousands of processes were made between them. Then they
/// share what is counted, and nothing else.
fn range_of(supervisor: u32) -> u32 {
    RANGE_START + (1 + supervisor % (RANGES - 1)) * RANGE_LENGTH
}

/// What user 0 of a user namespace is outside, from the text of its `uid_map`.
fn outside_of_zero(uid_map: &str) -> Option<u32> {
    uid_map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace();
        match (numbers.next(), numbers.next()) {
            (Some("0"), Some(outside)) => outside.parse().ok(),
            _ => None,
        }
    })
}

/// Whether a user namespace is this process's own; one that cannot be looked at is not.
pub(crate) fn is_own_namespace(namespace: BorrowedFd<'_>) -> bool {
    let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let own = rustix::fs::stat("/proc/self/ns/user").map(number);
    own.is_ok() && own == rustix::fs::fstat(namespace).map(number)
}

fn maps_range(uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(inside), Some(_), Some(length)) => {
                let all = u64::from(RANGES) * u64::from(RANGE_LENGTH);
                inside <= u64::from(RANGE_START) && inside + length >= u64::from(RANGE_START) + all
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_namespace_has_room_for_a_range_and_a_containers_has_not() {
        assert!(maps_range("         0          0 4294967295\n"));
        assert!(!maps_range(
            "         0       1000          1\n         1     100000      65536\n"
        ));
        assert!(!maps_range(""));
    }

    #[test]
    fn supervisors_have_ranges_of_their_own() {
        let mut starts: Vec<u32> = (70_000..70_000 + RANGES - 1).map(range_of).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), RANGES as usize - 1, "thousands in a row have different ones");
        for start in [starts.first(), starts.last()].map(|start| *start.unwrap()) {
            assert!(start > RANGE_START && start + RANGE_LENGTH <= 1 << 31, "{start}");
            assert_eq!((start - RANGE_START) % RANGE_LENGTH, 0);
        }
    }

    #[test]
    fn nobody_inside_is_user_zero_of_the_machine_when_root_makes_the_sandbox() {
        let identity = Identity::OwnRange { start: RANGE_START };
        let (uid_map, gid_map) = identity.maps();
        assert_eq!(uid_map, "0 1900000000 65536\n");
        assert_eq!(uid_map, gid_map);
        assert_eq!(identity.agent_outside(), 1_900_001_000);
    }

    #[test]
    fn a_container_may_have_another_range() {
        let identity = Identity::OwnRange { start: RANGE_START };
        let mapped = identity.mapped_by("         0     100000      65536\n");
        assert_eq!(mapped, Identity::OwnRange { start: 100_000 });
        assert_eq!((mapped.agent(), mapped.agent_outside()), (AGENT, 101_000));
        assert_eq!(identity.mapped_by(""), identity);
        let user = Identity::Single { uid: 1001, gid: 1002 };
        assert_eq!(user.mapped_by("0 100000 65536\n"), user);
    }

    #[test]
    fn an_ordinary_user_is_the_agent_and_nobody_else_exists() {
        let identity = Identity::Single { uid: 1001, gid: 1002 };
        assert_eq!(identity.maps(), ("1000 1001 1\n".to_owned(), "1000 1002 1\n".to_owned()));
    }
}
