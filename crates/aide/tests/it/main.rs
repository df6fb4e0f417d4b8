//! The aide as the guest runs it: the real program, with real kernels and a real
//! desktop.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod aide;
mod desktop;
mod kernels;

mod deno;
mod desk_hands;
mod desk_keys;
mod desk_life;
mod desk_look;
mod desk_windows;
mod endings;
mod flow;
mod keeper;
mod python;
