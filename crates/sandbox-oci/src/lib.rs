//! Sandboxes whose first process a container engine starts: Docker, Podman, and the
//! runtimes crun and runc without any daemon; and those whose kernel is gVisor's.
//!
//! An engine gives namespaces, control groups and an end; the room inside is the one that
//! every sandbox has, built by the supervisor (`cofferdam_native_supervisor::hire`). So this
//! crate has little to do: to say what container is wanted, in the words of each engine, and
//! to find what engines have left.

mod arguments;
mod bundle;
mod container;
mod engine;
mod errand;
mod examine;
mod gvisor;
mod image;

pub use engine::{Kind, backend, backend_in};
