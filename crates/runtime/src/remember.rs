//! What a drive does about what its job has let go: has it found again, and tells people
//! what is left before the models.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_context::describe;
use cofferdam_engine::Input;
use cofferdam_types::{CallId, Event, Record, ThreadId, ToolCall, ToolOutput, ToolStatus};
use tokio::time::timeout;
use tracing::Instrument;

use crate::drive::Drive;
use crate::memory::make_private;
use crate::spans;
use crate::work::Done;

/// What is before the models now, for people, in the job's directory.
const CONTEXT: &str = "context.md";

/// How long writing it may take.
const WRITING: Duration = Duration::from_secs(5);

impl Drive {
    /// Takes note of an event that is durable.
    pub(crate) fn note(&mut self, record: &Record) {
        self.driver.traces.take(record);
        match &record.event {
            Event::ModelAnswered { .. } => self.last_answer = record.seq,
            Event::ContextCut { .. } => self.was_cut = true,
            _ => {}
        }
    }

    /// After a cut: what was let go will be looked for soon, and people may want to see
    /// what is left.
    pub(crate) async fn after_cut(&mut self) {
        if !std::mem::take(&mut self.was_cut) {
            return;
        }
        while self.filling.try_join_next().is_some() {}
        if self.driver.settings.recalls && self.filling.is_empty() {
            let memory = Arc::clone(&self.memory);
            self.filling.spawn(async move { memory.fill().await });
        }
        let run = &self.driver.run;
        let conversations = run.conversations().filter_map(|(id, role)| {
            let conversation = run.conversation(id)?;
            // One that was never cut is as the log has it.
            let shown = id == ThreadId(0) || !conversation.summaries().is_empty();
            shown.then_some((id, role, conversation, run.counting(role)))
        });
        let job = run.spec().job.to_string();
        let text = describe(&job, conversations, &self.driver.traces.cuts);
        let directory = self.driver.directory.clone();
        let writing = tokio::task::spawn_blocking(move || write(&directory, &text));
        let written = match timeout(WRITING, writing).await {
            Ok(Ok(written)) => written.map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it took too long".to_owned()),
        };
        if let Err(reason) = written {
            tracing::warn!(reason, "{CONTEXT} of a job is not written");
        }
    }

    /// Looks for what a conversation may need next.
    pub(crate) fn offer(&mut self, thread: ThreadId, words: String) {
        let conversation = self.driver.run.conversation(thread);
        let last = conversation.and_then(|conversation| conversation.summaries().last());
        let Some(through) = last.map(|summary| summary.through) else {
            self.unheard.push_back(Input::Offered { thread, text: String::new() });
            return;
        };
        let memory = Arc::clone(&self.memory);
        self.work.spawn(async move {
            let text = memory.offer(&words, through).await;
            Done::Heard(Input::Offered { thread, text })
        });
    }

    /// Has a call of `recall` answered.
    pub(crate) fn recall(&mut self, call: CallId, asked: ToolCall) {
        let memory = Arc::clone(&self.memory);
        let sandbox = self.sandbox.clone().filter(|_| !self.lost);
        let now = self.clock.now();
        // What the model has just said would be found first, and be of no use.
        let through = self.last_answer.saturating_sub(1);
        let span = spans::tool(&asked.name, call);
        let recalling = async move {
            let begun = tokio::time::Instant::now();
            let output = match asked.arguments.object() {
                Ok(arguments) => memory.recall(sandbox.as_deref(), &arguments, now, through).await,
                // The engine lets no such call through.
                Err(error) => ToolOutput::text(ToolStatus::Refused, error.to_string()),
            };
            spans::ended(&tracing::Span::current(), output.status);
            let output = ToolOutput { took: begun.elapsed(), ..output };
            Done::Heard(Input::ToolEnded { call, output })
        };
        self.work.spawn(recalling.instrument(span));
    }
}

/// Whoever reads it meanwhile reads the old one or the new one, never a half.
fn write(directory: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    make_private(directory)?;
    let fresh = directory.join(format!("{CONTEXT}.new"));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(fresh, directory.join(CONTEXT))
}
