//! A job's log, read for what went before its models and what was cut.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam_engine::{ReplayError, Run, Settings};
use cofferdam_types::{
    CallId, Cut, Event, JobSpec, Message, ModelName, Record, RequestId, Role, Span, Summariser,
    ThreadId, Timestamp, Tokens, ToolSpec, Toolbox, Usd,
};
use serde::Serialize;
use serde_json::{Value, json};

/// The version of what `--json` prints.
const VERSION: u32 = 1;

/// Bytes of text in a token, about, where nobody has counted.
const BYTES_A_TOKEN: u64 = 4;

/// A log that is being read.
pub(super) struct Look {
    run: Run,
    cuts: Vec<CutMade>,
    /// What the summary that a conversation waits for, or waited for last, has cost.
    bills: BTreeMap<ThreadId, Bill>,
    questions: BTreeMap<RequestId, ThreadId>,
    /// Conversations in which a summary is being written, as they were before that was
    /// asked for: what it is written from is not what the conversation's model sees.
    summarising: BTreeMap<ThreadId, Run>,
    /// Conversations that serve a call, and those whose call has ended.
    serving: BTreeMap<CallId, ThreadId>,
    over: BTreeSet<ThreadId>,
}

/// What summaries have cost, with those that came to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Bill {
    /// Who was asked last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<ModelName>,
    /// How often somebody was asked.
    pub(super) asked: u32,
    pub(super) tokens: Tokens,
    pub(super) cost: Usd,
    /// Answers whose price is not known.
    pub(super) unpriced: u32,
}

/// A cut that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CutMade {
    /// Its event.
    pub(super) event: u64,
    pub(super) at: Timestamp,
    pub(super) thread: ThreadId,
    /// About how many tokens the next question would have had, and had then.
    pub(super) before: u64,
    pub(super) after: u64,
    #[serde(flatten)]
    pub(super) what: What,
}

/// What was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub(super) enum What {
    /// Long texts.
    Pruned {
        /// Up to this event.
        through: u64,
        /// To so many bytes.
        keep: u64,
    },
    /// A part was replaced by a summary.
    Summarised {
        /// The first and the last event of that part.
        from: u64,
        through: u64,
        /// How many summaries it was made of; none, if of messages.
        #[serde(skip_serializing_if = "Option::is_none")]
        summaries: Option<u32>,
        by: Summariser,
        /// Bytes of the summary.
        bytes: u64,
        bill: Bill,
    },
}

impl Look {
    /// Takes in the next record of a log.
    pub(super) fn follow(look: &mut Option<Self>, record: &Record) -> Result<(), ReplayError> {
        match look {
            Some(look) => look.hear(record),
            None => {
                *look = Some(Self {
                    run: Run::begin(record)?,
                    cuts: Vec::new(),
                    bills: BTreeMap::new(),
                    questions: BTreeMap::new(),
                    summarising: BTreeMap::new(),
                    serving: BTreeMap::new(),
                    over: BTreeSet::new(),
                });
                Ok(())
            }
        }
    }

    /// What was asked for, with the models as they are by now.
    pub(super) fn spec(&self) -> &JobSpec {
        self.run.spec()
    }

    fn hear(&mut self, record: &Record) -> Result<(), ReplayError> {
        match &record.event {
            Event::ModelAsked { thread, span: None, .. } => {
                self.summarising.remove(thread);
            }
            Event::ModelAsked { thread, request, model, span: Some(_), .. } => {
                self.summarising.insert(*thread, self.run.clone());
                self.questions.insert(*request, *thread);
                let bill = self.bills.entry(*thread).or_default();
                bill.model = Some(model.clone());
                bill.asked += 1;
            }
            Event::ModelAnswered { request, answer, cost } => {
                self.pay(*request, answer.tokens, *cost);
            }
            Event::ModelFailed { request, tokens, cost, .. } => {
                self.pay(*request, *tokens, *cost);
            }
            Event::Delegated { thread, call, .. } => {
                self.serving.insert(*call, *thread);
            }
            Event::ToolEnded { call, .. } => self.over.extend(self.serving.get(call)),
            _ => {}
        }
        self.run.follow(record)?;
        if let Event::ContextCut { thread, cut, tokens: (before, after), .. } = &record.event {
            self.summarising.remove(thread);
            let (thread, before, after) = (*thread, *before, *after);
            let what = self.what(thread, cut);
            self.cuts.push(CutMade {
                event: record.seq,
                at: record.at,
                thread,
                before,
                after,
                what,
            });
        }
        Ok(())
    }

    fn pay(&mut self, request: RequestId, tokens: Tokens, cost: Option<Usd>) {
        let Some(thread) = self.questions.remove(&request) else { return };
        self.summarising.remove(&thread);
        let bill = self.bills.entry(thread).or_default();
        bill.tokens += tokens;
        match cost {
            Some(cost) => bill.cost += cost,
            None if tokens != Tokens::default() => bill.unpriced += 1,
            None => {}
        }
    }

    fn what(&mut self, thread: ThreadId, cut: &Cut) -> What {
        match cut {
            Cut::Pruned { through, keep } => What::Pruned { through: *through, keep: *keep },
            Cut::Summarised { span, summary, by } => {
                let context = self.run.conversation(thread);
                let made = context.and_then(|context| match span {
                    Span::Messages { .. } => context.summaries().last(),
                    Span::Summaries { .. } => context.summaries().first(),
                });
                What::Summarised {
                    from: made.map_or(0, |made| made.from),
                    through: made.map_or(0, |made| made.through),
                    summaries: match span {
                        Span::Messages { .. } => None,
                        Span::Summaries { count } => Some(*count),
                    },
                    by: *by,
                    bytes: summary.len() as u64,
                    bill: self.bills.remove(&thread).unwrap_or_default(),
                }
            }
        }
    }

    /// What the models see now.
    pub(super) fn seen(&self, settings: &Settings) -> Seen<'_> {
        let open = self.run.conversations().filter(|(thread, _)| !self.over.contains(thread));
        let threads = open.map(|(thread, role)| self.thread(settings, thread, role)).collect();
        Seen { spec: self.run.spec(), threads, cuts: &self.cuts }
    }

    fn thread(&self, settings: &Settings, thread: ThreadId, role: Role) -> Conversation<'_> {
        let summarises = self.summarising.get(&thread);
        let run = summarises.unwrap_or(&self.run);
        let prompt = run.prompt(settings, thread);
        let role_settings = settings.role(role);
        let tools = role_settings.tools.clone();
        let instructions = prompt.system.len() as u64 / BYTES_A_TOKEN;
        let tool_tokens = tools.bytes() as u64 / BYTES_A_TOKEN;
        let mut parts = vec![
            Part::new(Kind::Instructions, "instructions", instructions, &prompt.system),
            Part::new(Kind::Tools, &format!("{} tools", tools.len()), tool_tokens, &names(&tools)),
        ];
        let (mut tokens, mut counted) = (instructions + tool_tokens, None);
        let counting = run.counting(role);
        if let Some(context) = run.conversation(thread) {
            tokens = context.tokens(tokens, counting);
            counted = context.counted();
            for (place, part) in context.parts(counting).into_iter().enumerate() {
                let kind = if place == 0 { Kind::Task } else { Kind::Message };
                // The part's name has its number, and the task is known to be told.
                let numbered = part.begins.strip_prefix('#').and_then(|rest| rest.split_once(' '));
                let begins = numbered.map_or(part.begins.as_str(), |(_, begins)| begins);
                let begins = begins.strip_prefix("told: ").unwrap_or(begins);
                let mut of_task = Part::new(kind, &part.name, part.tokens, begins);
                let mut summaries = Vec::new();
                if let (0, Some(first)) = (place, context.messages().first()) {
                    let whole = length(first).max(1);
                    for summary in context.summaries() {
                        let name = format!("#{} to #{}", summary.from, summary.through);
                        let share = part.tokens * summary.text.len() as u64 / whole;
                        of_task.tokens = of_task.tokens.saturating_sub(share);
                        summaries.push(Part::new(Kind::Summary, &name, share, &summary.text));
                    }
                }
                parts.push(of_task);
                parts.append(&mut summaries);
            }
        }
        Conversation {
            thread,
            role,
            model: match role {
                Role::Orchestrator => &run.spec().orchestrator,
                Role::Coder => &run.spec().coder,
                Role::Summariser => {
                    run.spec().summariser.as_ref().unwrap_or(&run.spec().orchestrator)
                }
            },
            window: role_settings.window,
            answer: u64::from(role_settings.max_output).min(role_settings.window / 4),
            tokens,
            counting: counting.to_string(),
            counted,
            summarising: summarises.is_some(),
            parts,
            system: prompt.system,
            tools,
            messages: prompt.messages.into_owned(),
        }
    }
}

fn names(tools: &[ToolSpec]) -> String {
    tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Bytes of a message's text.
fn length(message: &Message) -> u64 {
    let Message::User { content } = message else { return 0 };
    content.iter().map(|part| super::told::shown(part).len() as u64).sum()
}

/// What the models of a job see now.
pub(super) struct Seen<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) threads: Vec<Conversation<'a>>,
    pub(super) cuts: &'a [CutMade],
}

/// What goes before one model.
#[derive(Serialize)]
pub(super) struct Conversation<'a> {
    pub(super) thread: ThreadId,
    pub(super) role: Role,
    pub(super) model: &'a ModelName,
    /// Tokens that the model takes in and gives out together, as far as is known here.
    pub(super) window: u64,
    /// Those of them that are kept for its answer.
    pub(super) answer: u64,
    /// About how many tokens its next question has.
    pub(super) tokens: u64,
    /// How what its provider has not counted is known.
    pub(super) counting: String,
    /// What its provider counted for the last question, if nothing was cut since.
    pub(super) counted: Option<Tokens>,
    /// Whether a part of it is being summarised.
    pub(super) summarising: bool,
    pub(super) parts: Vec<Part>,
    #[serde(skip)]
    pub(super) system: String,
    #[serde(skip)]
    pub(super) tools: Toolbox,
    #[serde(skip)]
    pub(super) messages: Vec<Message>,
}

/// A part of what goes before a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// About how many tokens it has.
    pub(super) tokens: u64,
    /// Its first words.
    pub(super) begins: String,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Instructions,
    Tools,
    /// The task and what must not be forgotten.
    Task,
    Summary,
    /// What was said lately.
    Message,
}

/// Characters of a part that it is told by.
const BEGINNING: usize = 100;

impl Part {
    fn new(kind: Kind, name: &str, tokens: u64, text: &str) -> Self {
        let begins = text.trim_start().lines().next().unwrap_or_default();
        let begins = begins.chars().take(BEGINNING).collect();
        Self { kind, name: name.to_owned(), tokens, begins }
    }
}

impl Seen<'_> {
    /// All of it for machines, with the text if that is wanted.
    pub(super) fn json(&self, full: bool) -> Value {
        let threads: Vec<Value> = self
            .threads
            .iter()
            .map(|thread| {
                let mut value = json!(thread);
                if full && let Some(fields) = value.as_object_mut() {
                    let tools: Vec<Value> = thread
                        .tools
                        .iter()
                        .map(|tool| {
                            json!({
                                "name": tool.name,
                                "description": tool.description,
                                "schema": tool.schema,
                            })
                        })
                        .collect();
                    fields.insert("system".to_owned(), json!(thread.system));
                    fields.insert("tools".to_owned(), json!(tools));
                    fields.insert("messages".to_owned(), json!(thread.messages));
                }
                value
            })
            .collect();
        json!({
            "version": VERSION,
            "job": self.spec.job,
            "conversations": threads,
            "cuts": self.cuts,
        })
    }
}
