//! What a host asks of a guest, and what the guest answers.
//!
//! Names and paths are bytes: a file system knows no encoding. Variants are
//! numbered by their order here; new ones go to the end, and a change to an
//! existing one is a new version of the protocol.

use serde::{Deserialize, Serialize};

/// What a host asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Run a command.
    Exec(Exec),
    /// Do something with files beneath the workspace.
    File(FileRequest),
    /// Connect to something that listens inside the sandbox. Input goes to it,
    /// what it sends is output. It ends with the connection of the host.
    Tunnel(TunnelTarget),
    /// Say which calls are running or kept.
    Calls,
}

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// What to run.
    pub program: Program,
    /// Where: an absolute path inside the sandbox.
    pub cwd: Vec<u8>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Give it a terminal of this size; its output is then all on
    /// [`crate::Channel::Output`].
    pub pty: Option<PtySize>,
    /// End it after this many milliseconds.
    pub timeout_ms: Option<u64>,
    /// Between asking it to end (SIGTERM) and ending it (SIGKILL), at a time-out.
    pub grace_ms: u64,
    /// What becomes of its output when nobody reads.
    pub output: OutputMode,
    /// What becomes of processes it leaves behind.
    pub leftovers: Leftovers,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// A program and its arguments, with no shell in between. A name without a
    /// slash is looked for in the command's own `PATH`.
    Argv(Vec<Vec<u8>>),
    /// A script for `/bin/sh -c`.
    Shell(Vec<u8>),
}

/// What a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    Null,
    /// What the host sends on [`crate::Channel::Input`].
    Piped,
}

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Lines.
    pub rows: u16,
    /// Characters a line.
    pub cols: u16,
}

/// What becomes of output when nobody reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputMode {
    /// Everything is passed on; the command waits when the host is slow.
    Stream,
    /// The command never waits: of each channel the first and the last
    /// `limit / 2` bytes are kept, what is between them is dropped and counted.
    Capture {
        /// Bytes kept of each channel.
        limit: u64,
    },
}

/// What becomes of processes that a command leaves behind when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leftovers {
    /// They go on.
    Keep,
    /// They are killed.
    Kill,
}

/// What to do with a running call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Send a signal to every process of the call.
    Signal(i32),
    /// The terminal has a new size.
    Resize(PtySize),
    /// End the call now, every process of it.
    Kill,
}

/// Where a tunnel leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TunnelTarget {
    /// A TCP port on the sandbox's loopback address.
    Tcp(u16),
    /// A Unix socket at this path inside the sandbox.
    Unix(Vec<u8>),
}

/// What a guest answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Exec`].
    Exec(ExecReport),
    /// To [`Request::File`].
    File(Result<FileReply, FileError>),
    /// To [`Request::Tunnel`]: closed in order, or the number and text of the
    /// error that ended it.
    Tunnel(Result<(), (i32, String)>),
    /// To [`Request::Calls`].
    Calls(Vec<CallState>),
    /// To any: it was not begun.
    Refused(Refusal),
}

/// Why a request was not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The id names a call that is running or kept.
    #[error("the call id is in use")]
    IdInUse,
    /// No call of that id is running or kept.
    #[error("no call of that id is running or kept")]
    Unknown,
    /// Too many calls are running or kept; acknowledge some.
    #[error("the guest already holds {0} calls; end or acknowledge some")]
    Full(u32),
    /// The guest has no means left (file descriptors, processes, memory).
    #[error("the guest cannot begin the call: {0}")]
    Exhausted(String),
}

/// A call that is running or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallState {
    /// Its id.
    pub call: u64,
    /// Whether it still runs.
    pub running: bool,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecReport {
    /// The way it ended.
    pub end: ExecEnd,
    /// Bytes it wrote to stdout (or the terminal), and how many of them were
    /// dropped.
    pub output: (u64, u64),
    /// The same for stderr.
    pub error: (u64, u64),
    /// Microseconds from start to end.
    pub duration_us: u64,
    /// Microseconds of CPU time of it and the descendants that were waited for.
    pub cpu_us: u64,
    /// Bytes of the largest resident set of any one of them.
    pub peak_memory: u64,
    /// How many of its processes were still running when it ended.
    pub left_running: u32,
}

/// The way a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Because its time was up.
    TimedOut,
    /// It could not be started: the error's number, and what failed.
    NotStarted(i32, String),
    /// The process that watched it was killed by something inside the sandbox,
    /// and the command with it.
    Lost,
}

/// Something to do with files. Paths are relative to the workspace, or absolute
/// and beneath it; no path component may lead out of it, by `..` or by link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Send a file's bytes `offset..offset + limit` as output.
    Read {
        /// The file.
        path: Vec<u8>,
        /// Where to begin.
        offset: u64,
        /// How many bytes at most.
        limit: u64,
    },
    /// Write the call's input to a file, in one step: a reader sees the old
    /// content or the new, never a mixture. Not so [`WriteMode::Append`]: it adds
    /// the input as it comes, and what was added stays when the rest does not come.
    Write {
        /// The file; missing parent directories are made.
        path: Vec<u8>,
        /// What may be there already.
        mode: WriteMode,
        /// Permission bits for a new file; an existing one keeps its own.
        permissions: u32,
    },
    /// Replace text in a file, in one step, if the file is still as expected.
    Replace {
        /// The file.
        path: Vec<u8>,
        /// What to look for.
        old: Vec<u8>,
        /// What to put there.
        new: Vec<u8>,
        /// Replace every occurrence; otherwise there must be exactly one.
        all: bool,
        /// SHA-256 the content must have.
        expected: Option<[u8; 32]>,
    },
    /// Send the [`Entry`] records of a directory as output.
    List {
        /// The directory.
        path: Vec<u8>,
        /// How many levels: 1 is the directory's own entries.
        depth: u32,
        /// How many entries at most.
        limit: u32,
    },
    /// Describe one file, without following a link at its end.
    Stat {
        /// The file.
        path: Vec<u8>,
    },
    /// Send the [`Entry`] records of files whose path matches, as output.
    Glob {
        /// Beneath which directory.
        path: Vec<u8>,
        /// The pattern, relative to that directory: `**/*.rs`.
        pattern: String,
        /// Leave out what `.gitignore` and the like leave out.
        respect_ignore: bool,
        /// How many entries at most.
        limit: u32,
    },
    /// Send the [`Match`] records of lines that match, as output.
    Search {
        /// Beneath which directory, or in which file.
        path: Vec<u8>,
        /// A regular expression.
        pattern: String,
        /// Treat the pattern as plain text.
        literal: bool,
        /// Ignore upper and lower case.
        ignore_case: bool,
        /// Only files whose path matches this.
        glob: Option<String>,
        /// Leave out what `.gitignore` and the like leave out.
        respect_ignore: bool,
        /// Lines before and after each match.
        context: u32,
        /// How many matches at most.
        limit: u32,
    },
    /// Rename.
    Move {
        /// What.
        from: Vec<u8>,
        /// Its new path; missing parent directories are made.
        to: Vec<u8>,
        /// Replace what is there.
        overwrite: bool,
    },
    /// Make a directory and its missing parents.
    MakeDirectory {
        /// The directory.
        path: Vec<u8>,
    },
    /// Delete.
    Delete {
        /// What.
        path: Vec<u8>,
        /// Also a directory that is not empty.
        recursive: bool,
    },
    /// Unpack the tar archive that comes as input.
    Unpack {
        /// Into which directory; it is made if missing.
        path: Vec<u8>,
    },
    /// Send a tar archive as output.
    Pack {
        /// Of which directory or file.
        path: Vec<u8>,
        /// Leave out what `.gitignore` and the like leave out.
        respect_ignore: bool,
    },
}

/// What may be there when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// Nothing: the file is new.
    Create,
    /// Nothing or a file, which is replaced.
    Replace,
    /// A file with this SHA-256, which is replaced.
    ReplaceIf([u8; 32]),
    /// Nothing or a file, to whose end the input is added piece by piece.
    Append,
}

/// How a file request went well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileReply {
    /// To `Read`.
    Read {
        /// The file as it was opened.
        stat: FileStat,
        /// SHA-256 of the whole content, when the whole content was sent.
        sha256: Option<[u8; 32]>,
    },
    /// To `Write` and `Replace`.
    Written {
        /// Its size now.
        size: u64,
        /// SHA-256 of its content now; `None` after `Append`.
        sha256: Option<[u8; 32]>,
        /// How many places were replaced (`Replace`), else 0.
        replaced: u32,
    },
    /// To `List`, `Glob` and `Search`.
    Listed {
        /// How many records were sent.
        records: u32,
        /// Whether the limit left some out.
        more: bool,
        /// Places that could not be read, at most 100 of them, with the reason.
        unreadable: Vec<(Vec<u8>, String)>,
    },
    /// To `Stat`.
    Stat(FileStat),
    /// To `Move` and `MakeDirectory`.
    Done,
    /// To `Delete`.
    Deleted {
        /// How many files and directories.
        entries: u64,
    },
    /// To `Unpack` and `Pack`.
    Archived {
        /// How many entries.
        entries: u64,
        /// Bytes of file content.
        bytes: u64,
        /// What was left out, at most 100 of them, with the reason.
        skipped: Vec<(Vec<u8>, String)>,
    },
}

/// Why a file request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FileError {
    /// Nothing of that name.
    #[error("no such file or directory")]
    NotFound,
    /// The path leads out of the workspace.
    #[error("the path leads out of the workspace")]
    Outside,
    /// It is no regular file.
    #[error("not a regular file")]
    NotFile,
    /// It is no directory.
    #[error("not a directory")]
    NotDirectory,
    /// It is a directory with something in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Something of that name is there.
    #[error("something of that name exists")]
    Exists,
    /// The content is not what was expected; this is the SHA-256 it has.
    #[error("the file has changed since it was read")]
    Changed([u8; 32]),
    /// The text to replace is not in the file.
    #[error("the text to replace is not in the file")]
    NoMatch,
    /// The text to replace is there more than once.
    #[error("the text to replace is in the file {0} times")]
    Ambiguous(u32),
    /// The file is larger than this operation takes.
    #[error("the file has {size} bytes; this operation takes at most {limit}")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The most that would do.
        limit: u64,
    },
    /// A pattern that cannot be understood.
    #[error("invalid pattern: {0}")]
    Pattern(String),
    /// An archive that cannot be read.
    #[error("invalid archive: {0}")]
    Archive(String),
    /// The disk limit of the workspace is reached.
    #[error("no space left in the workspace")]
    NoSpace,
    /// The file's permissions do not allow it.
    #[error("permission denied")]
    Denied,
    /// The call was killed.
    #[error("the operation was ended before it was done")]
    Killed,
    /// Any other error of the system.
    #[error("{message}")]
    Io {
        /// Its number.
        errno: i32,
        /// Its text.
        message: String,
    },
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else: a socket, a pipe, a device.
    Other,
}

/// A file, described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of content.
    pub size: u64,
    /// Bytes it takes on disk.
    pub allocated: u64,
    /// Permission bits.
    pub permissions: u32,
    /// Nanoseconds since 1970 of the last change of its content.
    pub modified_ns: i64,
}

/// One file of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path, relative to the workspace.
    pub path: Vec<u8>,
    /// What it is.
    pub stat: FileStat,
    /// Where a link points, as written.
    pub link: Option<Vec<u8>>,
}

/// One matching line, or a line of its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The file's path, relative to the workspace.
    pub path: Vec<u8>,
    /// The line's number, from 1.
    pub line: u64,
    /// The line without its end, at most 64 KiB of it.
    pub text: Vec<u8>,
    /// Whether it matches; otherwise it is context.
    pub matched: bool,
}
