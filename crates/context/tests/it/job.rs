//! A job that drives a conversation as the engine does, and knows what must hold.

use std::collections::BTreeSet;

use cofferdam_context::{Call, Conversation, Counting, Need, Room, judge};
use cofferdam_types::{
    Arguments, Block, Content, Cut, Message, PlanStep, Span, StepStatus, Summariser, Tokens,
    ToolCall, ToolResult, ToolStatus,
};

/// How whoever summarises does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    Empty,
    TooLong,
    Nonsense,
    Forgetful,
    Silent,
}

/// A call that the model makes.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) tool: &'static str,
    pub(crate) arguments: String,
    pub(crate) output: Vec<Content>,
    pub(crate) status: ToolStatus,
    pub(crate) changes: bool,
}

pub(crate) fn made(tool: &'static str, arguments: String, output: &str) -> Made {
    let output = vec![Content::text(output)];
    let changes = !matches!(tool, "read_file" | "recall");
    Made { tool, arguments, output, status: ToolStatus::Done, changes }
}

pub(crate) fn bash(command: &str, output: &str) -> Made {
    made("bash", serde_json::json!({ "command": command }).to_string(), output)
}

pub(crate) fn reads(path: &str, output: &str) -> Made {
    made("read_file", serde_json::json!({ "path": path }).to_string(), output)
}

pub(crate) fn writes(path: &str, content: &str) -> Made {
    let arguments = serde_json::json!({ "path": path, "content": content }).to_string();
    made("write_file", arguments, "written")
}

/// A job.
pub(crate) struct Job {
    pub(crate) conversation: Conversation,
    pub(crate) room: Room,
    pub(crate) plan: Vec<PlanStep>,
    pub(crate) mood: Mood,
    /// Bytes in a token, if the provider counts.
    pub(crate) counts: Option<u64>,
    /// All cuts, and how many times the model was asked after at least one.
    pub(crate) cuts: Vec<Cut>,
    pub(crate) cut_times: u64,
    /// Tokens of all that was ever said.
    pub(crate) history: u64,
    seq: u64,
    /// Cuts after which everything was looked for.
    checked: usize,
    next_plan: Option<(Vec<PlanStep>, Vec<String>)>,
    /// What must be there, by its beginning, and the line that may stand for it.
    pinned: Vec<(String, &'static str)>,
    /// Files that were changed and commands that were run: each has to be found.
    files: BTreeSet<String>,
    commands: BTreeSet<String>,
    sent: Vec<Message>,
}

pub(crate) fn room(window: u64) -> Room {
    Room {
        window,
        output: (window / 4).min(16_000),
        preface: 1_200,
        summariser: window,
        counting: Counting::Estimated,
    }
}

impl Job {
    pub(crate) fn new(task: &str, window: u64) -> Self {
        let mut job = Self {
            conversation: Conversation::new(1, task),
            room: room(window),
            plan: Vec::new(),
            mood: Mood::Good,
            counts: Some(4),
            cuts: Vec::new(),
            cut_times: 0,
            history: 0,
            seq: 1,
            checked: 0,
            next_plan: None,
            pinned: Vec::new(),
            files: BTreeSet::new(),
            commands: BTreeSet::new(),
            sent: Vec::new(),
        };
        job.pin(task, "recall");
        job
    }

    fn pin(&mut self, text: &str, stands_for_it: &'static str) {
        let start = text.lines().next().unwrap_or_default().chars().take(40).collect();
        self.pinned.push((start, stands_for_it));
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(crate) fn user_says(&mut self, text: &str) {
        let seq = self.next();
        self.conversation.user_said(seq, text);
        self.pin(text, "## What the user has said since\n(");
    }

    pub(crate) fn tell(&mut self, text: &str) {
        let seq = self.next();
        self.conversation.tell(seq, text);
    }

    /// A call that will make this the plan.
    pub(crate) fn plans(&mut self, plan: Vec<PlanStep>, decisions: Vec<String>) -> Made {
        let arguments = serde_json::json!({ "steps": plan, "decisions": decisions });
        self.next_plan = Some((plan, decisions));
        made("plan", arguments.to_string(), "The plan is noted.")
    }

    fn take_plan(&mut self) {
        let Some((plan, decisions)) = self.next_plan.take() else { return };
        let seq = self.next();
        let done = |plan: &[PlanStep]| {
            plan.iter().filter(|step| step.status == StepStatus::Completed).count()
        };
        let step_done = done(&plan) > done(&self.plan);
        self.plan = plan;
        self.conversation.planned(seq, &decisions, step_done);
        for decision in decisions {
            self.pin(&decision, "## Decided\n(");
        }
    }

    /// The model is asked, says this and makes these calls, which end.
    pub(crate) fn round(&mut self, says: &str, calls: Vec<Made>) {
        self.ask();
        let seq = self.next();
        let mut blocks = vec![Block::Text { text: says.to_owned() }];
        let id = |place: usize| format!("call-{seq}-{place}");
        for (place, made) in calls.iter().enumerate() {
            blocks.push(Block::ToolCall(ToolCall {
                id: id(place),
                name: made.tool.to_owned(),
                arguments: Arguments(made.arguments.clone()),
            }));
        }
        let read = match self.counts {
            Some(bytes) => self.room.preface + text_of(self.conversation.messages()) / bytes,
            None => 0,
        };
        self.conversation.count(Tokens { input: read, ..Tokens::default() });
        self.conversation.answer(seq, blocks);
        self.take_plan();
        let first = self.seq + 1;
        self.seq += calls.len() as u64;
        // They end in the reverse order.
        let ends = (first..=self.seq).rev();
        let ended = calls.iter().enumerate().zip(ends).map(|((place, made), seq)| {
            let Made { tool, arguments, status, changes, .. } = made;
            let call = Call { seq, tool, arguments, status: *status, changes: *changes };
            let failed = *status != ToolStatus::Done;
            (call, ToolResult { id: id(place), content: made.output.clone(), failed })
        });
        if !calls.is_empty() {
            self.conversation.results(ended.collect());
        }
        for made in &calls {
            let path = made.arguments.split(r#""path":""#).nth(1);
            if let (Some(path), true) = (path, made.changes) {
                self.files.insert(path.split('"').next().unwrap().to_owned());
            }
            if made.tool == "bash" && made.changes {
                self.commands.insert(made.arguments.split('"').nth(3).unwrap().to_owned());
            }
        }
        let all: u64 = calls
            .iter()
            .map(|made| {
                let output: u64 = made.output.iter().map(bytes_of).sum();
                output + made.arguments.len() as u64
            })
            .sum();
        self.history += (all + says.len() as u64) / 4;
    }

    /// Does what has to be done first, then asks, and sees that everything is as it must be.
    pub(crate) fn ask(&mut self) {
        assert!(self.prepare(), "it is hopeless: {:#?}", self.room);
        let before = self.conversation.tokens(self.room.preface, self.room.counting);
        self.conversation.ask();
        let Room { window, output, preface, .. } = self.room;
        let now = self.conversation.tokens(preface, self.room.counting);
        assert!(now <= window - output, "{now} tokens in a window of {window}");
        assert!(now <= before + 100, "{before} were thought to be enough for {now}");
        self.well_formed();
        // Without a cut everything stands where it stood.
        if self.checked < self.cuts.len() {
            self.checked = self.cuts.len();
            self.all_pinned();
        }
        self.sent = self.conversation.messages().to_vec();
    }

    /// Cuts as long as that is needed; whether that was enough.
    pub(crate) fn prepare(&mut self) -> bool {
        let cuts = self.cuts.len();
        for _ in 0..100 {
            let cut = match self.conversation.need(self.room) {
                Need::Nothing => {
                    self.cut_times += u64::from(self.cuts.len() > cuts);
                    self.only_grew(self.cuts.len() > cuts);
                    return true;
                }
                Need::Prune { through, keep } => Cut::Pruned { through, keep },
                Need::Summarise { span, .. } => self.summarise(span),
                Need::Hopeless => return false,
            };
            self.cut(cut);
        }
        panic!("no end of cuts: {:#?}", self.cuts.iter().rev().take(4).collect::<Vec<_>>());
    }

    fn cut(&mut self, cut: Cut) {
        let pinned = self.conversation.pinned(self.room);
        let before = self.conversation.spoken().weight();
        self.conversation.cut(&cut, &self.plan, pinned);
        let after = self.conversation.weight();
        assert!(after < before, "{cut:?} made {after} of {before} bytes");
        self.cuts.push(cut);
    }

    fn summarise(&self, span: Span) -> Cut {
        let conversation = self.conversation.spoken();
        let longest = conversation.longest_summary(span, self.room);
        let replaced = conversation.replaced(span);
        assert!(longest <= replaced / 2);
        let names = conversation.names(span, self.room);
        for attempt in 1..=3 {
            let shown = conversation.to_summarise(span, self.room, attempt);
            let fits = shown.len() as u64 <= self.room.summariser * 8 * 60 / 100;
            assert!(fits, "{} bytes for a summariser of {}", shown.len(), self.room.summariser);
            let text = match self.mood {
                Mood::Good => good(&names, longest),
                Mood::Empty => " \n".to_owned(),
                Mood::TooLong => "word and ".repeat(replaced as usize / 5),
                Mood::Nonsense => "}{".repeat(40),
                Mood::Forgetful => good(&[], longest),
                Mood::Silent => continue,
            };
            if judge(&text, replaced, longest, &names).is_ok() {
                return Cut::Summarised { span, summary: text, by: Summariser::Model };
            }
        }
        let summary = conversation.rule_summary(span, self.room);
        assert!(summary.len() as u64 <= longest, "{} of {longest}", summary.len());
        Cut::Summarised { span, summary, by: Summariser::Rule }
    }

    /// What was sent before stands there still, unless it was cut.
    fn only_grew(&self, cut: bool) {
        if !cut {
            let now = self.conversation.messages();
            assert!(now.starts_with(&self.sent), "what was sent has changed without a cut");
        }
    }

    /// The user first, right after each answer with calls exactly their results, and
    /// answers in their order.
    fn well_formed(&self) {
        let messages = self.conversation.messages();
        assert!(matches!(messages.first(), Some(Message::User { .. })));
        assert!(!matches!(messages.last(), Some(Message::Model { .. })), "it ends with an answer");
        let mut asked: Vec<&str> = Vec::new();
        let mut last = 0;
        for message in messages {
            match message {
                Message::Tools { results } => {
                    let answered: Vec<&str> = results.iter().map(|result| &*result.id).collect();
                    assert_eq!(asked, answered);
                    asked = Vec::new();
                }
                _ => assert!(asked.is_empty(), "calls without results: {asked:?}"),
            }
            if let Message::Model { blocks } = message {
                for block in blocks {
                    if let Block::ToolCall(call) = block {
                        asked.push(&call.id);
                        let number: u64 = call.id.split('-').nth(1).unwrap().parse().unwrap();
                        assert!(number >= last, "out of order");
                        last = number;
                    }
                }
            }
        }
        assert!(asked.is_empty(), "calls without results: {asked:?}");
    }

    fn all_pinned(&self) {
        let all = shown(self.conversation.messages());
        for (start, stands_for_it) in &self.pinned {
            let there = all.contains(start) || all.contains(stands_for_it);
            assert!(there, "{start:?} is forgotten in:\n{all}");
        }
        for path in &self.files {
            let directories = path.match_indices('/').map(|(end, _)| path.split_at(end + 1).0);
            let mut lines = directories.chain(["./"]).map(|place| format!(" files in {place}"));
            let there = all.contains(path) || lines.any(|line| all.contains(&line));
            assert!(there, "that {path:?} was changed is forgotten in:\n{all}");
        }
        for command in &self.commands {
            let program = command.split(' ').next().unwrap();
            let together = all.lines().any(|line| {
                let line = line.strip_prefix('#').and_then(|line| line.split_once(": ran "));
                let what = line.map_or("", |(_, what)| what);
                what.contains(&format!(" × $ {program}")) || what.contains(" commands")
            });
            let there = all.contains(command) || together;
            assert!(there, "that {command:?} was run is forgotten in:\n{all}");
        }
        for step in &self.plan {
            let start: String = step.step.chars().take(30).collect();
            let there = all.contains(&start) || all.contains("## The plan\n(");
            assert!(there, "the step {start:?} is forgotten in:\n{all}");
        }
    }
}

fn good(names: &[String], longest: u64) -> String {
    let mut text = format!("Changed were {}. ", names.join(", "));
    for number in 0..40 {
        let next = format!("In step {number} the parser was repaired and tested. ");
        if (text.len() + next.len()) as u64 > longest {
            break;
        }
        text.push_str(&next);
    }
    text
}

fn bytes_of(content: &Content) -> u64 {
    match content {
        Content::Text { text } => text.len() as u64,
        Content::Image { .. } => 6_000,
    }
}

/// Bytes of text in messages, as a provider would count them.
pub(crate) fn text_of(messages: &[Message]) -> u64 {
    let message = |message: &Message| match message {
        Message::User { content } => content.iter().map(bytes_of).sum::<u64>(),
        Message::Model { blocks } => blocks
            .iter()
            .map(|block| match block {
                Block::Text { text } | Block::Thinking { text, .. } => text.len() as u64,
                Block::ToolCall(call) => (call.name.len() + call.arguments.0.len()) as u64,
            })
            .sum(),
        Message::Tools { results } => {
            results.iter().flat_map(|result| &result.content).map(bytes_of).sum()
        }
    };
    messages.iter().map(message).sum()
}

/// Messages as a person would want to read them.
pub(crate) fn shown(messages: &[Message]) -> String {
    let mut text = String::new();
    let content = |part: &Content| match part {
        Content::Text { text } => text.clone(),
        Content::Image { media_type, .. } => format!("({media_type})"),
    };
    for message in messages {
        match message {
            Message::User { content: parts } => {
                for part in parts {
                    text.push_str(&format!("=== user\n{}\n", content(part)));
                }
            }
            Message::Model { blocks } => {
                for block in blocks {
                    match block {
                        Block::Text { text: said } => {
                            text.push_str(&format!("=== model\n{said}\n"));
                        }
                        Block::Thinking { .. } => text.push_str("=== model thinks\n"),
                        Block::ToolCall(call) => {
                            let ToolCall { name, arguments, .. } = call;
                            text.push_str(&format!("=== model calls {name}\n{}\n", arguments.0));
                        }
                    }
                }
            }
            Message::Tools { results } => {
                for result in results {
                    let parts: Vec<String> = result.content.iter().map(content).collect();
                    text.push_str(&format!("=== result\n{}\n", parts.concat()));
                }
            }
        }
    }
    text
}
