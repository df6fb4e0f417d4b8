//! Logs of jobs that never were, with facts planted in them, and questions that ask
//! for each fact in other words: for measuring how well it is found again.
//!
//! The rest of the log talks about the same things with the same words, so that a
//! fact is told apart only by which of them come together. The same seed gives the
//! same log.

mod filler;
mod vocabulary;

use std::path::PathBuf;
use std::time::Duration;

use cofferdam_types::{
    Answer, Arguments, Block, Budget, CallId, CheckResult, Event, JobId, JobSpec, LOG_VERSION,
    Limits, ModelName, Network, Outcome, Place, Record, RequestId, Role, StopReason, ThreadId,
    Timestamp, Tokens, ToolCall, ToolOutput, ToolStatus,
};
use serde_json::{Value, json};

use vocabulary::{Name, Pool, Random};

/// A log, and what is hidden in it.
#[derive(Clone, Debug)]
pub struct Session {
    /// The events, without a gap.
    pub records: Vec<Record>,
    /// What can be asked, in the order it was planted.
    pub needles: Vec<Needle>,
}

/// A fact that was planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle {
    /// What somebody asks who has forgotten where it was.
    pub question: String,
    /// The event that answers it.
    pub seq: u64,
    /// What kind of fact it is.
    pub kind: &'static str,
}

/// A log of so many turns with so many facts at every depth of it.
#[must_use]
pub fn session(seed: u64, turns: usize, needles: usize) -> Session {
    let mut log = Log::new(seed);
    let mut planted = Vec::with_capacity(needles);
    for turn in 0..turns {
        while planted.len() < needles * (turn + 1) / turns.max(1) {
            let needle = log.plant(planted.len());
            planted.push(needle);
        }
        log.turn();
    }
    Session { records: log.records, needles: planted }
}

/// A log as it grows.
struct Log {
    random: Random,
    records: Vec<Record>,
    requests: u32,
    calls: u64,
}

impl Log {
    fn new(seed: u64) -> Self {
        let mut log =
            Self { random: Random::new(seed), records: Vec::new(), requests: 0, calls: 0 };
        let model = ModelName("demo".to_owned());
        log.push(Event::Created {
            spec: Box::new(JobSpec {
                job: "0190a5b2-0000-7000-8000-000000000001"
                    .parse()
                    .unwrap_or_else(|_| JobId::generate()),
                task: "Bring the services up to the new protocol, one after the other.".to_owned(),
                orchestrator: model.clone(),
                coder: model,
                summariser: None,
                budget: Budget { turns: u32::MAX, tokens: None, cost: None, time: None },
                checks: vec!["make check".to_owned()],
                attempts: 3,
                place: Place {
                    workspace: PathBuf::from("/workspace"),
                    sandbox: "auto".to_owned(),
                    require: None,
                    network: Network::None,
                    limits: Limits::default(),
                    readable: Vec::new(),
                    image: None,
                    variables: Vec::new(),
                },
                out: None,
            }),
        });
        log
    }

    fn push(&mut self, event: Event) -> u64 {
        let seq = u64::try_from(self.records.len()).unwrap_or(u64::MAX) + 1;
        let at = Timestamp(1_790_000_000_000 + seq * 1700);
        self.records.push(Record { v: LOG_VERSION, seq, at, event });
        seq
    }

    /// A turn of nothing in particular.
    fn turn(&mut self) {
        let filler = filler::turn(&mut self.random);
        self.step(&filler.said, filler.tool, &filler.arguments, filler.output);
    }

    /// An answer with one call, and what came of it: the numbers of both.
    fn step(&mut self, said: &str, tool: &str, arguments: &Value, output: String) -> (u64, u64) {
        let thread = ThreadId(0);
        let (call, id) = (CallId(self.calls + 1), format!("call_{}", self.calls + 1));
        self.calls += 1;
        let arguments = Arguments(arguments.to_string());
        let wish = ToolCall { id: id.clone(), name: tool.to_owned(), arguments };
        let answered = self.answer(said, Some(wish));
        self.push(Event::ToolStarted { call, thread, id: id.clone(), tool: tool.to_owned() });
        let output = ToolOutput::text(ToolStatus::Done, output);
        (answered, self.push(Event::ToolEnded { call, thread, id, output }))
    }

    fn answer(&mut self, said: &str, call: Option<ToolCall>) -> u64 {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.push(Event::ModelAsked {
            thread: ThreadId(0),
            request,
            role: Role::Orchestrator,
            model: ModelName("demo".to_owned()),
            attempt: 1,
            span: None,
        });
        let stop = if call.is_some() { StopReason::Tools } else { StopReason::Done };
        let mut blocks = vec![Block::Text { text: said.to_owned() }];
        blocks.extend(call.map(Block::ToolCall));
        let answer = Answer { blocks, stop, tokens: Tokens::default() };
        self.push(Event::ModelAnswered { request, answer, cost: None })
    }

    /// Plants a fact of one of the kinds, each in its turn.
    fn plant(&mut self, number: usize) -> Needle {
        let name = Name::any(&mut self.random);
        let amount = self.random.up_to(9000) + 1000;
        let kinds = [
            Self::rule,
            Self::compiler_error,
            Self::setting,
            Self::decision,
            Self::panic,
            Self::port,
            Self::missing_module,
            Self::flaky_test,
            Self::revert,
            Self::switch,
            Self::patched_constant,
            Self::failed_check,
            Self::half_remembered,
            Self::other_forms,
            Self::other_words,
        ];
        let Some(kind) = kinds.get(number % kinds.len()) else { unreachable!() };
        kind(self, &name, amount)
    }

    fn rule(&mut self, name: &Name, _: u64) -> Needle {
        let text = format!(
            "One more thing: {} has to remain synchronous, whatever else you change. A signal \
             handler calls it.",
            name.snake()
        );
        let seq = self.push(Event::UserSaid { text });
        let question = format!("may {} become asynchronous?", name.camel());
        Needle { question, seq, kind: "rule of the user" }
    }

    fn compiler_error(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let file = name.file("rs");
        let around = filler::log(&mut self.random, pool, 18);
        let after = filler::log(&mut self.random, pool, 6);
        let text = format!(
            "{around}error[E0{}]: mismatched types\n  --> {file}:{}:14\n   |\n   = note: expected \
             `Duration`, found `Option<Duration>`\n{after}",
            amount % 700 + 100,
            amount % 300
        );
        let command = json!({"command": "cargo build --workspace"});
        let (_, seq) = self.step("I build everything again.", "bash", &command, text);
        let question = format!("what did the compiler complain about in {}?", name.file_name("rs"));
        Needle { question, seq, kind: "error of a compiler" }
    }

    fn setting(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let file = format!("config/{}.env", name.noun);
        let (before, after) = (
            filler::settings(&mut self.random, pool, 14),
            filler::settings(&mut self.random, pool, 9),
        );
        let text = format!("{before}{}_CEILING={amount}\n{after}", name.screaming());
        let said = "I read how it is set up in production.";
        let (_, seq) = self.step(said, "read_file", &json!({"path": file}), text);
        let question = format!("how high is the ceiling for {}?", name.spoken());
        Needle { question, seq, kind: "setting" }
    }

    fn decision(&mut self, name: &Name, _: u64) -> Needle {
        let said = format!(
            "I decided to let `{}` write into a ring buffer rather than into the table: the \
             nightly export would hold its rows otherwise. Now the tests.",
            name.camel()
        );
        let filler = filler::turn(&mut self.random);
        let (seq, _) = self.step(&said, filler.tool, &filler.arguments, filler.output);
        let question = format!("why does {} use a ring buffer?", name.snake());
        Needle { question, seq, kind: "decision" }
    }

    fn panic(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let (before, after) =
            (filler::log(&mut self.random, pool, 25), filler::log(&mut self.random, pool, 12));
        let text = format!(
            "{before}thread 'worker-{}' panicked at {}:{}:9:\ncalled `{}` with an index of {amount} \
             while the length is {}\n{after}",
            amount % 16,
            name.file("rs"),
            amount % 500,
            name.camel(),
            amount % 97,
        );
        let command = json!({"command": "cargo test --workspace"});
        let (_, seq) = self.step("All tests once more.", "bash", &command, text);
        let question = format!("where did {} panic with an index out of range?", name.snake());
        Needle { question, seq, kind: "panic in a log" }
    }

    fn port(&mut self, name: &Name, amount: u64) -> Needle {
        let said = format!(
            "Before I go on I look up which port the {} {} listens on in staging.",
            name.noun, name.thing
        );
        let text = format!("LISTEN 0 128 0.0.0.0:{} 0.0.0.0:*\n", amount + 10_000);
        let (_, seq) = self.step(&said, "bash", &json!({"command": "ss -ltn"}), text);
        let question = format!("staging port of the {}{}", name.noun, capital(name.thing));
        Needle { question, seq, kind: "answer to the turn before" }
    }

    fn missing_module(&mut self, name: &Name, _: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let (before, after) =
            (filler::log(&mut self.random, pool, 12), filler::log(&mut self.random, pool, 12));
        let text = format!(
            "{before}Error [ERR_{}_NOT_FOUND]: Cannot find package imported from {}\n{after}",
            name.screaming(),
            name.file("ts"),
        );
        let (_, seq) =
            self.step("Now the other half.", "bash", &json!({"command": "npm test"}), text);
        let question = format!("which import could not be resolved, {} missing?", name.camel());
        Needle { question, seq, kind: "code of an error" }
    }

    fn flaky_test(&mut self, name: &Name, _: u64) -> Needle {
        let said = format!(
            "So that is it: `test{}` fails every other time because two fixtures replace the clock. \
             I leave it as it is for now.",
            name.pascal()
        );
        let seq = self.answer(&said, None);
        let question = format!("reason for the flaky test of {}: fixture and clock", name.spoken());
        Needle { question, seq, kind: "cause of a failure" }
    }

    fn revert(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let (before, after) = (
            filler::commits(&mut self.random, pool, 12),
            filler::commits(&mut self.random, pool, 20),
        );
        let text = format!(
            "{before}{:07x} Revert \"{}: batch the writes\", it deadlocked under load\n{after}",
            amount * 51_787,
            name.snake()
        );
        let command = json!({"command": "git log --oneline -40"});
        let (_, seq) = self.step("What happened here before?", "bash", &command, text);
        let question =
            format!("commit that took back batching in {} after a deadlock", name.camel());
        Needle { question, seq, kind: "commit" }
    }

    fn switch(&mut self, name: &Name, _: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let (before, after) = (
            filler::settings(&mut self.random, pool, 10),
            filler::settings(&mut self.random, pool, 10),
        );
        let text = format!("{before}feature.{}.enabled = false\n{after}", name.kebab());
        let arguments = json!({"path": format!("config/{}.toml", name.noun)});
        let (_, seq) = self.step("Which features are on?", "read_file", &arguments, text);
        let question = format!("is the feature {} enabled?", name.camel());
        Needle { question, seq, kind: "switch" }
    }

    fn patched_constant(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let file = name.file("ts");
        let patch = format!(
            "*** Begin Patch\n*** Update File: {file}\n@@\n{}-const {}Patience = 250;\n+const \
             {}Patience = {amount};\n{}*** End Patch",
            filler::context(&mut self.random, pool, 3),
            name.camel(),
            name.camel(),
            filler::context(&mut self.random, pool, 3),
        );
        let done = format!("M {file}\n");
        let arguments = json!({"input": patch});
        let (seq, _) = self.step("That was too short.", "apply_patch", &arguments, done);
        let question = format!("patience of {} after we raised it", name.spoken());
        Needle { question, seq, kind: "change to a file" }
    }

    fn failed_check(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let output = format!(
            "{}FAILED {}::Test{} - AssertionError: {amount} rows left behind\n",
            filler::log(&mut self.random, pool, 15),
            name.file("py"),
            name.pascal()
        );
        let result = CheckResult {
            command: "make check".to_owned(),
            outcome: Outcome::Exited { exit_code: 2 },
            output,
            took: Duration::from_secs(40),
        };
        let seq = self.push(Event::CheckEnded { attempt: 1, results: vec![result] });
        let question = format!("assertion about rows left behind in {}", name.snake());
        Needle { question, seq, kind: "failed check" }
    }

    /// Asked for with a part of its name only, and that in the plural.
    fn half_remembered(&mut self, name: &Name, _: u64) -> Needle {
        let text = format!(
            "Support asks that `{}` does not run while the backfill is going on.",
            name.camel()
        );
        let seq = self.push(Event::UserSaid { text });
        let question = format!("what about {}s during backfills?", name.noun);
        Needle { question, seq, kind: "half remembered" }
    }

    fn other_forms(&mut self, name: &Name, amount: u64) -> Needle {
        let pool = &Pool::around(name, &mut self.random);
        let text = format!(
            "{}{} truncates {amount} cents where it should round them\n{}",
            filler::log(&mut self.random, pool, 20),
            name.snake(),
            filler::log(&mut self.random, pool, 20),
        );
        let command = json!({"command": format!("make audit-{}", name.noun)});
        let (_, seq) = self.step("The audit, then.", "bash", &command, text);
        let question =
            format!("truncated instead of rounding in the {} {}s", name.noun, name.thing);
        Needle { question, seq, kind: "other forms of the words" }
    }

    /// Nothing but what it is about is the same.
    fn other_words(&mut self, name: &Name, amount: u64) -> Needle {
        let said = format!(
            "Profiling says that `{}` spends {} % of its time on allocations, so I reuse them.",
            name.in_language("rs"),
            amount % 60 + 30
        );
        let filler = filler::turn(&mut self.random);
        let (seq, _) = self.step(&said, filler.tool, &filler.arguments, filler.output);
        let question = format!("performance bottleneck of the {} {}", name.noun, name.thing);
        Needle { question, seq, kind: "other words" }
    }
}

fn capital(word: &str) -> String {
    vocabulary::capital(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_gapless_and_the_same_for_the_same_seed() {
        let (one, two) = (session(7, 100, 24), session(7, 100, 24));
        assert_eq!(one.records, two.records);
        assert_eq!(one.needles, two.needles);
        assert_ne!(one.needles, session(8, 100, 24).needles);
        let seqs: Vec<u64> = one.records.iter().map(|record| record.seq).collect();
        assert!(seqs.iter().copied().eq(1..=one.records.len() as u64));
        assert_eq!(one.needles.len(), 24);
        assert!(one.needles.iter().all(|needle| seqs.contains(&needle.seq)));
    }
}
