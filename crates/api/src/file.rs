//! The files of a job's workspace.
//!
//! Names are bytes. In a query they are percent-encoded, whatever they are; in
//! JSON a name that is not UTF-8 is shown with `U+FFFD` in place of what is not,
//! and its bytes stand beside it in base64.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else: a socket, a pipe, a device.
    Other,
}

/// One file of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// Its path, relative to the workspace.
    pub path: String,
    /// The bytes of its path in base64, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of content.
    pub size: u64,
    /// Permission bits.
    pub permissions: u32,
    /// When its content last changed.
    #[schema(format = DateTime)]
    pub modified: String,
    /// Where a link points, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// The files of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// The directory, relative to the workspace.
    pub path: String,
    /// What is in it, by name.
    pub entries: Vec<FileEntry>,
    /// Whether there is more than one answer holds.
    pub more: bool,
    /// Places that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Unreadable>,
}

/// A place that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unreadable {
    /// Which.
    pub path: String,
    /// Why not.
    pub reason: String,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileWritten {
    /// Its path.
    pub path: String,
    /// Its size now.
    pub size: u64,
    /// SHA-256 of its content now, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileDeleted {
    /// How many files and directories.
    pub entries: u64,
}

/// A file or directory is to have another path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    /// Which.
    #[schema(min_length = 1, max_length = 4096, pattern = r"^[^\u0000]*$")]
    pub from: String,
    /// Its new path.
    #[schema(min_length = 1, max_length = 4096, pattern = r"^[^\u0000]*$")]
    pub to: String,
    /// Whether what is there may be replaced.
    #[serde(default)]
    pub overwrite: bool,
}
