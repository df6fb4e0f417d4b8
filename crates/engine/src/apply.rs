//! What each event does to the state. The only place that changes it.

use cofferdam_types::{
    CallId, CheckResult, Cut, Event, ModelName, PlanStep, RequestId, Role, SandboxId, StepStatus,
    ThreadId, Timestamp, Tokens, Usd,
};

use crate::decide;
use crate::digest::Digest;
use crate::repetition::Repetition;
use crate::run::{Checks, Run, Stage};
use crate::thread::{CallState, Offer, Thread, ThreadState};
use crate::words;

impl Run {
    /// Takes an event in.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        self.pass_time(at, event);
        self.last_seq += 1;
        let seq = self.last_seq;
        match event {
            // The state begins with it, and it comes once.
            Event::Created { .. }
            | Event::ImageStep { .. }
            | Event::Listening { .. }
            | Event::Noted { .. } => {}
            Event::TakenUp { only_delivers, .. } => self.take_up(seq, *only_delivers),
            Event::ImageReady { image } => {
                self.image.get_or_insert_with(|| image.clone());
            }
            Event::SandboxOpened { sandbox, .. } => self.settle(*sandbox),
            Event::Prepared { instructions, skills } => {
                self.prepared = Some((instructions.clone(), skills.clone()));
            }
            Event::UserSaid { text } => self.listen(seq, text),
            Event::Delegated { call, brief, reading, .. } => {
                self.start_call(*call);
                let role = if reading.is_some() { Role::Summariser } else { Role::Coder };
                let mut thread = Thread::new(role, brief, Some(*call), seq);
                thread.digest = reading.clone().map(Digest::of);
                self.threads.push(thread);
            }
            Event::ModelAsked { thread, request, attempt, span, .. } => {
                self.requests_made = self.requests_made.max(request.0 + 1);
                let (request, attempt) = (*request, *attempt);
                if let Some(thread) = self.thread_mut(*thread) {
                    thread.state = match span {
                        Some(span) => {
                            thread.context.speak();
                            ThreadState::Summarising { request, attempt, span: *span }
                        }
                        None => {
                            thread.ask();
                            ThreadState::Asked { request, attempt }
                        }
                    };
                }
            }
            Event::ModelAnswered { request, answer, cost } => {
                self.spent.turns += 1;
                self.pay(answer.tokens, *cost);
                let mut made = self.calls_made;
                if let Some(thread) = self.asked(*request) {
                    thread.hear_any(seq, answer, || {
                        made += 1;
                        CallId(made)
                    });
                }
                self.calls_made = made;
            }
            Event::ModelFailed { request, failure, tokens, cost, retry_at } => {
                if *tokens != Tokens::default() {
                    self.pay(*tokens, *cost);
                }
                if let Some(thread) = self.asked(*request) {
                    thread.fail(failure, *retry_at);
                }
            }
            Event::ModelUsed { tokens, cost, .. } => self.pay(*tokens, *cost),
            Event::ToolStarted { call, .. } => self.start_call(*call),
            Event::ToolEnded { call, thread, output, .. } => {
                if let Some(thread) = self.thread_mut(*thread) {
                    thread.end_call(seq, *call, output);
                }
                self.checks = Checks::Idle;
                self.end_coder(seq, *thread, *call);
            }
            Event::Planned { steps, decisions } => {
                let done = |plan: &[PlanStep]| {
                    plan.iter().filter(|step| step.status == StepStatus::Completed).count()
                };
                let step_done = done(steps) > done(&self.plan);
                self.plan.clone_from(steps);
                if let Some(thread) = self.thread_mut(ThreadId(0)) {
                    thread.context.planned(seq, decisions, step_done);
                }
            }
            Event::CheckStarted { attempt } => {
                self.hand_ins = *attempt;
                self.checks = Checks::Running;
            }
            Event::CheckEnded { results, .. } => {
                if let Some(thread) = self.thread_mut(ThreadId(0)) {
                    thread.context.checked(seq, results);
                }
                self.end_checks(seq, results);
            }
            Event::ContextCut { thread, cut, pinned, .. } => self.cut(*thread, cut, *pinned),
            Event::RecallAsked { thread, .. } => {
                if let Some(thread) = self.thread_mut(*thread) {
                    thread.offer = Offer::Awaited;
                }
            }
            Event::Offered { thread, text } => {
                if let Some(thread) = self.thread_mut(*thread) {
                    thread.offer = Offer::Nothing;
                    if !text.is_empty() {
                        thread.context.tell(seq, text.clone());
                    }
                }
            }
            Event::ModelsChanged { orchestrator, coder, summariser } => {
                self.change_models(orchestrator, coder, summariser.as_ref());
            }
            Event::BudgetChanged { budget } => self.spec.budget = budget.clone(),
            Event::Paused => self.paused = true,
            Event::Resumed => self.paused = false,
            Event::CancelAsked { by } => self.cancelled = Some(*by),
            Event::Ending { ending } => self.stage = Stage::Ending(ending.clone()),
            Event::Ended { ending, .. } => self.stage = Stage::Ended(ending.clone()),
        }
    }

    /// Goes on with other models. What the one before could not read says nothing of the
    /// next, whose window may be another one.
    fn change_models(
        &mut self,
        orchestrator: &ModelName,
        coder: &ModelName,
        summariser: Option<&ModelName>,
    ) {
        let roles = [Role::Orchestrator, Role::Coder, Role::Summariser];
        let before = roles.map(|role| self.model(role).clone());
        self.spec.orchestrator = orchestrator.clone();
        self.spec.coder = coder.clone();
        if let Some(summariser) = summariser {
            self.spec.summariser = Some(summariser.clone());
        }
        for (role, before) in roles.into_iter().zip(before) {
            if *self.model(role) == before {
                continue;
            }
            for thread in self.threads.iter_mut().filter(|thread| thread.role == role) {
                thread.context.change_model();
            }
        }
    }

    /// Time counts while a process works on the job, not between two of them.
    fn pass_time(&mut self, at: Timestamp, event: &Event) {
        let idle = matches!(self.stage, Stage::Created | Stage::Ended(_));
        if !idle && !matches!(event, Event::TakenUp { .. }) {
            self.spent.time += at.since(self.last_event);
        }
        self.last_event = self.last_event.max(at);
    }

    fn take_up(&mut self, seq: u64, only_delivers: bool) {
        let again = !matches!(self.stage, Stage::Created);
        self.sandbox = None;
        self.paused = false;
        if self.checks == Checks::Running {
            // Checks change nothing, so they are simply run again.
            self.hand_ins = self.hand_ins.saturating_sub(1);
        }
        self.checks = Checks::Idle;
        if only_delivers {
            return;
        }
        if let Stage::Ending(_) | Stage::Ended(_) = self.stage {
            self.cancelled = None;
            self.hand_ins = 0;
            self.reopen();
        }
        self.stage = Stage::Working;
        for thread in &mut self.threads {
            if thread.offer == Offer::Awaited {
                thread.offer = Offer::Due;
            }
        }
        if again {
            self.interruptions.push(seq);
            for thread in &mut self.threads {
                if thread.state != ThreadState::Done {
                    thread.context.tell(seq, words::IN_A_NEW_SANDBOX);
                }
            }
        }
        self.heed_user();
    }

    /// Works in this sandbox from here on. Which one it would be was not known when the
    /// models were to be told of it, and none was asked since.
    fn settle(&mut self, sandbox: SandboxId) {
        let interruptions = std::mem::take(&mut self.interruptions);
        if self.last_sandbox == Some(sandbox) {
            for thread in &mut self.threads {
                for seq in &interruptions {
                    thread.context.reword(*seq, words::IN_THE_SAME_SANDBOX);
                }
            }
        }
        (self.sandbox, self.last_sandbox) = (Some(sandbox), Some(sandbox));
    }

    /// Makes a job that had ended ready to go on.
    fn reopen(&mut self) {
        for thread in &mut self.threads {
            thread.repetition = Repetition::default();
            thread.fruitless = 0;
            match thread.state {
                // Whoever delegated was told that the job had ended.
                _ if thread.serves.is_some() => thread.state = ThreadState::Done,
                ThreadState::Calling | ThreadState::Done => {}
                _ => thread.state = ThreadState::ready(),
            }
        }
    }

    /// A hand-in by a last word, which no call waits for, ends here if it is not
    /// accepted: the model is told why, and goes on.
    fn end_checks(&mut self, seq: u64, results: &[CheckResult]) {
        self.checks = Checks::Ended(results.to_vec());
        let passed = decide::all_passed(self, results);
        let (hand_in, allowed) = (self.hand_ins, self.spec.attempts);
        let Some(thread) = self.thread_mut(ThreadId(0)) else { return };
        let decided = (passed || hand_in >= allowed) && !thread.user_waits;
        if decided || !matches!(thread.state, ThreadState::HandedIn { .. }) {
            return;
        }
        if !passed {
            thread.context.tell(seq, words::checks_failed(results, hand_in, allowed));
        }
        thread.state = ThreadState::ready();
        self.checks = Checks::Idle;
    }

    /// The conversation that served a call is over: whoever asked for it remembers what it
    /// has changed.
    fn end_coder(&mut self, seq: u64, asking: ThreadId, call: CallId) {
        let Some(coder) = self.threads.iter_mut().find(|coder| coder.serves == Some(call)) else {
            return;
        };
        coder.state = ThreadState::Done;
        // What it still had running is of no use to it any more.
        coder.calls.clear();
        let context = coder.context.close();
        if let Some(thread) = self.thread_mut(asking) {
            thread.context.adopt(seq, &context);
        }
    }

    fn cut(&mut self, id: ThreadId, cut: &Cut, pinned: u64) {
        let plan = std::mem::take(&mut self.plan);
        if let Some(thread) = self.thread_mut(id) {
            thread.context.cut(cut, &plan, pinned);
            if let Cut::Summarised { .. } = cut {
                thread.state = ThreadState::ready();
                thread.offer = Offer::Due;
            }
        }
        self.plan = plan;
    }

    /// What the user says goes to the orchestrator, before it is asked again.
    fn listen(&mut self, seq: u64, text: &str) {
        if let Some(thread) = self.thread_mut(ThreadId(0)) {
            thread.context.user_said(seq, text);
            thread.user_waits = true;
        }
        self.heed_user();
    }

    /// What the user has said after a last word is answered, once no checks run:
    /// nothing else would put the conversation on.
    fn heed_user(&mut self) {
        if self.checks == Checks::Running {
            return;
        }
        if let Some(thread) = self.thread_mut(ThreadId(0))
            && thread.user_waits
            && matches!(thread.state, ThreadState::HandedIn { .. })
        {
            thread.state = ThreadState::ready();
        }
    }

    fn start_call(&mut self, call: CallId) {
        let calls = self.threads.iter_mut().flat_map(|thread| &mut thread.calls);
        for pending in calls.filter(|pending| pending.call == call) {
            pending.state = CallState::Running;
        }
    }

    fn asked(&mut self, question: RequestId) -> Option<&mut Thread> {
        let asked =
            |thread: &Thread| thread.question().is_some_and(|(asked, ..)| asked == question);
        self.threads.iter_mut().find(|thread| asked(thread))
    }

    fn pay(&mut self, tokens: Tokens, cost: Option<Usd>) {
        self.spent.tokens += tokens;
        match cost {
            Some(cost) => self.spent.cost += cost,
            None => self.spent.unpriced += 1,
        }
    }
}
