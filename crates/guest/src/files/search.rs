//! Searching files for lines.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use cofferdam_guest_protocol::{FileError, FileReply, FileRequest, Match, encode_record};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind,
    SinkFinish, SinkMatch,
};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{self, LeftOut};
use super::list::{Pattern, from_workspace};
use super::records::Records;
use super::resolve::Workspace;
use super::walk::{Scope, Walk};

/// Bytes of a line that are sent.
const LONGEST_LINE: usize = 64 << 10;

/// Memory for the lines of one file; a file with longer ones is left out.
const MEMORY: usize = 32 << 20;

/// Memory for the compiled pattern.
const PATTERN_MEMORY: usize = 32 << 20;

/// Lines of context on either side.
const MOST_CONTEXT: u32 = 1_000;

/// Records gathered before they are sent although the file might prove binary.
const GATHERED: usize = 1 << 20;

/// Sends the lines that match, with their context.
pub(super) fn search(
    workspace: &Workspace,
    request: &FileRequest,
    output: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let FileRequest::Search {
        path,
        pattern,
        literal,
        ignore_case,
        glob,
        respect_ignore,
        context,
        limit,
    } = request
    else {
        return Err(error::io(Errno::INVAL));
    };
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(*ignore_case)
        .fixed_strings(*literal)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .build(pattern)
        .map_err(|error| FileError::Pattern(error.to_string()))?;
    let glob = glob.as_deref().map(Pattern::for_files).transpose()?;
    let mut search = Search {
        matcher,
        searcher: searcher((*context).min(MOST_CONTEXT)),
        records: Records::new(output, *limit),
    };
    let mut left_out = LeftOut::default();

    let start = workspace.relative(path)?;
    let scope = if *respect_ignore { Scope::NotIgnored } else { Scope::Everything };
    let mut walk = match Walk::new(workspace, &start, scope, &mut left_out) {
        Ok(walk) => walk,
        Err(FileError::NotDirectory) => {
            let (file, _) = workspace.open_file(&start, OFlags::RDONLY, Mode::empty())?;
            search.file(file, start.as_bytes(), &mut left_out)?;
            search.records.left_out = left_out;
            return search.records.finish().map_err(|error| error::of_std(&error));
        }
        Err(other) => return Err(other),
    };
    while let Some(found) = walk.step(&mut left_out) {
        let chosen = || glob.as_ref().is_none_or(|glob| glob.matches(&found.path));
        if found.kind == FileType::Directory {
            if glob.as_ref().is_some_and(|glob| !glob.may_match_beneath(&found.path)) {
                walk.skip();
            }
            continue;
        }
        if found.kind != FileType::RegularFile || !chosen() {
            continue;
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = from_workspace(&start, &found.path);
        let opened = walk
            .place()
            .and_then(|place| rustix::fs::openat(place, &found.name, flags, Mode::empty()));
        match opened {
            Ok(file) => {
                if !search.file(file, &path, &mut left_out)? {
                    break;
                }
            }
            Err(Errno::NOENT) => {}
            Err(errno) => left_out.add(&path, errno),
        }
    }
    search.records.left_out = left_out;
    search.records.finish().map_err(|error| error::of_std(&error))
}

fn searcher(context: u32) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context as usize)
        .after_context(context as usize)
        .line_number(true)
        .heap_limit(Some(MEMORY))
        .memory_map(MmapChoice::never())
        .build()
}

struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    records: Records,
}

impl Search {
    /// Searches one file; false when the limit is reached.
    fn file(
        &mut self,
        file: OwnedFd,
        path: &[u8],
        left_out: &mut LeftOut,
    ) -> Result<bool, FileError> {
        // What it was when its name was read may not be what was opened.
        let regular = rustix::fs::fstat(&file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if !regular {
            return Ok(true);
        }
        let mut lines = Lines {
            path,
            records: &mut self.records,
            bytes: Vec::new(),
            count: 0,
            matched: 0,
            full: false,
            broken: None,
        };
        let outcome = self.searcher.search_file(&self.matcher, &File::from(file), &mut lines);
        let (full, broken) = (lines.full, lines.broken.take());
        if let Some(error) = broken {
            return Err(error::of_std(&error));
        }
        if let Err(error) = outcome {
            left_out.add(path, error);
        }
        Ok(!full)
    }
}

/// Takes the lines of one file.
struct Lines<'a> {
    path: &'a [u8],
    records: &'a mut Records,
    bytes: Vec<u8>,
    /// Records in `bytes`, and how many of them are matches.
    count: u32,
    matched: u32,
    full: bool,
    /// The output failed.
    broken: Option<io::Error>,
}

impl Lines<'_> {
    fn take(&mut self, line: Option<u64>, text: &[u8], matched: bool) -> bool {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let text = text.get(..LONGEST_LINE).unwrap_or(text).to_vec();
        let record = Match { path: self.path.to_vec(), line: line.unwrap_or(0), text, matched };
        if encode_record(&record, &mut self.bytes).is_ok() {
            self.count += 1;
            self.matched += u32::from(matched);
        }
        self.bytes.len() < GATHERED || self.send()
    }

    fn send(&mut self) -> bool {
        let sent = self.records.send_matches(&self.bytes, self.count, self.matched);
        self.bytes.clear();
        self.count = 0;
        self.matched = 0;
        self.broken = sent.err();
        self.broken.is_none()
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matched == self.records.room() {
            self.records.cut();
            self.full = true;
            return Ok(false);
        }
        Ok(self.take(found.line_number(), found.bytes(), true))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        // What leads up to a match that is over the limit is of no use.
        if *context.kind() == SinkContextKind::Before && self.matched == self.records.room() {
            return Ok(true);
        }
        Ok(self.take(context.line_number(), context.bytes(), false))
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        if finish.binary_byte_offset().is_some() {
            self.bytes.clear();
            self.count = 0;
            self.matched = 0;
            return Ok(());
        }
        self.send();
        Ok(())
    }
}
