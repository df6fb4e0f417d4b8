//! Images: root file systems that sandboxes use in place of the machine's programs.
//!
//! An image is a directory in a store of the product's own, named by what it was made from: the
//! same content is the same image, and nothing is made twice. It comes from a definition, with
//! mmdebstrap or a container engine, or from an archive that somebody has. Sandboxes of every back
//! end see it read-only.
//!
//! An image is made in a staging directory and renamed when it is whole and on the disk. What a
//! killed process left there, or in `/var/tmp` where mmdebstrap works for an ordinary user, is
//! removed by the next one that makes an image.

mod archive;
mod bootstrap;
mod confined;
mod definition;
mod dockerfile;
mod engine;
mod engine_words;
mod entries;
mod error;
mod footprint;
mod import;
mod layers;
mod lend;
mod machine;
mod manifest;
mod needs;
mod node;
mod once;
mod plain;
mod progress;
mod python;
mod requirement;
mod room;
mod run;
mod settle;
mod sources;
mod store;
mod stream;
mod unpack;

pub use bootstrap::{Bootstrap, BuildLimits};
pub use definition::{Definition, Key, Kit, TASK, check_name, is_name};
pub use dockerfile::{dockerfile, usual_base};
pub use engine::{Builder, EngineBuild};
pub use error::ImageError;
pub use import::{Import, Naming};
pub use layers::UnpackLimits;
pub use needs::{FILES, LARGEST, Needs};
pub use progress::{Progress, Step, Unit};
pub use store::{About, Changing, Hold, Image, Kept, Pruned, Staging, Store};
pub use unpack::{Unpack, Unpacked};
