//! What a job has let go, found again: in an index beside the job's other files, and in
//! its log.
//!
//! The log is the truth, and the index a copy that is made when it is first needed,
//! fed from the log when something is looked for, and made anew when it is broken. A
//! job that never needs it has none. Everything here is of one job.

mod answer;
mod ask;
mod digest;
mod meaning;
mod moment;
mod original;
mod seek;
mod window;
mod workspace;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_recall::{Documents, Embed, Hit, Index, Question, RecallError, asked};
use cofferdam_sandbox::Sandbox;
use cofferdam_tools::Outputs;
use cofferdam_types::{Timestamp, ToolOutput, ToolStatus, error_chain};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::log::LogError;
use crate::past::Past;
use ask::Wanted;
use meaning::Meaning;
use workspace::Workspace;

pub(crate) use ask::{NAME, spec};

/// The index, in the job's directory.
const FILE: &str = "recall.db";

/// How long looking for what the next question may need takes at most.
const OFFERING: Duration = Duration::from_secs(2);

/// How long a recall takes at most.
const RECALLING: Duration = Duration::from_secs(20);

/// Of which reading the workspace's files takes at most so much: the rest of them is read
/// the next time.
const READING: Duration = Duration::from_secs(8);

/// Records that go into the index at once.
const AT_ONCE: usize = 64;

/// Records that are read again where filling goes on after a pause, for what they say of
/// those that follow.
const AGAIN: u64 = 64;

/// Hits that an offer is chosen from.
const CANDIDATES: usize = 12;

/// Opens indexes; the binary, which alone knows an adapter, provides it.
pub trait Indexes: Send + Sync {
    /// Opens the index in this file, which is made if it is not there.
    fn open(&self, path: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>>;
}

/// Why nothing could be looked for.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Index(#[from] RecallError),
    #[error("the job's log cannot be read")]
    Log(#[source] LogError),
    #[error("the job's directory {path} cannot be made")]
    Directory { path: PathBuf, source: std::io::Error },
}

impl Trouble {
    fn is_stale(&self) -> bool {
        matches!(self, Self::Index(RecallError::Stale(_)))
    }
}

/// What a job can look things up in.
pub(crate) struct Memory {
    past: Arc<dyn Past>,
    indexes: Arc<dyn Indexes>,
    directory: PathBuf,
    outputs: Outputs,
    index: Mutex<Option<Arc<dyn Index>>>,
    /// How far the index is filled; held while it is being filled.
    filled: Mutex<Option<Filled>>,
    workspace: Mutex<Workspace>,
    meaning: Option<Meaning>,
}

/// How far an index is filled.
struct Filled {
    through: u64,
    documents: Documents,
}

impl Memory {
    /// That of a job whose files are in this directory, which need not be there yet.
    pub(crate) fn new(past: Arc<dyn Past>, indexes: Arc<dyn Indexes>, directory: PathBuf) -> Self {
        let outputs = Outputs::in_directory(directory.join("outputs"));
        Self {
            past,
            indexes,
            directory,
            outputs,
            index: Mutex::default(),
            filled: Mutex::default(),
            workspace: Mutex::default(),
            meaning: None,
        }
    }

    /// With somebody who says what texts mean.
    pub(crate) fn with_embedder(self, embedder: Option<Arc<dyn Embed>>) -> Self {
        Self { meaning: embedder.map(Meaning::new), ..self }
    }

    /// Brings the index up to the last event. What cannot be done is told by whoever
    /// looks for something.
    pub(crate) async fn fill(&self) {
        if let Err(trouble) = self.filled().await {
            tracing::warn!(error = error_chain(&trouble), "the index of a job is not filled");
        }
    }

    /// What may be needed next of what is no longer before the model: of events up to
    /// `through`. Nothing, where nothing fits well or it takes too long.
    pub(crate) async fn offer(&self, words: &str, through: u64) -> String {
        let question = Question {
            words: words.to_owned(),
            file: None,
            from: None,
            to: None,
            through: Some(through),
            workspace: false,
            limit: CANDIDATES,
        };
        // By words alone: it comes unasked, so it has to be quick and cost nothing, and
        // only by words it is known how well something fits.
        match timeout(OFFERING, self.find(None, question)).await {
            Ok(Ok(hits)) => answer::offer(&hits, &asked(words)),
            Ok(Err(trouble)) => {
                tracing::warn!(error = error_chain(&trouble), "nothing can be offered to a job");
                String::new()
            }
            Err(_) => {
                tracing::warn!("what was let go could not be looked through in time");
                String::new()
            }
        }
    }

    /// Answers a call of the tool. `through`: the last event that it is not about itself.
    pub(crate) async fn recall(
        &self,
        sandbox: Option<&Sandbox>,
        arguments: &Map<String, Value>,
        now: Timestamp,
        through: u64,
    ) -> ToolOutput {
        let wanted = match Wanted::of(arguments, now) {
            Ok(wanted) => wanted,
            Err(reason) => {
                return ToolOutput::text(ToolStatus::Refused, format!("recall: {reason}"));
            }
        };
        let answering = async {
            match wanted {
                Wanted::Read { id, range } => self.read(id, range).await,
                Wanted::Within { id, query, limit } => self.seek(id, &query, limit).await,
                Wanted::Find(wanted) => self.list(sandbox, wanted, through).await,
            }
        };
        timeout(RECALLING, answering).await.unwrap_or_else(|_| {
            let text = format!(
                "recall: no answer within {} s. Ask again: it goes on from where it came to. \
                 By `id` it is always at hand.",
                RECALLING.as_secs()
            );
            ToolOutput::text(ToolStatus::Failed, text)
        })
    }

    async fn list(&self, sandbox: Option<&Sandbox>, wanted: ask::Find, through: u64) -> ToolOutput {
        let ask::Find { query, file, from, to, limit } = wanted;
        let has_words = !query.trim().is_empty();
        let mut notes = Vec::new();
        // One that is broken is found out before anything is read into it.
        if let Err(trouble) = self.filled().await {
            return unavailable(&trouble);
        }
        if let Some(sandbox) = sandbox.filter(|_| has_words) {
            notes.extend(self.read_workspace(sandbox).await);
        }
        let question = Question {
            words: query.clone(),
            file: file.clone(),
            from,
            to,
            through: Some(through),
            // Without words all of a file would be found, which is no answer.
            workspace: has_words && sandbox.is_some(),
            // Parts of the same event are one line of the list.
            limit: limit * 2,
        };
        let meaning = self.meaning.as_ref().map(|meaning| meaning as &dyn Embed);
        match self.find(meaning, question).await {
            Ok(hits) => {
                let hits = self.present(hits).await;
                let text = answer::list(&hits, limit, &notes);
                ToolOutput::text(ToolStatus::Done, text)
            }
            Err(trouble) => unavailable(&trouble),
        }
    }

    /// Reads what has changed in the workspace; what is to be said about it.
    async fn read_workspace(&self, sandbox: &Sandbox) -> Option<String> {
        let reading = async {
            let index = self.index().await.map_err(|trouble| error_chain(&trouble))?;
            self.workspace.lock().await.read(sandbox, &*index).await
        };
        match timeout(READING, reading).await {
            Ok(Ok(note)) => note,
            Ok(Err(reason)) => Some(format!("the workspace could not be looked through: {reason}")),
            Err(_) => Some(
                "not all files of the workspace could be looked through in time: ask again"
                    .to_owned(),
            ),
        }
    }

    /// The hits that are not from files that are gone. Those of an earlier process are
    /// still in the index where the file was removed between the two.
    async fn present(&self, hits: Vec<Hit>) -> Vec<Hit> {
        let workspace = self.workspace.lock().await;
        hits.into_iter().filter(|hit| workspace.has(&hit.source)).collect()
    }

    /// Finds something in an index that is up to date.
    async fn find(
        &self,
        meaning: Option<&dyn Embed>,
        question: Question,
    ) -> Result<Vec<Hit>, Trouble> {
        match self.try_find(meaning, question.clone()).await {
            Err(trouble) if trouble.is_stale() => {
                tracing::warn!(error = error_chain(&trouble), "the index of a job is made anew");
                self.forget().await;
                self.try_find(meaning, question).await
            }
            found => found,
        }
    }

    async fn try_find(
        &self,
        meaning: Option<&dyn Embed>,
        question: Question,
    ) -> Result<Vec<Hit>, Trouble> {
        let index = self.filled().await?;
        Ok(cofferdam_recall::find(&*index, meaning, question).await?)
    }

    /// Lets go of an index that is broken: it is opened anew, and empty then.
    async fn forget(&self) {
        *self.index.lock().await = None;
        *self.filled.lock().await = None;
        *self.workspace.lock().await = Workspace::default();
    }

    async fn index(&self) -> Result<Arc<dyn Index>, Trouble> {
        let mut opened = self.index.lock().await;
        if let Some(index) = &*opened {
            return Ok(Arc::clone(index));
        }
        make_private(&self.directory)
            .map_err(|source| Trouble::Directory { path: self.directory.clone(), source })?;
        let index = self.indexes.open(self.directory.join(FILE)).await?;
        *opened = Some(Arc::clone(&index));
        Ok(index)
    }

    /// The index, up to date.
    async fn filled(&self) -> Result<Arc<dyn Index>, Trouble> {
        match self.try_fill().await {
            Err(trouble) if trouble.is_stale() => {
                self.forget().await;
                self.try_fill().await
            }
            filled => filled,
        }
    }

    async fn try_fill(&self) -> Result<Arc<dyn Index>, Trouble> {
        let index = self.index().await?;
        let mut filled = self.filled.lock().await;
        let reaches = index.reaches().await?;
        // Taken: whoever stops waiting for this leaves it unknown.
        let mut now = match filled.take() {
            Some(filled) if filled.through == reaches => filled,
            _ => self.again(reaches).await?,
        };
        loop {
            let page = self.past.after(now.through, AT_ONCE).await.map_err(Trouble::Log)?;
            let Some(last) = page.last() else { break };
            let through = last.seq;
            let documents = page.iter().flat_map(|record| now.documents.of(record)).collect();
            index.add(through, documents).await?;
            now.through = through;
        }
        *filled = Some(now);
        Ok(index)
    }

    /// Goes on after an event: what was said just before is read again.
    async fn again(&self, through: u64) -> Result<Filled, Trouble> {
        let mut documents = Documents::new();
        let mut last = through.saturating_sub(AGAIN);
        while last < through {
            let most = usize::try_from(through - last).unwrap_or(usize::MAX);
            let page = self.past.after(last, most).await.map_err(Trouble::Log)?;
            let Some(end) = page.last() else { break };
            last = end.seq;
            for record in page.iter().take_while(|record| record.seq <= through) {
                documents.of(record);
            }
        }
        Ok(Filled { through, documents })
    }
}

fn unavailable(trouble: &Trouble) -> ToolOutput {
    let text = format!(
        "recall: nothing can be looked for: {}. By `id` it works all the same.",
        error_chain(trouble)
    );
    ToolOutput::text(ToolStatus::Failed, text)
}

/// Makes a directory that is nobody else's business.
pub(crate) fn make_private(path: &std::path::Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
