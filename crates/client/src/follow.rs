//! A job's events as they come: each once, in order, without a gap, however often
//! the connection breaks in between.
//!
//! A job that has ended can go on, so the event that tells of an end is not always
//! the last. The server closes the stream when the job is over; that it is, is
//! asked once more before the end is told.

use cofferdam_api::PREFIX;
use cofferdam_types::JobId;
use http::{HeaderName, HeaderValue};
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::error::ClientError;
use crate::sse::{Decoder, Event};
use crate::transport::{Ask, Reply};

/// The kind of the event after which nothing follows, unless somebody wants it.
const LAST_KIND: &str = "ended";

/// The media type of a stream.
const EVENT_STREAM: &str = "text/event-stream";

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub seq: u64,
    /// What is stored, byte for byte: one object of JSON.
    pub line: String,
}

/// Reads a job's events.
#[derive(Debug)]
pub struct Follower<'a> {
    client: &'a Client,
    job: JobId,
    /// The number of the last event that was given out.
    last: u64,
    /// Whether that told of an end.
    ended: bool,
    stream: Option<Stream>,
    /// Failures since anything new came.
    failures: u32,
}

#[derive(Debug)]
struct Stream {
    reply: Reply,
    decoder: Decoder,
    opened: Instant,
    /// When anything came last, be it a sign of life.
    heard: Instant,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(client: &'a Client, job: JobId, after: u64) -> Self {
        Self { client, job, last: after, ended: false, stream: None, failures: 0 }
    }

    /// The next event; nothing when the job is over. After an error there are no
    /// more. A call of this that is dropped loses nothing.
    ///
    /// # Errors
    /// When the server refuses, cannot be reached for a while, or leaves events
    /// out.
    pub async fn next(&mut self) -> Result<Option<Stored>, ClientError> {
        loop {
            let step = match &mut self.stream {
                Some(stream) => self.client.read(stream, self.ended).await,
                None => {
                    self.stream = match self.open().await {
                        Ok(stream) => Some(stream),
                        Err(error) => {
                            self.rest(error).await?;
                            continue;
                        }
                    };
                    continue;
                }
            };
            match step {
                Ok(Step::Event(event)) => match self.accept(event) {
                    Ok(Some(stored)) => return Ok(Some(stored)),
                    Ok(None) => {}
                    Err(error) => self.rest(error).await?,
                },
                // It stays open because the job is to go on.
                Ok(Step::Quiet) => match self.is_over().await {
                    Ok(true) => return Ok(None),
                    Ok(false) => self.ended = false,
                    Err(error) => self.rest(error).await?,
                },
                // Nothing more comes here: either that was all, or the stream has
                // ended too early.
                Ok(Step::End) => match self.is_over().await {
                    Ok(true) => return Ok(None),
                    Ok(false) => self.rest(self.lost("the stream ended too early")).await?,
                    Err(error) => self.rest(error).await?,
                },
                Err(error) => self.rest(error).await?,
            }
        }
    }

    async fn open(&self) -> Result<Stream, ClientError> {
        let mut ask = Ask::get(format!("{PREFIX}/jobs/{}/events", self.job));
        ask.accept = EVENT_STREAM;
        ask.header = (self.last > 0)
            .then(|| (HeaderName::from_static("last-event-id"), HeaderValue::from(self.last)));
        let reply = self.client.stream(&ask).await?;
        if !reply.is(EVENT_STREAM) {
            return Err(reply.nonsense("it does not send events".to_owned()));
        }
        let now = Instant::now();
        Ok(Stream { reply, decoder: Decoder::default(), opened: now, heard: now })
    }

    /// An event that is the next one; nothing for one that was given out before.
    fn accept(&mut self, event: Event) -> Result<Option<Stored>, ClientError> {
        let seq = event.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        // What has no number is no event of the job.
        let Some(seq) = seq.filter(|seq| *seq > self.last) else { return Ok(None) };
        if seq != self.last + 1 {
            return Err(self.lost(&format!("event {} was followed by {seq}", self.last)));
        }
        self.last = seq;
        self.failures = 0;
        self.ended = event.kind.as_deref() == Some(LAST_KIND);
        Ok(Some(Stored { seq, line: event.data }))
    }

    /// Whether the job is over and nothing is missing here.
    async fn is_over(&self) -> Result<bool, ClientError> {
        let page = self.client.events(self.job, self.last, 1).await?;
        Ok(page.over && !page.more && page.events.is_empty())
    }

    fn lost(&self, cause: &str) -> ClientError {
        let url = self.client.address().to_string();
        ClientError::Lost { url, cause: cause.to_owned() }
    }

    /// Leaves the stream and waits before another try; or gives the failure back, if there were enough.
    async fn rest(&mut self, error: ClientError) -> Result<(), ClientError> {
        let patience = self.client.patience();
        // A stream that lived was no failure, even if nothing happened in the job.
        let lived = |stream: Stream| stream.heard - stream.opened > patience.silence;
        if self.stream.take().is_some_and(lived) {
            self.failures = 0;
        }
        self.failures += 1;
        if !error.passes() || self.failures > patience.reconnects {
            return Err(error);
        }
        tokio::time::sleep(patience.wait(self.failures, error.retry_after())).await;
        Ok(())
    }
}

enum Step {
    Event(Event),
    /// The job's end was told, and nothing came after it.
    Quiet,
    End,
}

impl Client {
    /// The next event of a stream. After the job's end the server has little time
    /// to close it.
    async fn read(&self, stream: &mut Stream, ended: bool) -> Result<Step, ClientError> {
        loop {
            if let Some(event) = stream.decoder.next() {
                return Ok(Step::Event(event));
            }
            let reading = stream.reply.next();
            let piece = if ended {
                match timeout(self.patience().farewell, reading).await {
                    Ok(piece) => piece?,
                    Err(_) => return Ok(Step::Quiet),
                }
            } else {
                reading.await?
            };
            let Some(piece) = piece else { return Ok(Step::End) };
            stream.heard = Instant::now();
            if let Err(error) = stream.decoder.push(&piece) {
                return Err(stream.reply.nonsense(error.to_string()));
            }
        }
    }
}
