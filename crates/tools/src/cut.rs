//! What a model is shown of an output: all of it, or its beginning and its end
//! with a line between them that says how much is missing and where it is.
//!
//! The one place where output is cut. An output of any length takes a few
//! mebibytes at most here, and none is kept on disk that could be shown whole. That of a
//! call goes on in another process where this one was when it died.

use std::sync::Arc;

use cofferdam_sandbox::Offsets;
use cofferdam_types::{CallId, Content, Rest, ToolOutput, ToolStatus};

use crate::outputs::{BEGINNING, END, Kept, Outputs};
use crate::taken::{Place, Taken};

/// Characters shown of an output that is cut, its beginning and its end together.
pub(crate) const SHOWN: usize = 12_000;

/// Bytes held before anything is put on disk: enough for [`SHOWN`] characters of
/// any kind, and fewer than a guest is told of as taken, so that it has these still.
const HELD: usize = 4 * SHOWN;

/// Bytes that hold what is shown of the end, and the rest of a character.
const END_SHOWN: usize = HELD / 2 + 3;

/// How far from the place of a cut a line's end is looked for.
const LINE_END: usize = 500;

/// An output as it comes.
pub(crate) struct Recording {
    outputs: Arc<Outputs>,
    name: String,
    /// The first [`HELD`] bytes.
    beginning: Vec<u8>,
    /// What came after them, in two halves: when the later one is full, the
    /// earlier one goes.
    earlier: Vec<u8>,
    later: Vec<u8>,
    total: u64,
    newlines: u64,
    kept: Option<Kept>,
    problem: Option<String>,
    /// Whether another process may go on with it, and what that needs.
    goes_on: bool,
    taken: Option<Taken>,
}

/// An output as it is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) rest: Option<Rest>,
}

impl Recording {
    /// Begins one of what a call prints, with which another process can go on.
    pub(crate) fn of_call(outputs: &Arc<Outputs>, call: CallId) -> Self {
        Self { goes_on: true, ..Self::new(outputs, call) }
    }

    /// Goes on with one where an earlier process was when it died, and says where that is:
    /// at the beginning, where nothing had to be kept.
    pub(crate) fn resume(outputs: &Arc<Outputs>, call: CallId) -> (Self, Offsets) {
        let mut recording = Self::of_call(outputs, call);
        match recording.restore() {
            Ok(offsets) => (recording, offsets),
            Err(_) => {
                // A place that does not fit must not be found by the next one either: the
                // guest counts anew for us.
                outputs.forget(call);
                (Self::of_call(outputs, call), Offsets::default())
            }
        }
    }

    fn restore(&mut self) -> std::io::Result<Offsets> {
        let (outputs, name) = (Arc::clone(&self.outputs), self.name.clone());
        let (taken, place) = Taken::open(&outputs.taken(&name))?;
        let length = place.total.min(BEGINNING);
        let kept = outputs.reopen(&name, length, |bytes| {
            let rest = self.hold_beginning(bytes);
            self.hold_end(rest);
        })?;
        let beyond = place.total - length;
        let end = taken.end(beyond)?;
        if (end.len() as u64) < beyond {
            // The end follows on nothing that is held.
            self.earlier.clear();
            self.later.clear();
        }
        self.hold_end(&end);
        (self.total, self.newlines) = (place.total, place.newlines);
        (self.kept, self.taken) = (Some(kept), Some(taken));
        Ok(place.offsets)
    }

    /// Begins one; the name is that of the call.
    pub(crate) fn new(outputs: &Arc<Outputs>, name: impl ToString) -> Self {
        Self {
            outputs: Arc::clone(outputs),
            name: name.to_string(),
            beginning: Vec::new(),
            earlier: Vec::new(),
            later: Vec::new(),
            total: 0,
            newlines: 0,
            kept: None,
            problem: None,
            goes_on: false,
            taken: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Adds what was just taken of a command, which is here now in its output.
    pub(crate) fn take(&mut self, bytes: &[u8], offsets: Offsets) {
        self.push(bytes);
        let place = Place { offsets, total: self.total, newlines: self.newlines };
        if let Some(taken) = &self.taken
            && taken.mark(place).is_err()
        {
            self.stay();
        }
    }

    /// Adds to it.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let rest = self.hold_beginning(bytes);
        if !rest.is_empty() {
            self.keep(rest);
            self.hold_end(rest);
        }
    }

    /// Holds what belongs to the beginning; the rest.
    fn hold_beginning<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = HELD - self.beginning.len();
        let (held, rest) = bytes.split_at(room.min(bytes.len()));
        self.beginning.extend_from_slice(held);
        rest
    }

    fn hold_end(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(END / 2) {
            if self.later.len() + piece.len() > END / 2 {
                std::mem::swap(&mut self.earlier, &mut self.later);
                self.later.clear();
            }
            self.later.extend_from_slice(piece);
        }
    }

    /// Puts the last bytes on disk.
    fn keep(&mut self, bytes: &[u8]) {
        if self.kept.is_none() && self.problem.is_none() {
            if self.goes_on {
                self.begin_place();
            }
            self.keep_beginning();
        }
        let Some(kept) = &mut self.kept else { return };
        let (fits, beyond) = bytes.split_at(kept.room().min(bytes.len()));
        if !fits.is_empty()
            && let Err(error) = kept.write(fits)
        {
            return self.give_up(&error);
        }
        let at = (self.total - beyond.len() as u64).saturating_sub(BEGINNING);
        if let Some(taken) = &self.taken
            && taken.keep_end(at, beyond).is_err()
        {
            self.stay();
        }
    }

    /// Where the place cannot be kept, nobody goes on with it.
    fn begin_place(&mut self) {
        let path = self.outputs.taken(&self.name);
        let created = self.outputs.make_directory().and_then(|()| Taken::create(&path));
        self.taken = created.ok();
    }

    /// Nobody can go on with it.
    fn stay(&mut self) {
        if self.taken.take().is_some() {
            std::fs::remove_file(self.outputs.taken(&self.name)).ok();
        }
    }

    fn keep_beginning(&mut self) {
        let created = self.outputs.create(&self.name);
        match created.and_then(|mut kept| kept.write(&self.beginning).map(|()| kept)) {
            Ok(kept) => self.kept = Some(kept),
            Err(error) => self.give_up(&error),
        }
    }

    fn give_up(&mut self, error: &std::io::Error) {
        self.kept = None;
        self.stay();
        self.problem = Some(error.to_string());
    }

    /// The last bytes that are held, but for the beginning.
    fn end(&self) -> Vec<u8> {
        [self.earlier.as_slice(), self.later.as_slice()].concat()
    }

    /// What is shown of it.
    pub(crate) async fn finish(mut self) -> Shown {
        if self.total <= HELD as u64 {
            let text = readable(&self.beginning);
            if text.chars().nth(SHOWN).is_none() {
                return Shown { text, rest: None };
            }
            self.keep_beginning();
            let (head, tail) = (head_of(&text), tail_of(&text));
            return self.cut(head, tail).await;
        }
        let (beginning, end) = (readable(&self.beginning), readable(&self.end_shown()));
        self.cut(head_of(&beginning), tail_of(&end)).await
    }

    /// Enough of the end to show. Where little came after the beginning, some of
    /// that belongs to the end too.
    fn end_shown(&self) -> Vec<u8> {
        let end = self.end();
        let missing = END_SHOWN.saturating_sub(end.len()).min(self.beginning.len());
        let before = self.beginning.get(self.beginning.len() - missing..).unwrap_or_default();
        let joined = [before, end.as_slice()].concat();
        let start = joined.len().saturating_sub(END_SHOWN);
        let bytes = joined.get(start..).unwrap_or_default();
        // A character that was cut in two is not shown.
        let whole = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        bytes.get(whole..).unwrap_or_default().to_vec()
    }

    async fn cut(mut self, head: &str, tail: &str) -> Shown {
        let total = self.total;
        let (mut dropped, mut problem) = (0, self.problem.take());
        let mut rest = None;
        if let Some(mut kept) = self.kept.take() {
            match finish_kept(&mut kept, total, &self.end()) {
                Ok(missing) => dropped = missing,
                Err(error) => problem = Some(error.to_string()),
            }
            if problem.is_none() {
                match kept.finish().await {
                    Ok(bytes) => rest = Some(Rest { handle: Outputs::handle(&self.name), bytes }),
                    Err(error) => problem = Some(error.to_string()),
                }
            }
        }
        let shown_lines = count_newlines(head) + count_newlines(tail);
        let lines = self.newlines.saturating_sub(shown_lines);
        let bytes = total.saturating_sub((head.len() + tail.len()) as u64);
        let next = count_newlines(head) + 1;
        let mut between = format!("[… about {bytes} bytes ({lines} lines) are left out here");
        match (&rest, problem) {
            (Some(Rest { handle, .. }), _) => {
                between.push_str(&format!(
                    "; to read them: read_file with path \"{handle}\" and offset {next}"
                ));
                if dropped > 0 {
                    between.push_str(&format!(
                        "; of {total} bytes {dropped} from the middle were not kept"
                    ));
                }
            }
            (None, problem) => {
                let reason = problem.unwrap_or_else(|| "nothing was kept".to_owned());
                between.push_str(&format!(" and could not be kept: {reason}"));
            }
        }
        between.push_str(" …]");
        let line_break = if head.ends_with('\n') { "" } else { "\n" };
        Shown { text: format!("{head}{line_break}{between}\n{tail}"), rest }
    }
}

/// Writes what of the end is not yet there; how many bytes are missing before it.
fn finish_kept(kept: &mut Kept, total: u64, end: &[u8]) -> std::io::Result<u64> {
    let beyond = total.saturating_sub(BEGINNING);
    if beyond == 0 {
        return Ok(0);
    }
    let length = usize::try_from(beyond).unwrap_or(usize::MAX).min(end.len());
    let missing = beyond - length as u64;
    if missing > 0 {
        kept.write(format!("\n[… {missing} bytes were not kept …]\n").as_bytes())?;
    }
    kept.write(end.get(end.len() - length..).unwrap_or_default())?;
    Ok(missing)
}

fn count_newlines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// The beginning of a text that is cut: at a line's end if one is near.
fn head_of(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN / 2).map_or(text.len(), |(at, _)| at);
    let head = text.get(..end).unwrap_or(text);
    match head.rfind('\n') {
        Some(at) if head.len() - at <= LINE_END => head.get(..=at).unwrap_or(head),
        _ => head,
    }
}

/// The end of a text that is cut.
fn tail_of(text: &str) -> &str {
    let start = text.char_indices().nth_back(SHOWN / 2 - 1).map_or(0, |(at, _)| at);
    let tail = text.get(start..).unwrap_or(text);
    match tail.find('\n') {
        Some(at) if at <= LINE_END && at + 1 < tail.len() => tail.get(at + 1..).unwrap_or(tail),
        _ => tail,
    }
}

/// Bytes as text. What is no UTF-8 is replaced, and so is NUL, which some
/// providers refuse.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "␀") } else { text.into_owned() }
}

/// The output of a call that made this text.
pub(crate) async fn output(
    outputs: &Arc<Outputs>,
    name: impl ToString,
    status: ToolStatus,
    text: &str,
) -> ToolOutput {
    let mut recording = Recording::new(outputs, name);
    recording.push(text.as_bytes());
    let Shown { text, rest } = recording.finish().await;
    ToolOutput { rest, content: vec![Content::text(text)], ..ToolOutput::text(status, "") }
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
