//! The aide: the program in the sandbox that runs code cells and the desktop, as
//! commands of the guest like any other. What it says comes as records, and is as
//! little to be trusted as everything from there.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_aide_protocol::Size;
use cofferdam_guest_protocol::{RecordDecoder, RecordError};
use cofferdam_sandbox::{CallError, Command, OutputChunk, Process, Sandbox};
use cofferdam_types::CallId;
use serde::de::DeserializeOwned;

use crate::spool::Spool;

/// What is kept of the words that an aide says beside its records.
const WORDS: usize = 2_000;

/// How long an aide may take to begin, and to read what it is sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program, and what it finds in the sandbox.
#[derive(Clone, Debug)]
pub struct Aide {
    /// Where it is.
    pub program: PathBuf,
    /// Directories that hold kernels installed for it, as `bin` and `share` of a prefix.
    pub parts: Vec<PathBuf>,
    /// How long kernels and the desktop stay that nobody uses.
    pub idle: Duration,
    /// The screen of the desktop.
    pub screen: Size,
}

impl Aide {
    /// How long something stays that nobody uses, if nothing else is said.
    pub const IDLE: Duration = Duration::from_secs(15 * 60);

    /// The screen, if nothing else is said: the largest that models are shown as it is.
    pub const SCREEN: Size = Size { width: 1280, height: 800 };

    /// An aide.
    #[must_use]
    pub fn new(program: PathBuf, parts: Vec<PathBuf>) -> Self {
        Self { program, parts, idle: Self::IDLE, screen: Self::SCREEN }
    }

    /// The same, patient for this long.
    #[must_use]
    pub fn with_idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// The same, with desktops of this size.
    #[must_use]
    pub fn with_screen(self, screen: Size) -> Self {
        Self { screen, ..self }
    }

    /// That time as an argument of its commands: whole seconds, and at least one.
    pub(crate) fn idle_seconds(&self) -> String {
        self.idle.as_secs().max(1).to_string()
    }

    /// The directories of the host that it needs to see.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.own_directory().into_iter().chain(self.parts.iter().cloned())
    }

    /// The directory that the program itself is in.
    #[must_use]
    pub fn own_directory(&self) -> Option<PathBuf> {
        self.program.parent().map(PathBuf::from)
    }

    /// A command of it.
    pub(crate) fn command(&self, sandbox: &Sandbox, words: &[&str]) -> Command {
        let program = self.program.to_string_lossy();
        let words = std::iter::once(program.as_ref()).chain(words.iter().copied());
        let command = sandbox.argv(words.map(|word| word.as_bytes().to_vec()));
        match std::env::join_paths(&self.parts) {
            Ok(parts) if !parts.is_empty() => {
                command.env("COFFERDAM_PREFIX", parts.into_encoded_bytes())
            }
            // A path with a colon in it cannot be told; then nothing is found there.
            _ => command,
        }
    }
}

/// A command of the aide that runs, and the records that come of it.
pub(crate) struct Running<Piece> {
    process: Process,
    decoder: RecordDecoder,
    pieces: VecDeque<Piece>,
    words: Vec<u8>,
    /// What another process can go on with, where one may.
    spool: Option<Spool>,
}

impl<Piece: DeserializeOwned> Running<Piece> {
    /// Starts a command and gives it all of its input.
    pub(crate) async fn start(
        sandbox: &Sandbox,
        call: CallId,
        command: Command,
        input: impl Into<Bytes>,
    ) -> Result<Self, CallError> {
        let begin = async {
            let mut process = sandbox.start(call, command.piped()).await?;
            // One that ends without reading it says why.
            process.write_stdin(input.into()).await.ok();
            process.close_stdin();
            Ok(Self::of(process))
        };
        match tokio::time::timeout(PATIENCE, begin).await {
            Ok(begun) => begun,
            Err(_) => {
                let reason = format!("no answer within {} s", PATIENCE.as_secs());
                Err(CallError::ConnectionLost { reason })
            }
        }
    }

    fn of(process: Process) -> Self {
        let (decoder, pieces, words) = (RecordDecoder::default(), VecDeque::new(), Vec::new());
        Self { process, decoder, pieces, words, spool: None }
    }

    /// The same, so that another process can go on with it.
    pub(crate) fn with_spool(self, spool: impl Into<Option<Spool>>) -> Self {
        Self { spool: spool.into(), ..self }
    }

    /// Takes up one that an earlier process began, with what that one had taken.
    pub(crate) async fn collect(
        sandbox: &Sandbox,
        call: CallId,
        spool: Spool,
    ) -> Result<Self, CallError> {
        let process = sandbox.collect(call, spool.offsets()).await?;
        Ok(Self::of(process).with_spool(spool))
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// When what comes cannot be understood, in words.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, String> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            let again = self.spool.as_mut().map_or(Ok(None), Spool::again);
            if let Some(bytes) = again.map_err(|error| format!("it cannot be read: {error}"))? {
                self.decode(&bytes)?;
                continue;
            }
            match self.process.next_output().await {
                None => return Ok(None),
                Some(OutputChunk::Stdout(bytes)) => {
                    if let Some(spool) = &mut self.spool {
                        spool.push(&bytes);
                    }
                    self.decode(&bytes)?;
                }
                Some(OutputChunk::Stderr(bytes)) => {
                    let room = WORDS.saturating_sub(self.words.len());
                    self.words.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
                }
                Some(OutputChunk::StdoutGap(bytes)) => {
                    return Err(format!("{bytes} bytes of its output are missing"));
                }
                Some(OutputChunk::StderrGap(_)) => {}
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.decoder.push(bytes);
        loop {
            match self.decoder.next_record() {
                Ok(Some(piece)) => self.pieces.push_back(piece),
                Ok(None) => return Ok(()),
                Err(RecordError) => return Err("its output is not understood".to_owned()),
            }
        }
    }

    /// Takes the rest, which is of no more use, to its end.
    pub(crate) async fn drain(&mut self) {
        while self.process.next_output().await.is_some() {}
    }

    /// What it said beside its records.
    pub(crate) fn words(&self) -> String {
        String::from_utf8_lossy(&self.words).trim().to_owned()
    }

    /// Waits for its end, which the sandbox remembers; in words.
    pub(crate) async fn end(mut self, sandbox: &Sandbox) -> String {
        let outcome = match self.process.wait_unacknowledged().await {
            Ok(report) => sandbox.outcome(&self.process, &report).await,
            Err(error) => Err(error),
        };
        let how = match outcome {
            Ok(outcome) => format!("{outcome:?}"),
            Err(error) => error.to_string(),
        };
        format!("{how} {}", self.words()).trim_end().to_owned()
    }

    /// Lets it stay, by itself; the sandbox forgets it when it has ended.
    pub(crate) fn release(self) {
        self.process.release();
    }
}
