//! What each event does to the state. The only place that changes it.

use cofferdam_types::{
    CallId, CheckResult, Event, FailureKind, RequestId, Role, ThreadId, Timestamp, Tokens, Usd,
};

use crate::repetition::Repetition;
use crate::run::{Checks, Run, Stage};
use crate::thread::{CallState, Thread, ThreadState};
use crate::words;

impl Run {
    /// Takes an event in.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        self.pass_time(at, event);
        match event {
            // The state begins with it, and it comes once.
            Event::Created { .. } | Event::Noted { .. } => {}
            Event::TakenUp { only_delivers, .. } => self.take_up(*only_delivers),
            Event::SandboxOpened { sandbox, .. } => self.sandbox = Some(*sandbox),
            Event::Prepared { instructions, skills } => {
                self.prepared = Some((instructions.clone(), skills.clone()));
            }
            Event::UserSaid { text } => self.listen(text),
            Event::Delegated { call, brief, .. } => {
                self.start_call(*call);
                self.threads.push(Thread::new(Role::Coder, brief, Some(*call)));
            }
            Event::ModelAsked { thread, request, attempt, .. } => {
                self.requests_made = self.requests_made.max(request.0 + 1);
                if let Some(thread) = self.thread_mut(*thread) {
                    thread.speak();
                    thread.state = ThreadState::Asked { request: *request, attempt: *attempt };
                }
            }
            Event::ModelAnswered { request, answer, cost } => {
                self.spent.turns += 1;
                self.pay(answer.tokens, *cost);
                let mut made = self.calls_made;
                if let Some(thread) = self.asked(*request) {
                    thread.hear(answer, || {
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
                if let Some(thread) = self.asked(*request)
                    && let ThreadState::Asked { attempt, .. } = thread.state
                {
                    // That nobody waited for an answer is not the model's fault.
                    let next = attempt + u32::from(failure.kind != FailureKind::Abandoned);
                    thread.state = match retry_at {
                        Some(at) => ThreadState::Ready { attempt: next, not_before: *at },
                        None => ThreadState::Broken { failure: failure.clone(), attempts: attempt },
                    };
                }
            }
            Event::ModelUsed { tokens, cost, .. } => self.pay(*tokens, *cost),
            Event::ToolStarted { call, .. } => self.start_call(*call),
            Event::ToolEnded { call, thread, output, .. } => {
                if let Some(thread) = self.thread_mut(*thread) {
                    thread.end_call(*call, output);
                }
                self.checks = Checks::Idle;
                for coder in &mut self.threads {
                    if coder.serves == Some(*call) {
                        coder.state = ThreadState::Done;
                    }
                }
            }
            Event::Planned { steps } => self.plan.clone_from(steps),
            Event::CheckStarted { attempt } => {
                self.hand_ins = *attempt;
                self.checks = Checks::Running;
            }
            Event::CheckEnded { results, .. } => self.end_checks(results),
            Event::ModelsChanged { orchestrator, coder } => {
                self.spec.orchestrator = orchestrator.clone();
                self.spec.coder = coder.clone();
            }
            Event::BudgetChanged { budget } => self.spec.budget = budget.clone(),
            Event::Paused => self.paused = true,
            Event::Resumed => self.paused = false,
            Event::CancelAsked { by } => self.cancelled = Some(*by),
            Event::Ending { ending } => self.stage = Stage::Ending(ending.clone()),
            Event::Ended { ending, .. } => self.stage = Stage::Ended(ending.clone()),
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

    fn take_up(&mut self, only_delivers: bool) {
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
        if again {
            for thread in &mut self.threads {
                if thread.state != ThreadState::Done {
                    thread.pending_words.push(words::TAKEN_UP_AGAIN.to_owned());
                }
            }
        }
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
    fn end_checks(&mut self, results: &[CheckResult]) {
        self.checks = Checks::Ended(results.to_vec());
        let passed = results.iter().all(CheckResult::passed);
        let (hand_in, allowed) = (self.hand_ins, self.spec.attempts);
        let Some(thread) = self.thread_mut(ThreadId(0)) else { return };
        if !matches!(thread.state, ThreadState::HandedIn { .. })
            || (passed && !thread.user_waits)
            || (!passed && hand_in >= allowed)
        {
            return;
        }
        if !passed {
            thread.pending_words.push(words::checks_failed(results, hand_in, allowed));
        }
        thread.state = ThreadState::ready();
        self.checks = Checks::Idle;
    }

    /// What the user says goes to the orchestrator, before it is asked again.
    fn listen(&mut self, text: &str) {
        let checking = self.checks == Checks::Running;
        if let Some(thread) = self.thread_mut(ThreadId(0)) {
            thread.pending_words.push(text.to_owned());
            thread.user_waits = true;
            if matches!(thread.state, ThreadState::HandedIn { .. }) && !checking {
                thread.state = ThreadState::ready();
            }
        }
    }

    fn start_call(&mut self, call: CallId) {
        let calls = self.threads.iter_mut().flat_map(|thread| &mut thread.calls);
        for pending in calls.filter(|pending| pending.call == call) {
            pending.state = CallState::Running;
        }
    }

    fn asked(&mut self, question: RequestId) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| {
            matches!(thread.state, ThreadState::Asked { request, .. } if request == question)
        })
    }

    fn pay(&mut self, tokens: Tokens, cost: Option<Usd>) {
        self.spent.tokens += tokens;
        match cost {
            Some(cost) => self.spent.cost += cost,
            None => self.spent.unpriced += 1,
        }
    }
}
