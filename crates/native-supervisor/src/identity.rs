//! Who the processes of a sandbox are.
//!
//! Inside, everything runs as `agent` (1000). Outside, that is never user 0 of
//! the machine: root hands the sandbox a range of ids that nobody has, an
//! ordinary user the only id it may, its own.

use rustix::process::{getegid, geteuid};

/// The user and group `agent` inside every sandbox.
pub const AGENT: u32 = 1000;

/// The first of the ids on the host that a sandbox made by root uses. Beyond
/// what distributions hand out to people, services and containers, and below
/// 2^31, where some programs stop counting.
pub const RANGE_START: u32 = 1_900_000_000;

/// How many ids that range has.
const RANGE_LENGTH: u32 = 65_536;

/// How ids inside a sandbox map to ids outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Ids 0 to 65535 inside are a range of their own outside.
    OwnRange,
    /// Only `agent` exists; outside it is this user and group.
    Single {
        /// The user outside.
        uid: u32,
        /// The group outside.
        gid: u32,
    },
}

impl Identity {
    /// The identity this process can give, from its user and what its own user
    /// namespace maps (the text of `/proc/self/uid_map`).
    #[must_use]
    pub fn choose(uid_map: &str) -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        if uid == 0 && maps_range(uid_map) { Self::OwnRange } else { Self::Single { uid, gid } }
    }

    /// Whether the first process may become the guest by a call, rather than by
    /// executing it. The supervisor reads what the guest's children execute. Of a
    /// process that cannot be dumped, an ordinary user may only read what became
    /// another program inside the user namespace; root may in any case.
    #[must_use]
    pub fn enters_guest(self) -> bool {
        self == Self::OwnRange
    }

    /// What is written to `uid_map` and `gid_map`.
    #[must_use]
    pub fn maps(self) -> (String, String) {
        match self {
            Self::OwnRange => {
                let map = format!("0 {RANGE_START} {RANGE_LENGTH}\n");
                (map.clone(), map)
            }
            Self::Single { uid, gid } => {
                (format!("{AGENT} {uid} 1\n"), format!("{AGENT} {gid} 1\n"))
            }
        }
    }

    /// The user outside that `agent` is.
    #[must_use]
    pub fn agent_outside(self) -> u32 {
        match self {
            Self::OwnRange => RANGE_START + AGENT,
            Self::Single { uid, .. } => uid,
        }
    }

    /// Whose files, inside, are those the sandbox itself needs: root where there
    /// is one, else `agent`.
    #[must_use]
    pub fn builder(self) -> u32 {
        match self {
            Self::OwnRange => 0,
            Self::Single { .. } => AGENT,
        }
    }
}

fn maps_range(uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(inside), Some(_), Some(length)) => {
                inside <= u64::from(RANGE_START)
                    && inside + length >= u64::from(RANGE_START) + u64::from(RANGE_LENGTH)
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
    fn nobody_inside_is_user_zero_of_the_machine_when_root_makes_the_sandbox() {
        let (uid_map, gid_map) = Identity::OwnRange.maps();
        assert_eq!(uid_map, "0 1900000000 65536\n");
        assert_eq!(uid_map, gid_map);
        assert_eq!(Identity::OwnRange.agent_outside(), 1_900_001_000);
    }

    #[test]
    fn an_ordinary_user_is_the_agent_and_nobody_else_exists() {
        let identity = Identity::Single { uid: 1001, gid: 1002 };
        assert_eq!(identity.maps(), ("1000 1001 1\n".to_owned(), "1000 1002 1\n".to_owned()));
    }
}
