//! A model with a thread of its own.
//!
//! What it computes would hold up everything else on the runtime, so it happens on one
//! thread beside it: texts wait their turn, a few questions at most, and a question
//! that nobody waits for any more is dropped between two texts. The thread ends with
//! the embedder. Reading the files happens there too: a file that makes the reader
//! panic is an error like others.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use cofferdam_recall::{Embed, RecallError};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc as queue, oneshot};

use crate::error::OpenError;
use crate::files::Files;
use crate::library;
use crate::model::{Model, Unfit};
use crate::trust::Guard;
use crate::words::Words;

/// Questions that wait at once; more are refused.
const WAITING: usize = 8;
/// Texts of a question.
const MOST_TEXTS: usize = 256;
/// How long the answer to one may take, without waiting for its turn.
const WITHIN: Duration = Duration::from_secs(10);
/// How long a model may take to be ready.
const OPENING: Duration = Duration::from_secs(60);
/// What a model is tried with before anybody relies on it.
const PROBE: &str = "What does this mean?";

type Vectors = Result<Vec<Vec<f32>>, String>;

struct Asked {
    texts: Vec<String>,
    answer: oneshot::Sender<Vectors>,
}

/// A model in a file, which makes vectors of texts.
#[derive(Debug)]
pub struct OnnxEmbedder {
    /// `None` once it is over.
    questions: Option<queue::Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
}

impl OnnxEmbedder {
    /// Opens a model: an `.onnx` file, or a directory with `model.onnx` or the only
    /// such file. `tokenizer.json` is beside it. Waits until it has made its first
    /// vector, so it is nothing for the middle of asynchronous work.
    ///
    /// `theirs` are directories that sandboxes write to. Nothing is taken from there,
    /// and nothing that somebody else than root and this user could have written.
    ///
    /// # Errors
    /// When the files are not there, cannot be trusted, or are no model that makes
    /// vectors of texts.
    pub fn open(path: &Path, theirs: &[PathBuf]) -> Result<Self, OpenError> {
        let (questions, asked) = queue::channel(WAITING);
        let (tell, told) = mpsc::sync_channel(1);
        let (place, theirs) = (path.to_owned(), theirs.to_vec());
        let work = move || {
            let opened = Reader::open(&place, &theirs);
            let (reader, outcome) = match opened {
                Ok(reader) => (Some(reader), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Whoever asked may have gone; then the queue is closed as well.
            if tell.send(outcome).is_ok()
                && let Some(reader) = reader
            {
                reader.answer(asked);
            }
        };
        let thread = Builder::new().name("embedder".to_owned()).spawn(work);
        let thread = thread.map_err(OpenError::Thread)?;
        match told.recv_timeout(OPENING) {
            Ok(outcome) => outcome?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(OpenError::Slow { path: path.to_owned(), within: OPENING });
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let cause = "reading it failed in a way that nobody expected".to_owned();
                return Err(OpenError::Model { path: path.to_owned(), cause });
            }
        }
        Ok(Self { questions: Some(questions), thread: Some(thread) })
    }

    async fn ask(&self, texts: Vec<String>) -> Vectors {
        if texts.len() > MOST_TEXTS {
            return Err(format!("{} texts are more than {MOST_TEXTS}", texts.len()));
        }
        let over = || "its thread has ended".to_owned();
        let questions = self.questions.as_ref().ok_or_else(over)?;
        let (answer, answered) = oneshot::channel();
        questions.try_send(Asked { texts, answer }).map_err(|error| match error {
            queue::error::TrySendError::Full(_) => format!("{WAITING} questions wait already"),
            queue::error::TrySendError::Closed(_) => over(),
        })?;
        answered.await.map_err(|_| over())?
    }
}

impl Embed for OnnxEmbedder {
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>> {
        Box::pin(async move { self.ask(texts).await.map_err(RecallError::Embedder) })
    }
}

impl Drop for OnnxEmbedder {
    /// Waits for the thread: for one text at most.
    fn drop(&mut self) {
        drop(self.questions.take());
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            drop(thread.join());
        }
    }
}

/// What the thread has.
struct Reader {
    words: Words,
    model: Model,
}

impl Reader {
    fn open(path: &Path, theirs: &[PathBuf]) -> Result<Self, OpenError> {
        let guard = Guard::new(theirs)?;
        let Files { directory, model, tokenizer } = Files::read(path, &guard)?;
        let words = Words::read(&tokenizer.1);
        let words = words.map_err(|cause| OpenError::Tokenizer { path: tokenizer.0, cause })?;
        let environment = library::load(&directory, &guard)?;
        let unfit = |unfit: Unfit| open_error(&model.0, unfit);
        let read = Model::read(&environment, &model.1).map_err(unfit)?;
        let mut reader = Self { words, model: read };
        reader.vector(PROBE).map_err(unfit)?;
        Ok(reader)
    }

    fn vector(&mut self, text: &str) -> Result<Vec<f32>, Unfit> {
        self.model.vector(&self.words.tokens(text))
    }

    /// Answers until nobody can ask any more.
    fn answer(mut self, mut asked: queue::Receiver<Asked>) {
        while let Some(Asked { texts, answer }) = asked.blocking_recv() {
            let begun = Instant::now();
            let mut vectors = Ok(Vec::with_capacity(texts.len()));
            for text in &texts {
                let Ok(so_far) = &mut vectors else { break };
                // Whoever asked may have lost patience, or the embedder be over.
                if answer.is_closed() {
                    break;
                }
                match self.vector(text) {
                    _ if begun.elapsed() > WITHIN => {
                        vectors = Err(format!("made no vectors within {WITHIN:?}"));
                    }
                    Ok(vector) => so_far.push(vector),
                    Err(Unfit::Broken(cause) | Unfit::Purpose(cause)) => vectors = Err(cause),
                }
            }
            // Nobody may wait for it any more; the next one does.
            drop(answer.send(vectors));
        }
    }
}

fn open_error(path: &Path, unfit: Unfit) -> OpenError {
    let path: PathBuf = path.to_owned();
    match unfit {
        Unfit::Broken(cause) => OpenError::Model { path, cause },
        Unfit::Purpose(cause) => OpenError::Purpose { path, cause },
    }
}
