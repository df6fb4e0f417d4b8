//! Archives at the edges of a sandbox: a workspace handed over as a ZIP or a
//! compressed tar archive, with a manifest of what is in it and how it came about;
//! what a job changed as a patch; and an uploaded archive taken in.
//!
//! The archive is made while it is sent. What it takes in memory does not depend
//! on the files' sizes: about 200 bytes for each entry, and the names. Nothing in
//! a workspace is trusted: no name leads out or takes another one's place, on no
//! system it may be unpacked on, and no link leads out. What is left out or had
//! to be renamed stands in the manifest.
//!
//! An archive that could not be completed has no end, so that no reader takes it
//! for a whole one.

mod about;
mod archive;
mod bundle;
mod component;
mod draft;
mod entries;
mod error;
mod ignored;
mod intake;
mod links;
mod manifest;
mod moment;
mod names;
mod output;
mod patch;
mod pick;
mod plain;
mod records;
mod source;
mod spool;
mod tar_form;
mod tar_zst;
mod target;
mod zip_form;

pub use about::{About, CheckRun, CommandRun, IsolationUsed, ModelUsed, Status};
pub use archive::Format;
pub use bundle::Summary;
pub use error::BundleError;
pub use ignored::{Contents, IgnoredPart, IgnoredPlace};
pub use intake::{IntakeError, IntakeLimits, IntakeSummary, UploadFormat, intake};
pub use manifest::{FileRow, LeftOutRow, MANIFEST_VERSION, Original};
pub use output::{Wanted, archive_file, archive_to, tar_zst_to, zip_file, zip_to};
pub use patch::{PatchSummary, patch_to};
pub use pick::{PickError, pick};
pub use records::Reading;
pub use target::check_target;
