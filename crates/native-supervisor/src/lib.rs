//! The supervisor of one native sandbox: a small process, with one thread and
//! nothing else to do, that builds the sandbox, watches it and removes it.
//!
//! It is a process of its own for three reasons. Cloning from a large server
//! costs time in proportion to its memory; a single-threaded process may do
//! whatever it likes after a clone; and a sandbox that must outlive the server
//! needs somebody outside it who does.
//!
//! Who dies with whom: the sandbox's first process dies with its supervisor (the
//! kernel sees to that), and everything in the sandbox dies with its first
//! process. The supervisor ends with its host's connection, or, where the
//! sandbox is to linger, some time after. Control groups and files survive a
//! supervisor that was killed; whoever finds its lock free removes them.

pub mod audit;
pub mod cgroup;
pub mod claim;
pub mod confine;
pub mod doubt;
#[cfg(test)]
mod dying;
pub mod failure;
pub mod filter;
pub mod first_process;
mod follow;
mod guest_door;
pub mod hire;
pub mod identity;
pub mod mounts;
mod network;
pub mod places;
pub mod processes;
pub mod processors;
pub mod procfs;
pub mod relief;
pub mod remains;
pub mod room;
pub mod root;
pub mod sentry;
pub mod snapshot;
pub mod start;
pub mod store;
pub mod supervisor;
pub mod sys;
pub mod template;
pub mod tree;
mod waiting;
pub mod wire;

pub use cofferdam_guest::heed_children;
