//! The seam to an isolated place, the client of the guest inside it, and the
//! suite every back end must pass.

mod backend;

pub use backend::{
    Audit, Backend, Capabilities, Fact, Grade, GuestStream, Isolation, Lifetime, OpenError,
    Reconciled, Room, RoomError, Root, Snapshot, Spec, Stream, WORKSPACE, Workspace,
};
