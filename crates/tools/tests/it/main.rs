//! The tools, in real sandboxes.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod apply_patch;
mod bash;
mod bash_background;
mod bash_state;
mod cells;
mod desk;
mod edit_file;
mod gather;
mod lab;
mod list_files;
mod outputs;
mod plain_shell;
mod read_file;
mod search_files;
mod write_file;
