//! The manifest: what is in an archive, and how it came about.
//!
//! It is the archive's last entry, because what it says is known only then.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::about::About;
use crate::error::BundleError;
use crate::ignored::IgnoredPart;
use crate::plain::Plain;
use crate::spool::Spool;

/// The version of the manifest's format.
pub const MANIFEST_VERSION: u32 = 1;

/// The manifest's name, and its name where a workspace has a file of that name.
pub(crate) const NAME: &str = "MANIFEST.json";
pub(crate) const OTHER_NAME: &str = "MANIFEST.cofferdam.json";

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Its path in the archive.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its path in the workspace, where that is another one.
    #[serde(flatten)]
    pub original: Option<Original>,
}

/// A path in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// The path. Bytes that are not UTF-8 are shown as U+FFFD.
    pub original: String,
    /// Its bytes in hexadecimal, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_hex: Option<String>,
}

impl Original {
    pub(crate) fn of(path: &[u8]) -> Self {
        let text = String::from_utf8_lossy(path);
        let original_hex = std::str::from_utf8(path).is_err().then(|| hexadecimal(path));
        Self { original: text.into_owned(), original_hex }
    }
}

/// Something of the workspace that is not in the archive, or not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutRow {
    /// Its path in the workspace.
    pub path: String,
    /// Why.
    pub why: String,
}

/// What is to be written, in this order: the short parts first.
#[derive(Serialize)]
struct Manifest<'a> {
    version: u32,
    manifest: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(flatten)]
    about: &'a About,
    cost: String,
    /// Whether everything that was left out is named: the sandbox names the
    /// first hundred places that it could not read.
    left_out_is_complete: bool,
    ignored: &'a IgnoredPart,
    #[serde(flatten)]
    rows: &'a Rows,
}

/// A directory or link that has another name than in the workspace.
#[derive(Serialize, Deserialize)]
pub(crate) struct Renamed {
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) original: Original,
}

/// The rows of a manifest, as they come up.
#[derive(Serialize)]
pub(crate) struct Rows {
    pub(crate) left_out: Spool<LeftOutRow>,
    pub(crate) renamed: Spool<Renamed>,
    pub(crate) files: Spool<FileRow>,
}

impl Rows {
    pub(crate) fn new() -> Self {
        Self { left_out: Spool::new(), renamed: Spool::new(), files: Spool::new() }
    }

    /// Writes the manifest.
    pub(crate) fn write(
        &self,
        about: &About,
        ignored: &IgnoredPart,
        name: &str,
        left_out_is_complete: bool,
        out: &mut impl Write,
    ) -> Result<(), BundleError> {
        let note = "MANIFEST.json in this archive is a file of the workspace; this is the manifest";
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            manifest: name,
            note: (name != NAME).then_some(note),
            about,
            cost: about.spent.cost.to_string(),
            left_out_is_complete,
            ignored,
            rows: self,
        };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Plain::default());
        manifest.serialize(&mut serializer).map_err(|error| BundleError::spool(&error.into()))?;
        out.write_all(b"\n").map_err(|error| BundleError::spool(&error))
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
