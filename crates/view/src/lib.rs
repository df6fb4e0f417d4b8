//! What a person sees of a job while it is worked on: happenings in, text for a
//! terminal or a log out. No I/O and no clock.
//!
//! Nothing that a model, a tool, a file or a server says reaches the terminal
//! without going through [`tame`]; and whatever is shown is cut or wrapped, so
//! that the status line at the bottom never leaves a trace.

mod tame;
mod text;

mod edits;
mod fold;
mod heading;
mod line;
mod story;
mod words;

mod calls;
mod closing;
mod result;
mod told;

mod live;
mod page;
mod plain;
mod view;

pub use tame::{Tamer, tame, tame_line};
pub use text::grouped;
pub use view::{Happening, Style, View, closing};
