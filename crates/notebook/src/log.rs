//! The cells of a job, read from its log in the order in which they began.

use std::collections::HashMap;

use cofferdam_types::{
    Block, CallId, Content, Ending, Event, JobId, Record, RequestId, Role, ThreadId, ToolCall,
    ToolOutput, ToolStatus,
};

use crate::cell::{Cell, Language, Output};
use crate::kernels::Kernels;
use crate::layout;
use crate::notebook::{CELL, Limits};

/// A job as far as cells matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Its name; `None` if the log does not begin at its beginning.
    pub job: Option<JobId>,
    /// What was to be done, in the user's words.
    pub task: String,
    /// Its cells.
    pub steps: Vec<Step>,
    /// What the model says of the work, if it is done.
    pub summary: Option<String>,
    pub(crate) kernels: Kernels,
}

/// A cell in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The call.
    pub call: CallId,
    /// What was said since the cell before it in its conversation.
    pub said: Vec<String>,
    /// The cell.
    pub cell: Cell,
    /// Whether it was run at all, as far as is known.
    pub ran: bool,
    /// Its kernel's place among those of the story.
    pub(crate) kernel: usize,
}

/// Reads the cells from a log.
#[must_use]
pub fn story(records: &[Record]) -> Story {
    let said = usize::MAX / 2;
    story_within(records, &Limits { said, ..Limits::default() })
}

/// The same, without more words than a notebook has.
pub(crate) fn story_within(records: &[Record], limits: &Limits) -> Story {
    let mut reader = Reader { room: usize::MAX, ..Reader::new(None, limits) };
    for record in records {
        reader.read(&record.event);
    }
    reader.story()
}

/// Reads a log event by event, and keeps no more of it than goes into one notebook.
#[derive(Debug)]
pub struct Reader {
    story: Story,
    pub(crate) limits: Limits,
    /// The kernel that is wanted, by the name of its notebook; all, if none is said.
    pub(crate) wanted: Option<String>,
    /// Bytes of cells that may still be kept.
    room: usize,
    /// Which conversation a question belongs to. Questions for summaries are none of them.
    asked: HashMap<RequestId, ThreadId>,
    /// The calls for cells in the last answer of a conversation.
    calls: HashMap<ThreadId, Vec<ToolCall>>,
    said: HashMap<ThreadId, Vec<String>>,
    /// Cells that have not ended: their kernel, and their step if it is kept.
    open: HashMap<CallId, (usize, Option<usize>)>,
}

impl Reader {
    /// A reader for the notebook of this name ([`Notebook::name`](crate::Notebook)), or for the
    /// only one.
    #[must_use]
    pub fn new(wanted: Option<&str>, limits: &Limits) -> Self {
        Self {
            story: Story::default(),
            limits: *limits,
            wanted: wanted.map(str::to_owned),
            room: limits.file,
            asked: HashMap::new(),
            calls: HashMap::new(),
            said: HashMap::new(),
            open: HashMap::new(),
        }
    }

    /// Takes in the next event of the log.
    pub fn read(&mut self, event: &Event) {
        match event {
            Event::Created { spec } => {
                self.story.job = Some(spec.job);
                self.story.task.clone_from(&spec.task);
            }
            Event::UserSaid { text } => self.say(ThreadId(0), &format!("**User:** {text}")),
            Event::ModelAsked { request, thread, role, .. } if *role != Role::Summariser => {
                self.asked.insert(*request, *thread);
            }
            Event::ModelAnswered { request, answer, .. } => {
                let Some(thread) = self.asked.remove(request) else { return };
                self.calls.remove(&thread);
                for block in &answer.blocks {
                    match block {
                        Block::Text { text } => self.say(thread, text),
                        Block::Thinking { .. } => {}
                        Block::ToolCall(call) if Language::of_tool(&call.name).is_some() => {
                            self.calls.entry(thread).or_default().push(call.clone());
                        }
                        Block::ToolCall(_) => {}
                    }
                }
            }
            Event::ToolStarted { call, thread, id, tool } => self.begin(*call, *thread, id, tool),
            Event::ToolEnded { call, output, .. } => self.end(*call, output),
            Event::Ended { ending, .. } => {
                self.story.summary = match ending {
                    Ending::Complete { summary, .. } | Ending::Unverified { summary } => {
                        Some(summary.clone())
                    }
                    _ => None,
                };
            }
            _ => {}
        }
    }

    /// What was read.
    #[must_use]
    pub fn story(mut self) -> Story {
        for (kernel, step) in self.open.into_values() {
            if let Some(kernel) = self.story.kernels.get_mut(kernel) {
                kernel.ran = true;
            }
            if let Some(step) = step.and_then(|step| self.story.steps.get_mut(step)) {
                step.cell.outputs.push(Output::Note("This cell had not ended yet.".to_owned()));
            }
        }
        self.story
    }

    /// Keeps words, as many as are shown and a little more, by which one sees that some are
    /// missing.
    fn say(&mut self, thread: ThreadId, text: &str) {
        let said = self.said.entry(thread).or_default();
        let most = self.limits.said.saturating_add(8);
        let kept: usize = said.iter().map(String::len).sum();
        let text = text.trim();
        let end = text.floor_char_boundary(most);
        if let Some(text) = text.get(..end)
            && !text.is_empty()
            && kept < most
        {
            said.push(text.to_owned());
        }
    }

    fn begin(&mut self, call: CallId, thread: ThreadId, id: &str, tool: &str) {
        let Some(language) = Language::of_tool(tool) else { return };
        let calls = self.calls.get_mut(&thread);
        // Some providers use a name twice; the last one counts.
        let asked = calls.and_then(|calls| {
            let place = calls.iter().rposition(|asked| asked.id == id)?;
            Some(calls.swap_remove(place))
        });
        let Some(asked) = asked else { return };
        // What the tool could not understand was never a cell; it will have said so.
        let Ok(arguments) = asked.arguments.object() else { return };
        let text = |name| arguments.get(name).and_then(serde_json::Value::as_str);
        let Some(code) = text("code") else { return };
        let kernel = text("kernel").filter(|name| !name.is_empty()).unwrap_or(Cell::KERNEL);
        let said = self.said.remove(&thread).unwrap_or_default();
        let place = self.story.kernels.place(language, kernel);
        let cell =
            Cell { language, kernel: kernel.to_owned(), code: code.to_owned(), outputs: vec![] };
        let step = self.keep(Step { call, said, cell, ran: true, kernel: place });
        self.open.insert(call, (place, step));
    }

    /// Keeps a cell, if it is wanted and there is room; says where.
    fn keep(&mut self, step: Step) -> Option<usize> {
        let kernel = self.story.kernels.get_mut(step.kernel)?;
        if self.wanted.as_ref().is_some_and(|wanted| *wanted != kernel.name) {
            return None;
        }
        let said: usize = step.said.iter().map(String::len).sum();
        let left = self.room.checked_sub(step.cell.code.len() + said + CELL);
        // A hole would make a notebook that does something else when it is run again.
        let (0, Some(left)) = (kernel.dropped, left) else {
            kernel.dropped += 1;
            return None;
        };
        self.room = left;
        self.story.steps.push(step);
        Some(self.story.steps.len() - 1)
    }

    fn end(&mut self, call: CallId, output: &ToolOutput) {
        let Some((kernel, step)) = self.open.remove(&call) else { return };
        let ran = output.status != ToolStatus::Refused;
        if let Some(kernel) = self.story.kernels.get_mut(kernel) {
            kernel.ran |= ran;
        }
        let Some(step) = step.and_then(|step| self.story.steps.get_mut(step)) else { return };
        step.ran = ran;
        let bytes: usize = output.content.iter().map(length).sum();
        match self.room.checked_sub(bytes) {
            Some(left) => {
                self.room = left;
                step.cell.outputs = layout::outputs(&output.content);
            }
            None => step.cell.outputs.push(Output::Note(format!(
                "{bytes} bytes of output are left out: the notebook would be too large."
            ))),
        }
        if let Some(rest) = &output.rest {
            step.cell.outputs.push(Output::Note(format!(
                "There is more of this output, {} bytes in all: {} in the job.",
                rest.bytes, rest.handle
            )));
        }
    }
}

fn length(content: &Content) -> usize {
    match content {
        Content::Text { text } => text.len(),
        Content::Image { data, .. } => data.len(),
    }
}
