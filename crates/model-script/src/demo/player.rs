//! Plays a script: from where a conversation stands to the next answer.

use cofferdam_model::Request;
use cofferdam_types::{Answer, Arguments, Block, StopReason, Tokens, ToolCall};
use serde_json::json;

use super::moment::{Conversation, Mark, Moment, Outcome};
use super::outputs::Outputs;
use super::script::{Call, Next, Script, Step};
use super::task::{SAMPLES, recognise};
use crate::said::opening;

/// Said first in every conversation.
const LABEL: &str = "This is Cofferdam's built-in demo: a script, no language model.";

/// So often a script may start over from a step: after interruptions, say.
const ATTEMPTS: u32 = 12;

/// The step of a call that hands in.
const FINISH: &str = "finish";

/// Bytes that are about one token.
const BYTES_PER_TOKEN: usize = 4;

/// The answer to a request.
pub(super) fn answer(request: &Request) -> Answer {
    let conversation = Conversation::of(request);
    let speaker = Speaker { request, conversation: &conversation };
    match recognise(&opening(request)) {
        Some(composer) => speaker.go_on(&composer(&conversation)),
        None => speaker.decline(),
    }
}

struct Speaker<'a> {
    request: &'a Request,
    conversation: &'a Conversation<'a>,
}

impl Speaker<'_> {
    fn go_on(&self, script: &Script) -> Answer {
        let at = |step: &str, attempt| Mark {
            script: script.name.to_owned(),
            step: step.to_owned(),
            attempt,
        };
        let (mark, outcomes, spoken_to) = match self.conversation.moment() {
            Moment::Opening => return self.step(script, script.steps.first(), 1, LABEL),
            Moment::After { mark, outcomes, spoken_to } => (mark, outcomes, spoken_to),
            Moment::LastWordSaid => return self.give_up(at(FINISH, 1), NOTHING_LEFT),
            Moment::Foreign => return self.give_up(at(FINISH, 1), FOREIGN),
        };
        let outputs = Outputs(&outcomes);
        let next = mark.attempt.saturating_add(1);
        if mark.step == FINISH {
            return self.after_handing_in(&outcomes, at(FINISH, next));
        }
        let place = script.steps.iter().position(|step| step.name == mark.step);
        let place = place.filter(|_| mark.script == script.name);
        let Some((place, step)) = place.and_then(|place| Some((place, script.steps.get(place)?)))
        else {
            return self.give_up(at(FINISH, next), FOREIGN);
        };
        let remark = if spoken_to { SPOKEN_TO } else { "" };
        if outputs.in_doubt() {
            if next > ATTEMPTS {
                return self.give_up(at(FINISH, next), "it was interrupted too often.");
            }
            let calls = step.calls_in_doubt.as_ref().unwrap_or(&step.calls);
            return self.speak(&[remark, IN_DOUBT], calls, &at(step.name, next));
        }
        match (step.judge)(&outputs) {
            Next::On => self.step(script, script.steps.get(place + 1), mark.attempt, remark),
            Next::Back { to, because } if next <= ATTEMPTS => {
                self.step(script, named(script, to), next, &because)
            }
            Next::Back { because: reason, .. } | Next::GiveUp(reason) => {
                self.give_up(at(FINISH, next), &reason)
            }
        }
    }

    /// Handing in again what nobody has heard of is fine; what was not accepted
    /// stays so.
    fn after_handing_in(&self, outcomes: &[Outcome<'_>], mark: Mark) -> Answer {
        let outputs = Outputs(outcomes);
        let lost = outputs.in_doubt() && !outputs.text().contains("not accepted");
        match outcomes.first() {
            Some(Outcome { call, result: Some(_) }) if lost && mark.attempt <= ATTEMPTS => {
                let arguments = call.arguments.object().unwrap_or_default().into();
                self.speak(&[IN_DOUBT], &[Call { tool: FINISH, arguments }], &mark)
            }
            _ => self.give_up(mark, NOTHING_LEFT),
        }
    }

    /// Takes a step; without one, the script is at its end.
    fn step(&self, script: &Script, step: Option<&Step>, attempt: u32, before: &str) -> Answer {
        let name = step.map_or(FINISH, |step| step.name);
        let mark = Mark { script: script.name.to_owned(), step: name.to_owned(), attempt };
        match step {
            Some(step) => self.speak(&[before, &step.say], &step.calls, &mark),
            None => self.finish(&mark, before, &script.summary, true),
        }
    }

    fn give_up(&self, mark: Mark, reason: &str) -> Answer {
        let summary = format!("The built-in demo stopped: {reason}");
        self.finish(&mark, "", &summary, false)
    }

    /// For a task without a script.
    fn decline(&self) -> Answer {
        let samples: Vec<_> = SAMPLES.iter().map(|(task, _)| format!("- {task}")).collect();
        let help = format!("{LABEL} {HELP}{}", samples.join("\n"));
        let attempt = match self.conversation.moment() {
            Moment::After { mark, .. } => mark.attempt.saturating_add(1),
            _ => 1,
        };
        let mark = Mark { script: "none".to_owned(), step: FINISH.to_owned(), attempt };
        self.finish(&mark, &help, DECLINED, false)
    }

    /// The last word: a call of `finish`, or just words where there is none. Words
    /// alone would pass for success, so a failure is said by the reason to stop.
    fn finish(&self, mark: &Mark, before: &str, summary: &str, success: bool) -> Answer {
        if !self.conversation.offers(FINISH) {
            let answer = self.speak(&[before, summary], &[], mark);
            let stop = if success { StopReason::Done } else { StopReason::Refused };
            return Answer { stop, ..answer };
        }
        let arguments = json!({ "summary": summary, "success": success });
        self.speak(&[before], &[Call { tool: FINISH, arguments }], mark)
    }

    fn speak(&self, paragraphs: &[&str], calls: &[Call], mark: &Mark) -> Answer {
        let said: Vec<_> = paragraphs.iter().copied().filter(|text| !text.is_empty()).collect();
        let mut blocks = Vec::new();
        if !said.is_empty() {
            blocks.push(Block::Text { text: said.join("\n\n") });
        }
        // A plan is for those who watch; where nobody can see it, work goes on.
        let seen = |call: &&Call| call.tool != "plan" || self.conversation.offers("plan");
        for (index, call) in calls.iter().filter(seen).enumerate() {
            let arguments = Arguments(call.arguments.to_string());
            let (id, name) = (mark.id(index), call.tool.to_owned());
            blocks.push(Block::ToolCall(ToolCall { id, name, arguments }));
        }
        let waits = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = if waits { StopReason::Tools } else { StopReason::Done };
        let tokens = Tokens {
            input: tokens(read(self.request)),
            output: tokens(blocks.iter().map(written).sum()),
            ..Tokens::default()
        };
        Answer { blocks, stop, tokens }
    }
}

fn named<'a>(script: &'a Script, name: &str) -> Option<&'a Step> {
    script.steps.iter().find(|step| step.name == name)
}

/// About how many tokens so many bytes are.
fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// The bytes of a question, about as a provider would see them.
fn read(request: &Request) -> usize {
    let json = |value: serde_json::Result<String>| value.map_or(0, |text| text.len());
    request.system.len()
        + json(serde_json::to_string(&request.messages))
        + json(serde_json::to_string(&*request.tools))
}

fn written(block: &Block) -> usize {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.len(),
        Block::ToolCall(call) => call.name.len() + call.arguments.0.len(),
    }
}

const IN_DOUBT: &str = "It is not known what became of my last step, so I take it again; doing it \
     twice does no harm.";

const SPOKEN_TO: &str = "(I hear that, but a script cannot answer; it goes on with its task.)";

const NOTHING_LEFT: &str = "the work was handed in and more is wanted, but a script cannot repair \
     or add anything beyond its last line. A language model could: see `--model`.";

const FOREIGN: &str = "another model led this conversation, and a script cannot go on from there.";

const DECLINED: &str = "The built-in demo is a script and has none for this task. Configure a \
     language model, for example with ANTHROPIC_API_KEY, or try one of the sample tasks.";

const HELP: &str = "It has no script for this task, so nothing was done.

To have it done, give Cofferdam a language model:
- `ANTHROPIC_API_KEY`, with `--model anthropic/NAME`
- `OPENAI_API_KEY`, with `--model openai/NAME`
- `OPENAI_BASE_URL` for any other server that speaks Chat Completions, with `--model \
     openai-compatible/NAME`
- a local Ollama, with `--model ollama/NAME`; no key is needed

What the demo can do without a key or a network:
";
