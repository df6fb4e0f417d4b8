//! A conversation as the model sees it, and how it grows.

use std::borrow::Cow;

use cofferdam_types::{
    Block, CheckResult, Content, Message, PlanStep, Summariser, Tokens, ToolResult, ToolStatus,
};

use crate::counting::{Counting, Memo};
use crate::facts::{self, Fact, Facts};
use crate::room::Room;
use crate::rule;
use crate::scale::{Scale, weight, weight_of_content};
use crate::shorten::{first_line, shorten};

/// A read that brought less than this takes the place of no other: it may only say that
/// nothing has changed.
const FEWEST_BYTES: u64 = 400;

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The event of its end.
    pub seq: u64,
    /// Which tool.
    pub tool: &'a str,
    /// With what, as the model wrote it.
    pub arguments: &'a str,
    /// How it ended.
    pub status: ToolStatus,
    /// Whether it may have changed something.
    pub changes: bool,
}

/// Where a message is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// For each result, or each thing that was said, its event.
    pub(crate) sources: Vec<u64>,
    /// The first and the last event of it, never before those of the message before it:
    /// what was said while calls ran stands with their results.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) weight: u64,
    pub(crate) counted: Memo,
    /// For each result what was read there.
    pub(crate) reads: Vec<Option<Read>>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) path: String,
    pub(crate) arguments: String,
    /// Whether all of it was shown.
    pub(crate) whole: bool,
    pub(crate) bytes: u64,
}

/// What took the place of a part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The first event of that part.
    pub from: u64,
    /// The last.
    pub through: u64,
    /// The words.
    pub text: String,
    /// Who wrote them.
    pub by: Summariser,
}

/// A part of what goes before a model, for people who want to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// About how many tokens it has.
    pub tokens: u64,
    /// Its first words.
    pub begins: String,
}

/// How a conversation was last shortened, if the model was not asked since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// It was not.
    None,
    /// Texts were cut.
    Pruned,
    /// A part was summarised, or the provider found it too long.
    Summarised,
}

/// A conversation as the model sees it. The same events lead to the same conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The first is the task, or after a cut the task with what must not be forgotten.
    pub(crate) messages: Vec<Message>,
    /// Where each is from.
    pub(crate) entries: Vec<Entry>,
    /// What is said before the model is asked next, each with its event.
    pub(crate) waiting: Vec<(u64, String, Memo)>,
    pub(crate) opening: (u64, String),
    pub(crate) facts: Facts,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) scale: Scale,
    /// Bytes of all messages.
    pub(crate) weight: u64,
    /// Bytes when the model was last asked, and the tokens of that and its answer, if
    /// nothing was cut since.
    asked: u64,
    pub(crate) read: Option<(u64, Tokens)>,
    pub(crate) pressure: Pressure,
    /// Whether a step of the plan was done since the model was last asked.
    pub(crate) step_done: bool,
    /// How often a provider has found it too long in a row, and the fewest bytes that one
    /// ever did.
    refusals: u32,
    refused: Option<u64>,
}

impl Conversation {
    /// One that begins with a task, which event `seq` has.
    #[must_use]
    pub fn new(seq: u64, opening: &str) -> Self {
        let mut conversation = Self {
            messages: Vec::new(),
            entries: Vec::new(),
            waiting: Vec::new(),
            opening: (seq, opening.to_owned()),
            facts: Facts::default(),
            summaries: Vec::new(),
            scale: Scale::default(),
            weight: 0,
            asked: 0,
            read: None,
            pressure: Pressure::None,
            step_done: false,
            refusals: 0,
            refused: None,
        };
        conversation.push(Message::user(opening), vec![seq], Vec::new());
        conversation
    }

    /// What goes before the model, in its order.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What it began with.
    #[must_use]
    pub fn opening(&self) -> &str {
        &self.opening.1
    }

    /// What it began with, cut to about so many bytes.
    #[must_use]
    pub fn opening_within(&self, keep: u64) -> Cow<'_, str> {
        let (seq, opening) = &self.opening;
        shorten(opening, keep, *seq).map_or(Cow::Borrowed(opening), Cow::Owned)
    }

    /// The summaries, the oldest first.
    #[must_use]
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// Bytes of all messages.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Has something said to the model before it is asked next, which event `seq` tells of.
    pub fn tell(&mut self, seq: u64, words: impl Into<String>) {
        self.waiting.push((seq, words.into(), Memo::default()));
    }

    /// Has something else said in place of what event `seq` tells of, unless that was said
    /// already: what was before a model stays as it was.
    pub fn reword(&mut self, seq: u64, words: &str) {
        for (of, waiting, counted) in &mut self.waiting {
            if *of == seq {
                (*waiting, *counted) = (words.to_owned(), Memo::default());
            }
        }
    }

    /// Has the user's words said to the model. They are never forgotten.
    pub fn user_said(&mut self, seq: u64, text: &str) {
        self.facts.said.push((seq, text.to_owned()));
        self.tell(seq, text);
    }

    /// Takes note of a plan with these decisions. `step_done`: a step of it was just done.
    pub fn planned(&mut self, seq: u64, decisions: &[String], step_done: bool) {
        self.facts.decide(seq, decisions);
        self.step_done |= step_done;
    }

    /// Takes note of what checks have found.
    pub fn checked(&mut self, seq: u64, results: &[CheckResult]) {
        self.facts.check(seq, results);
    }

    /// Takes note of the files that were changed in another conversation, which this one
    /// got the result of with event `seq`.
    pub fn adopt(&mut self, seq: u64, other: &Self) {
        self.facts.adopt(seq, &other.facts);
    }

    /// Whether something is to be said to the model.
    #[must_use]
    pub fn has_words(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Puts what is to be said into the conversation. All calls have their results by then.
    pub fn speak(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let counted = Memo::of_user(waiting.iter().map(|(_, _, counted)| counted));
        let said = waiting.into_iter().map(|(seq, text, _)| (seq, Content::text(text)));
        let (sources, content) = said.unzip();
        self.push(Message::User { content }, sources, Vec::new());
        if let Some(entry) = self.entries.last_mut() {
            entry.counted = counted;
        }
    }

    /// It, with everything said that is to be said.
    #[must_use]
    pub fn spoken(&self) -> Cow<'_, Self> {
        if self.waiting.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut spoken = self.clone();
        spoken.speak();
        Cow::Owned(spoken)
    }

    /// The model is being asked.
    pub fn ask(&mut self) {
        self.speak();
        self.asked = self.weight;
        self.pressure = Pressure::None;
        self.step_done = false;
    }

    /// The model has answered, and its provider counted this.
    pub fn count(&mut self, tokens: Tokens) {
        self.refusals = 0;
        if tokens.read() == 0 {
            return;
        }
        if let Some((bytes, before)) = self.read {
            let more = tokens.read().saturating_sub(before.read());
            self.scale.learn(self.asked.saturating_sub(bytes), more);
        }
        self.read = Some((self.asked, tokens));
    }

    /// The provider finds it too long: it can read less than was thought, or there was
    /// more in it. From here on it stays below that.
    pub fn refuse(&mut self) {
        self.refusals += 1;
        self.refused = Some(self.refused.map_or(self.asked, |refused| refused.min(self.asked)));
        self.pressure = Pressure::Summarised;
    }

    /// Another model is asked from here on: what the one before it has counted, and what
    /// was too long for that, is forgotten.
    pub fn change_model(&mut self) {
        self.scale = Scale::default();
        self.pressure = Pressure::None;
        self.read = None;
        self.refusals = 0;
        self.refused = None;
    }

    /// How often a provider has found it too long in a row.
    #[must_use]
    pub fn refusals(&self) -> u32 {
        self.refusals
    }

    /// The room that there really is, if a provider has found something too long before.
    pub(crate) fn fitting(&self, room: Room) -> Room {
        match self.refused {
            Some(refused) => room.within(self.rate(room.counting).tokens(refused) / 10 * 9),
            None => room,
        }
    }

    /// Takes what the model said.
    pub fn answer(&mut self, seq: u64, blocks: Vec<Block>) {
        self.push(Message::Model { blocks }, vec![seq], Vec::new());
    }

    /// Takes the results of all calls of the last answer, in their order.
    pub fn results(&mut self, ended: Vec<(Call<'_>, ToolResult)>) {
        let mut results = Vec::new();
        let (mut sources, mut reads) = (Vec::new(), Vec::new());
        for (call, result) in ended {
            let facts = facts::of_call(&call);
            self.facts.note(&call, &facts);
            reads.push(facts.into_iter().find_map(|fact| read(&call, &result, fact)));
            sources.push(call.seq);
            results.push(result);
        }
        self.push(Message::Tools { results }, sources, reads);
    }

    fn push(&mut self, message: Message, sources: Vec<u64>, reads: Vec<Option<Read>>) {
        let weight = weight(&message);
        let before = self.entries.last().map_or(0, |entry| entry.last);
        let first = sources.iter().copied().min().unwrap_or(0).max(before);
        let last = sources.iter().copied().max().unwrap_or(0).max(before);
        self.weight += weight;
        self.messages.push(message);
        let counted = Memo::default();
        self.entries.push(Entry { sources, first, last, weight, counted, reads });
    }

    /// About how many tokens the next question has, with what stands before it. Of what
    /// its provider has counted that is the count; only what came since is counted here.
    #[must_use]
    pub fn tokens(&self, preface: u64, counting: Counting) -> u64 {
        let waiting: usize = self.waiting.iter().map(|(_, text, _)| text.len()).sum();
        let weight = self.weight + waiting as u64;
        let (before, new) = match self.read {
            // What it thought is not always sent back, but mostly.
            Some((bytes, read)) if bytes <= weight => (read.read(), weight - bytes),
            _ => (preface, weight),
        };
        before
            + match counting {
                Counting::Estimated => self.scale.tokens(new),
                Counting::Exact(encoding) => self.latest(encoding, new),
            }
    }

    /// What the provider counted for the last question and its answer, if nothing was cut
    /// since.
    #[must_use]
    pub fn counted(&self) -> Option<Tokens> {
        self.read.map(|(_, tokens)| tokens)
    }

    /// Ends it: whoever asked for its result has it. Its words are in the log; only its
    /// beginning stays. Returns it as it was.
    pub fn close(&mut self) -> Self {
        let begun = Self::new(self.opening.0, &self.opening.1);
        std::mem::replace(self, begun)
    }

    /// Words about what is at hand, to find again what may be needed next.
    #[must_use]
    pub fn at_hand(&self, plan: &[PlanStep]) -> String {
        use cofferdam_types::StepStatus::InProgress;
        let step = plan.iter().filter(|step| step.status == InProgress).map(|step| &*step.step);
        let failure = self.facts.open_failures().into_iter().map(|(what, _)| &**what).next_back();
        let said = self.facts.said.last().map(|(_, text)| &**text);
        let model = self.messages.iter().rev().find_map(|message| match message {
            Message::Model { blocks } => blocks.iter().find_map(|block| match block {
                Block::Text { text } if !text.trim().is_empty() => Some(&**text),
                _ => None,
            }),
            _ => None,
        });
        let words = step.chain(failure).chain(said).chain(model);
        words.map(|words| first_line(words, 400)).collect::<Vec<_>>().join("\n")
    }

    /// What goes before the model, part by part.
    #[must_use]
    pub fn parts(&self, counting: Counting) -> Vec<Part> {
        let mut parts = Vec::new();
        let each = self.tokens_of_each(counting);
        let all = self.messages.iter().zip(&self.entries).zip(each);
        for (place, ((message, entry), tokens)) in all.enumerate() {
            let (first, last) = (entry.first, entry.last);
            let name = match message {
                Message::User { .. } if place == 0 => "task and memory".to_owned(),
                Message::User { .. } => format!("#{first} told"),
                Message::Model { .. } => format!("#{first} model"),
                Message::Tools { results } if results.len() == 1 => format!("#{first} result"),
                Message::Tools { .. } => format!("#{first} to #{last} results"),
            };
            let begins = match message {
                Message::Tools { results } => {
                    let text =
                        results.iter().flat_map(|result| &result.content).find_map(rule::text);
                    first_line(text.unwrap_or_default(), 100)
                }
                _ => first_line(&rule::rule_summary([(message, entry)].into_iter(), 4_000), 100),
            };
            parts.push(Part { name, tokens, begins });
        }
        parts
    }
}

/// What was read, if a call has read something that another read may take the place of.
fn read(call: &Call<'_>, result: &ToolResult, fact: Fact) -> Option<Read> {
    let Fact::Read { path, whole } = fact else { return None };
    let bytes = result.content.iter().map(weight_of_content).sum();
    if call.status != ToolStatus::Done || bytes < FEWEST_BYTES {
        return None;
    }
    let goes_on = |part: &Content| matches!(part, Content::Text { text } if text.contains("; go on with offset "));
    let whole = whole && !result.content.iter().any(goes_on);
    Some(Read { path, arguments: call.arguments.to_owned(), whole, bytes })
}
