//! The threads that read: each with a connection of its own, none ever waiting
//! for the writer.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cofferdam_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::open;

/// Threads that read.
const THREADS: usize = 3;

/// Questions that may wait. Whoever comes then waits for a place.
const WAITING: usize = 1024;

/// How long to wait for a place before the store is too busy.
const PLACE_TIMEOUT: Duration = Duration::from_secs(30);

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the threads.
pub(crate) struct Readers {
    questions: Option<mpsc::Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts the threads. The file must be there.
    pub(crate) fn start(path: &Path) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel::<Question>(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut readers = Self { questions: Some(sender), threads: Vec::new() };
        for _ in 0..THREADS {
            let connection = open::reader(path)?;
            let receiver = Arc::clone(&receiver);
            let thread = std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&connection, &receiver))
                .map_err(|error| StoreError::Unavailable(format!("no thread to read: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Has something read.
    pub(crate) async fn ask<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let ended = || StoreError::Unavailable("its readers have ended".to_owned());
        let questions = self.questions.as_ref().ok_or_else(ended)?;
        let (answer, outcome) = oneshot::channel();
        let question: Question = Box::new(move |connection| {
            // Nobody may wait any more.
            if !answer.is_closed() {
                answer.send(read(connection)).ok();
            }
        });
        match questions.try_send(question) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ended()),
            Err(mpsc::error::TrySendError::Full(question)) => {
                let place = tokio::time::timeout(PLACE_TIMEOUT, questions.reserve()).await;
                let busy = |_| StoreError::Unavailable(format!("busy for {PLACE_TIMEOUT:?}"));
                place.map_err(busy)?.map_err(|_| ended())?.send(question);
            }
        }
        outcome.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn serve(connection: &Connection, questions: &Mutex<mpsc::Receiver<Question>>) {
    loop {
        let question = questions.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(question) = question else { return };
        question(connection);
    }
}
