//! What a model can call, one file a tool: its schema, its behaviour, its tests.
//!
//! - Everything happens inside the sandbox, through its guest. The one thing kept
//!   on the host is the rest of an output that was too long to show, and, until a
//!   call's result is in safe hands, what was taken of it.
//! - A tool never fails as far as its caller is concerned: what went wrong is an
//!   output that the model can read.
//! - Every wait has a deadline and every output a size; what was cut says so, and
//!   says where the rest is.

mod aide;
mod apply_patch;
mod arguments;
mod bash;
mod cells;
mod cut;
mod desk;
mod edit_file;
mod encoding;
mod gather;
mod hands;
mod lines;
mod list_files;
mod outputs;
mod paths;
mod read_file;
mod search_files;
mod spool;
mod taken;
mod tools;
mod trouble;
mod write_file;

pub use aide::Aide;
pub use cofferdam_aide_protocol::{Desktop, Size};
pub use desk::{find_desktop, open_desktop, release_desktop, screenshot};
pub use gather::{Gathered, gather};
pub use hands::{Hands, Held};
pub use outputs::Outputs;
pub use tools::{Call, Editing, Tools, Watcher, specs};
