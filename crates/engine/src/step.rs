//! One step: a fact is heard, everything that follows from it is decided, and
//! what is to be done about it is returned.
//!
//! Every effect goes with an event that announces it, so that a log that ends
//! anywhere shows what was under way.

use cofferdam_types::{
    Answer, Budget, CallId, Cancel, CheckResult, Ending, Event, FileChange, Instructions,
    ModelFailure, Reading, RequestId, Role, SandboxId, Skill, ThreadId, Timestamp, Tokens,
    ToolCall, ToolOutput, ToolStatus,
};

use crate::decide;
use crate::ledger;
use crate::run::{Checks, Run, Stage};
use crate::settings::Settings;
use crate::thread::{CallState, Offer, Thread, ThreadState};
use crate::tools;
use crate::words;

/// A fact from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A process takes the job up.
    TakeUp {
        /// The product's version.
        version: String,
        /// What a sandbox that outlived the process before kept of its calls.
        collected: Vec<(CallId, ToolOutput)>,
        /// What the user says to it.
        say: Option<String>,
        /// Whether it is only to end, if it was decided how it ends: nobody has
        /// asked for more.
        finish: bool,
    },
    /// The image that the job's own files ask for is being made.
    ImageStep {
        /// What is done for it now, in words.
        step: String,
    },
    /// The image that the job's own files ask for is there.
    ImageReady {
        /// Its key.
        image: String,
    },
    /// The sandbox is there.
    SandboxOpened {
        /// Its name.
        sandbox: SandboxId,
        /// Its back end.
        backend: String,
        /// The isolation it really got.
        grade: String,
        /// What is weaker than it could be.
        weaknesses: Vec<String>,
    },
    /// A part of the program broke, and with it the answer to an effect.
    Broken {
        /// What is known of it.
        reason: String,
    },
    /// There is no sandbox, or no more.
    SandboxFailed {
        /// Why.
        reason: String,
    },
    /// The workspace was looked at.
    Prepared {
        /// Instruction files.
        instructions: Vec<Instructions>,
        /// Skills.
        skills: Vec<Skill>,
    },
    /// What can be connected to in the sandbox has changed.
    Listening {
        /// Every TCP port that is listened on now.
        ports: Vec<u16>,
    },
    /// The user said something.
    UserSaid {
        /// The words.
        text: String,
    },
    /// A model has answered.
    ModelAnswered {
        /// The question.
        request: RequestId,
        /// The answer.
        answer: Answer,
    },
    /// A model has not answered.
    ModelFailed {
        /// The question.
        request: RequestId,
        /// Why not.
        failure: ModelFailure,
        /// What was used all the same.
        tokens: Tokens,
    },
    /// What an answer had used when the job ended before it.
    ModelUsed {
        /// The question.
        request: RequestId,
        /// In which role it was put.
        role: Role,
        /// What was used.
        tokens: Tokens,
    },
    /// A tool has ended.
    ToolEnded {
        /// The call.
        call: CallId,
        /// What became of it.
        output: ToolOutput,
    },
    /// Something long was kept apart, to be read piece by piece.
    Loaded {
        /// The call that asked for it.
        call: CallId,
        /// Where it is.
        reading: Reading,
    },
    /// What was let go was looked for.
    Offered {
        /// The conversation.
        thread: ThreadId,
        /// What was found, in words for the model; nothing, if nothing was.
        text: String,
    },
    /// The checks have ended.
    Checked {
        /// What they found; they stop at the first that fails.
        results: Vec<CheckResult>,
    },
    /// What there is was handed over.
    Delivered {
        /// The files that differ from the beginning.
        changes: Vec<FileChange>,
        /// What went wrong.
        problem: Option<String>,
    },
    /// Somebody wants the job to rest.
    Pause,
    /// Somebody wants the job not to rest after all.
    Resume {
        /// What the user says to it.
        say: Option<String>,
    },
    /// Somebody wants the job to stop.
    Cancel {
        /// Who.
        by: Cancel,
    },
    /// The job may use up more, or less.
    BudgetChanged {
        /// What it may use up in all.
        budget: Budget,
    },
    /// Something that whoever reads the log should know.
    Note {
        /// What.
        text: String,
    },
    /// Time has passed.
    Woken,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make the image that the job's own files ask for, unless it is there: [`Run::image`], if
    /// that is known, and no other. [`Input::SandboxFailed`] if there is none.
    MakeImage,
    /// Make the sandbox.
    OpenSandbox,
    /// Look for what the workspace tells the models.
    Prepare,
    /// Ask a model, with [`Run::prompt`].
    AskModel {
        /// Names the question.
        request: RequestId,
        /// The conversation.
        thread: ThreadId,
        /// The role, and with it the model.
        role: Role,
        /// Tokens that the answer may have.
        max_output: u32,
    },
    /// Run a tool.
    RunTool {
        /// Names the call.
        call: CallId,
        /// The conversation it came up in.
        thread: ThreadId,
        /// What to call, with what.
        tool: ToolCall,
    },
    /// Look for what was let go and may be needed next; [`Input::Offered`] whatever comes
    /// of it.
    Recall {
        /// The conversation.
        thread: ThreadId,
        /// What it is about now.
        words: String,
    },
    /// Run the checks, in a fork of the workspace.
    Check,
    /// Send [`Input::Woken`] at this moment, or later.
    WakeAt(Timestamp),
    /// Stop whatever is under way, hand over what there is, close the sandbox.
    Deliver,
}

impl Effect {
    /// Whether it begins work that costs something or changes something.
    #[must_use]
    pub fn starts_work(&self) -> bool {
        match self {
            Self::MakeImage
            | Self::OpenSandbox
            | Self::Prepare
            | Self::AskModel { .. }
            | Self::RunTool { .. }
            | Self::Check => true,
            Self::WakeAt(_) | Self::Deliver | Self::Recall { .. } => false,
        }
    }
}

/// What follows from an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What happened, to be made durable first.
    pub events: Vec<Event>,
    /// What is to be done then.
    pub effects: Vec<Effect>,
}

/// Hears an input and decides what follows. The events are already part of `run`.
///
/// An input that fits nothing that is under way (an answer to a question that
/// was given up, say) changes nothing.
pub fn step(run: &mut Run, settings: &Settings, now: Timestamp, input: Input) -> Step {
    // A clock that was set back does not turn back the job's.
    let now = now.max(run.last_event);
    let mut step = Step::default();
    let heard = hear(run, settings, now, input);
    take(run, settings, now, heard, &mut step);
    loop {
        let decided = decide::next(run, settings, now);
        if decided.is_empty() {
            return step;
        }
        take(run, settings, now, decided, &mut step);
    }
}

fn take(run: &mut Run, settings: &Settings, now: Timestamp, events: Vec<Event>, step: &mut Step) {
    for event in events {
        run.apply(now, &event);
        step.effects.extend(effects(run, settings, now, &event));
        step.events.push(event);
    }
}

/// The events that an input is, in the state it meets.
fn hear(run: &Run, settings: &Settings, now: Timestamp, input: Input) -> Vec<Event> {
    if let Input::TakeUp { version, collected, say, finish } = input {
        let finish = finish && say.is_none();
        return take_up(run, now, version, collected, say, finish);
    }
    match (&run.stage, input) {
        (Stage::Working, Input::ImageStep { step }) if run.sandbox.is_none() => {
            vec![Event::ImageStep { step }]
        }
        (Stage::Working, Input::ImageReady { image }) if run.sandbox.is_none() => {
            vec![Event::ImageReady { image }]
        }
        (Stage::Working, Input::SandboxOpened { sandbox, backend, grade, weaknesses })
            if run.sandbox.is_none() =>
        {
            vec![Event::SandboxOpened { sandbox, backend, grade, weaknesses }]
        }
        (Stage::Working, Input::SandboxFailed { reason }) => {
            decide::conclude(run, Ending::SandboxUnavailable { reason })
        }
        (Stage::Working, Input::Broken { reason }) => {
            decide::conclude(run, Ending::Failed { reason })
        }
        (Stage::Working, Input::Prepared { instructions, skills }) if run.prepared.is_none() => {
            vec![Event::Prepared { instructions, skills }]
        }
        (Stage::Working, Input::UserSaid { text }) => vec![Event::UserSaid { text }],
        (Stage::Working, Input::ModelAnswered { request, answer }) => {
            let Some((role, _)) = asked(run, request) else { return Vec::new() };
            let cost = settings.role(role).price.map(|price| price.of(answer.tokens));
            vec![Event::ModelAnswered { request, answer, cost }]
        }
        (Stage::Working, Input::ModelFailed { request, failure, tokens }) => {
            let Some((role, attempt)) = asked(run, request) else { return Vec::new() };
            let cost = settings.role(role).price.map(|price| price.of(tokens));
            let retry_at = ledger::retry(settings, request, attempt, &failure);
            let retry_at = retry_at.map(|wait| now.after(wait));
            vec![Event::ModelFailed { request, failure, tokens, cost, retry_at }]
        }
        (Stage::Working, Input::ToolEnded { call, output }) => ended(run, call, output),
        (Stage::Working, Input::Checked { results }) if run.checks == Checks::Running => {
            vec![Event::CheckEnded { attempt: run.hand_ins, results }]
        }
        (Stage::Working, Input::Pause) if !run.paused => vec![Event::Paused],
        (Stage::Working, Input::Resume { say }) => {
            let resumed = run.paused.then_some(Event::Resumed);
            resumed.into_iter().chain(say.map(|text| Event::UserSaid { text })).collect()
        }
        (Stage::Working, Input::Cancel { by }) if run.cancelled.is_none() => {
            vec![Event::CancelAsked { by }]
        }
        (Stage::Ending(ending), Input::Delivered { changes, problem }) => {
            let spent = cofferdam_types::Spent { time: run.elapsed(now), ..run.spent };
            let ending = delivered(ending, problem.as_deref());
            vec![Event::Ended { ending, spent, changes, delivery_problem: problem }]
        }
        (Stage::Ending(_), Input::ModelUsed { request, role, tokens }) => {
            let cost = settings.role(role).price.map(|price| price.of(tokens));
            vec![Event::ModelUsed { request, tokens, cost }]
        }
        (Stage::Working, Input::Loaded { call, reading }) => loaded(run, call, reading),
        (Stage::Working, Input::Offered { thread, text })
            if run.thread(thread).is_some_and(|thread| thread.offer == Offer::Awaited) =>
        {
            vec![Event::Offered { thread, text }]
        }
        (Stage::Working, Input::Listening { ports }) => vec![Event::Listening { ports }],
        (Stage::Working | Stage::Ending(_), Input::Note { text }) => vec![Event::Noted { text }],
        (Stage::Created | Stage::Working | Stage::Ended(_), Input::BudgetChanged { budget }) => {
            vec![Event::BudgetChanged { budget }]
        }
        // The rest comes too late, or twice, or only to have the clock looked at.
        _ => Vec::new(),
    }
}

/// A process takes the job up: whatever was under way then is in doubt now. Work
/// that was done and not yet handed over is handed over, unless there is more to
/// do; a job that was stopped before that goes on, unless it is only to finish.
fn take_up(
    run: &Run,
    now: Timestamp,
    version: String,
    mut collected: Vec<(CallId, ToolOutput)>,
    say: Option<String>,
    finish: bool,
) -> Vec<Event> {
    let done = match &run.stage {
        Stage::Ending(Ending::Complete { .. } | Ending::Unverified { .. }) => true,
        Stage::Ending(_) => finish,
        _ => false,
    };
    let only_delivers = done && say.is_none();
    let mut events = vec![Event::TakenUp { version, only_delivers }];
    if only_delivers {
        return events;
    }
    for (id, thread) in run.numbered_threads() {
        if let Some((request, ..)) = thread.question() {
            let why = "the process that had asked was gone before the answer was stored";
            events.push(decide::abandon(request, why, Some(now)));
        }
        for pending in &thread.calls {
            let delegated = run.threads.iter().any(|coder| coder.serves == Some(pending.call));
            if pending.state != CallState::Running || delegated {
                continue;
            }
            let kept = collected.iter().position(|(call, _)| *call == pending.call);
            let output = match kept {
                Some(place) => collected.swap_remove(place).1,
                None => ToolOutput::text(ToolStatus::Unknown, words::UNKNOWN_END),
            };
            let (call, id_there) = (pending.call, pending.asked.id.clone());
            events.push(Event::ToolEnded { call, thread: id, id: id_there, output });
        }
    }
    events.extend(say.map(|text| Event::UserSaid { text }));
    events
}

/// The role and the attempt of a question that is under way.
fn asked(run: &Run, question: RequestId) -> Option<(Role, u32)> {
    let mut questions = run.threads.iter().filter_map(Thread::question);
    questions.find(|(request, ..)| *request == question).map(|(_, attempt, role)| (role, attempt))
}

/// What was loaded is read by a conversation of its own.
fn loaded(run: &Run, call: CallId, reading: Reading) -> Vec<Event> {
    let pending = run.threads.iter().flat_map(|thread| &thread.calls);
    let mut pending = pending.filter(|pending| pending.state == CallState::Running);
    let Some(pending) = pending.find(|pending| pending.call == call) else { return Vec::new() };
    let arguments = pending.asked.arguments.object().unwrap_or_default();
    let brief = tools::question(arguments).unwrap_or_default();
    let thread = ThreadId(u32::try_from(run.threads.len()).unwrap_or(u32::MAX));
    vec![Event::Delegated { thread, call, brief, reading: Some(reading) }]
}

/// The end of a tool that runs.
fn ended(run: &Run, call: CallId, output: ToolOutput) -> Vec<Event> {
    for (thread, state) in run.numbered_threads() {
        let running = |pending: &&crate::thread::PendingCall| {
            pending.call == call && pending.state == CallState::Running
        };
        if let Some(pending) = state.calls.iter().find(running) {
            let id = pending.asked.id.clone();
            return vec![Event::ToolEnded { call, thread, id, output }];
        }
    }
    Vec::new()
}

/// Work that could not be handed over is not complete, whatever was said of it.
fn delivered(ending: &Ending, problem: Option<&str>) -> Ending {
    match (ending, problem) {
        (Ending::Complete { .. } | Ending::Unverified { .. }, Some(problem)) => {
            Ending::Failed { reason: format!("the work could not be handed over: {problem}") }
        }
        _ => ending.clone(),
    }
}

/// What is to be done because of an event.
fn effects(run: &Run, settings: &Settings, now: Timestamp, event: &Event) -> Vec<Effect> {
    match event {
        Event::TakenUp { only_delivers: true, .. } => vec![Effect::Deliver],
        Event::TakenUp { .. } => {
            let mut effects = vec![match run.spec.place.wants_task_image() {
                true => Effect::MakeImage,
                false => Effect::OpenSandbox,
            }];
            effects.extend(ledger::deadline(run, now).map(Effect::WakeAt));
            // Whoever was to wake the process before us is gone with it.
            effects.extend(run.threads.iter().filter_map(|thread| match thread.state {
                ThreadState::Ready { not_before, .. }
                | ThreadState::Summarised { not_before, .. }
                    if not_before > now =>
                {
                    Some(Effect::WakeAt(not_before))
                }
                _ => None,
            }));
            effects
        }
        Event::BudgetChanged { .. } => {
            ledger::deadline(run, now).map(Effect::WakeAt).into_iter().collect()
        }
        Event::ImageReady { .. } => vec![Effect::OpenSandbox],
        Event::SandboxOpened { .. } if run.prepared.is_none() => vec![Effect::Prepare],
        Event::ModelAsked { thread, request, role, .. } => {
            let max_output = ledger::allowance(run, settings, *thread).unwrap_or(ledger::SMALLEST);
            vec![Effect::AskModel { request: *request, thread: *thread, role: *role, max_output }]
        }
        Event::ModelFailed { retry_at: Some(at), .. } => vec![Effect::WakeAt(*at)],
        Event::ToolStarted { call, thread, .. } => {
            let calls = run.thread(*thread).map_or(&[][..], |thread| &thread.calls);
            let found = calls.iter().find(|pending| pending.call == *call);
            let tool = found.map(|pending| pending.asked.clone());
            tool.map(|tool| Effect::RunTool { call: *call, thread: *thread, tool })
                .into_iter()
                .collect()
        }
        Event::RecallAsked { thread, words } => {
            vec![Effect::Recall { thread: *thread, words: words.clone() }]
        }
        Event::CheckStarted { .. } => vec![Effect::Check],
        Event::Ending { .. } => vec![Effect::Deliver],
        _ => Vec::new(),
    }
}
