//! Names of things. One type per kind of thing, so that none can be passed in
//! another's place.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Names that are unique for ever, and sort by the time they were made.
macro_rules! unique_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, made of the current time and randomness.
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )*};
}

unique_ids! {
    /// Names one sandbox.
    SandboxId;
    /// Names one job.
    JobId;
}

/// Names that count within one job.
macro_rules! counted_ids {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    )*};
}

counted_ids! {
    /// Names one conversation of a job. The first, 0, is the orchestrator's.
    ThreadId(u32);
    /// Names one question to a model within a job.
    RequestId(u32);
    /// Names one call to a guest. The caller chooses it and never reuses it within
    /// one sandbox: a host that lost its connection asks for the result by this id.
    CallId(u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_id_survives_its_text_form() {
        let id = SandboxId::generate();
        assert_eq!(id.to_string().parse::<SandboxId>().unwrap(), id);
    }

    #[test]
    fn later_sandbox_ids_sort_after_earlier_ones() {
        let first = SandboxId::generate();
        let second = SandboxId::generate();
        assert!(first < second);
    }
}
