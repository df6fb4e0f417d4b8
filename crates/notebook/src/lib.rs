//! A job's code cells as Jupyter notebooks. Events in, text out: no I/O, no clock, and the same
//! log gives the same bytes.
//!
//! A notebook names one kernel, and JupyterLab starts that one for all of its cells. So each
//! kernel that a job used is a notebook of its own: it opens with the right language, and "run
//! all" does again what that kernel did, in its order. A mixed one would send TypeScript to
//! Python.
//!
//! Nothing in a notebook is marked as trusted: JupyterLab shows HTML and scripts that came out
//! of a sandbox only after its user has said so.

mod cell;
mod format;
mod kernels;
mod layout;
mod log;
mod markdown;
mod notebook;
mod room;

pub use cell::{Bundle, Cell, Language, Output, Part, Stream};
pub use layout::{contents, outputs};
pub use log::{Reader, Step, Story, story};
pub use notebook::{Limits, NoNotebook, Notebook, notebooks};
