//! Whose acts they are: the processes inside, followed from report to report.
//!
//! Process 1 is the guest, its children are monitors and bear the name of the call that they
//! work for, and whoever is made by one that belongs to a call belongs to it too, whatever it
//! calls itself and whoever looks after it later.
//!
//! A process may be heard of before its parent has said that it made it; then it is waited
//! for that. Numbers of processes come round again: one that may just have been given anew is
//! waited for likewise, until nobody is making one.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use cofferdam_types::{AuditRecord, CallId};

use super::super::call_named;
use super::acts::{Doing, From, join};
use super::arguments;
use super::messages::Message;
use super::report::{Phase, Report};

/// The first process.
const GUEST: u32 = 1;

/// How long somebody is waited for who made a process, in microseconds. It takes one write.
const PATIENCE: u64 = 1_000_000;

/// How much of what waits is kept.
const MOST_WAITING: usize = 256 << 10;

/// So many processes are remembered after their end: other threads of theirs may still be
/// heard of.
const MOST_ENDED: usize = 64;

/// So many processes are known at once. No sandbox has as many, but of those that are killed
/// nobody hears: the earliest are forgotten.
const MOST_PROCESSES: usize = 8192;

/// So many threads are noted as making a process.
const MOST_BEARING: usize = 4096;

/// No working directory of this many bytes is remembered.
const LONGEST_DIRECTORY: usize = 4096;

/// Half of the numbers that there are for processes.
const HALF: u32 = 1 << 15;

/// Numbers given while nobody has heard of it are no farther ahead than this.
const AHEAD: u32 = 1 << 14;

/// One process.
#[derive(Clone, Debug)]
struct Process {
    call: Option<CallId>,
    /// It is the guest's child, whose name is to be believed.
    is_monitor: bool,
    directory: Option<Rc<str>>,
    /// Where it was before a change of its working directory that is under way.
    leaving: Option<Rc<str>>,
    /// It has more than one thread: what one of them says may be late.
    has_threads: bool,
    /// Another process, or a thread of its own, may have another working directory by the same
    /// name, or change this one.
    shares_directory: bool,
    /// In which round its number was given, and which birth that was.
    round: u32,
    birth: u64,
    has_ended: bool,
}

/// The processes of one sandbox.
#[derive(Debug)]
pub(super) struct Kin {
    processes: HashMap<u32, Process>,
    /// Threads that are making a process or a thread, and whose they are.
    bearing: HashMap<u32, u32>,
    /// What waits, with its time and its process.
    waiting: VecDeque<(u64, u32, Message)>,
    /// The bytes of that.
    weight: usize,
    ended: VecDeque<u32>,
    /// Births, the earliest first, with their processes; and how many there were.
    births: VecDeque<(u64, u32)>,
    born: u64,
    /// The latest number given, and how often they have come round.
    latest: u32,
    round: u32,
}

impl Default for Kin {
    fn default() -> Self {
        let guest = Process {
            call: None,
            is_monitor: false,
            directory: Some("/".into()),
            leaving: None,
            has_threads: false,
            shares_directory: false,
            round: 0,
            birth: 0,
            has_ended: false,
        };
        Self {
            processes: HashMap::from([(GUEST, guest)]),
            bearing: HashMap::new(),
            waiting: VecDeque::new(),
            weight: 0,
            ended: VecDeque::new(),
            births: VecDeque::new(),
            born: 0,
            latest: GUEST,
            round: 0,
        }
    }
}

impl Kin {
    /// Takes a message, and tells the acts that are certain by it.
    pub(super) fn hear(&mut self, at_us: u64, message: Message, tell: &mut dyn FnMut(AuditRecord)) {
        while self.waiting.front().is_some_and(|(since, ..)| since + PATIENCE < at_us)
            || self.weight > MOST_WAITING
        {
            self.give_up(tell);
        }
        let Some(report) = Report::read(&message.text, message.cut) else { return };
        if self.is_certain(report.process) {
            self.take(at_us, &report, true, tell);
            if bears(report.call) {
                self.settle(tell);
            }
            return;
        }
        if report.phase == Phase::Begins && bears(report.call) {
            self.note_bearing(&report);
        }
        self.weight += message.text.len();
        self.waiting.push_back((at_us, report.process, message));
    }

    /// Whether it is known who this is, or that nobody will say.
    fn is_certain(&self, process: u32) -> bool {
        let is_young = self.processes.get(&process).is_some_and(|known| {
            known.round == self.round
                || known.round + 1 == self.round && process > self.latest + AHEAD
        });
        is_young || process == GUEST || self.bearing.values().all(|of| *of == process)
    }

    /// Takes what waits for somebody who is known now.
    fn settle(&mut self, tell: &mut dyn FnMut(AuditRecord)) {
        let certain =
            |kin: &Self| kin.waiting.iter().position(|(_, process, _)| kin.is_certain(*process));
        while let Some(index) = certain(self) {
            self.take_waiting(index, true, tell);
        }
    }

    fn give_up(&mut self, tell: &mut dyn FnMut(AuditRecord)) {
        self.take_waiting(0, false, tell);
        self.settle(tell);
    }

    fn take_waiting(&mut self, index: usize, certain: bool, tell: &mut dyn FnMut(AuditRecord)) {
        let Some((at_us, _, message)) = self.waiting.remove(index) else { return };
        self.weight = self.weight.saturating_sub(message.text.len());
        if let Some(report) = Report::read(&message.text, message.cut) {
            self.take(at_us, &report, certain, tell);
        }
    }

    /// Takes a report of somebody who is known for certain, or else will not be.
    fn take(
        &mut self,
        at_us: u64,
        report: &Report<'_>,
        certain: bool,
        tell: &mut dyn FnMut(AuditRecord),
    ) {
        let mut process = self.processes.get_mut(&report.process).filter(|_| certain);
        if let Some(process) = process.as_deref_mut()
            && process.is_monitor
        {
            process.call = call_named(report.name).or(process.call);
        }
        match (report.phase, report.call) {
            (Phase::Begins, call) if bears(call) => self.note_bearing(report),
            (Phase::Ends(child), call) if bears(call) => {
                let was_bearing = self.bearing.remove(&report.thread).is_some();
                match child.and_then(|child| u32::try_from(child).ok()) {
                    Some(child) if was_bearing && !report.in_doubt => {
                        self.bear(report, child, certain);
                    }
                    // Whoever had this number has ended, and whose it is now is not known.
                    Some(child) if child != GUEST => {
                        self.give(child);
                        self.processes.remove(&child);
                    }
                    _ => {}
                }
            }
            (Phase::Begins, "exit_group") => self.end(report.process),
            (phase, "chdir" | "fchdir") => {
                if let Some(process) = process {
                    process.move_on(phase, report);
                }
            }
            (Phase::Begins, _) => {
                let Some(doing) = Doing::read(report) else { return };
                if let (Some(process), Some(here)) = (process.as_deref_mut(), doing.here)
                    && !process.has_threads
                {
                    process.is_in(From::Here(Some(here)).directory(None));
                }
                let (call, working) = match process {
                    Some(process) => (process.call, process.directory.as_deref()),
                    None => (None, None),
                };
                if let Some(act) = doing.act(working) {
                    tell(AuditRecord { at_us, call, pid: report.process, act });
                }
            }
            (Phase::Ends(_), _) => {}
        }
    }

    fn bear(&mut self, report: &Report<'_>, child: u32, certain: bool) {
        let round = self.give(child);
        let flags = report.arguments.split(", ").next().unwrap_or_default();
        let has = |wanted: &str| flags.split('|').any(|flag| flag == wanted);
        let parent = self.processes.get_mut(&report.process).filter(|_| certain);
        let shares_directory = has("CLONE_FS");
        if has("CLONE_THREAD") {
            if let Some(parent) = parent {
                parent.has_threads = true;
                if !shares_directory {
                    parent.lose_directory();
                }
            }
            return;
        }
        let (call, directory) = match parent {
            Some(parent) => {
                if shares_directory {
                    parent.lose_directory();
                }
                (parent.call, parent.directory.clone())
            }
            None => (None, None),
        };
        self.born += 1;
        let birth = self.born;
        let born = Process {
            call,
            is_monitor: report.process == GUEST,
            directory,
            leaving: None,
            has_threads: false,
            shares_directory,
            round,
            birth,
            has_ended: false,
        };
        self.processes.insert(child, born);
        self.births.push_back((birth, child));
        while self.births.len() > MOST_PROCESSES
            && let Some((birth, earliest)) = self.births.pop_front()
        {
            if self.processes.get(&earliest).is_some_and(|known| known.birth == birth) {
                self.processes.remove(&earliest);
            }
        }
    }

    /// Notes that a thread is making a process, or another thread.
    fn note_bearing(&mut self, report: &Report<'_>) {
        if !report.in_doubt && self.bearing.len() < MOST_BEARING {
            self.bearing.insert(report.thread, report.process);
        }
    }

    /// Notes that a number was given, and in which round.
    fn give(&mut self, number: u32) -> u32 {
        if number.saturating_add(HALF) < self.latest {
            self.round += 1;
            self.latest = number;
        } else if number > self.latest + HALF {
            // Somebody is late to say so.
            return self.round.saturating_sub(1);
        }
        self.latest = self.latest.max(number);
        self.round
    }

    fn end(&mut self, process: u32) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.has_ended = true;
        }
        self.ended.push_back(process);
        if self.ended.len() > MOST_ENDED
            && let Some(earlier) = self.ended.pop_front()
            && self.processes.get(&earlier).is_some_and(|known| known.has_ended)
        {
            self.processes.remove(&earlier);
        }
    }
}

impl Process {
    /// Where it is cannot be told any more.
    fn lose_directory(&mut self) {
        self.shares_directory = true;
        self.directory = None;
    }

    /// It changes its working directory. While it does nobody knows where it is.
    fn move_on(&mut self, phase: Phase, report: &Report<'_>) {
        match phase {
            _ if self.has_threads => self.lose_directory(),
            Phase::Begins => self.leaving = self.directory.take(),
            // It is told in a way that can be read differently.
            Phase::Ends(_) if report.in_doubt || report.cut => {
                (self.leaving, self.directory) = (None, None);
            }
            Phase::Ends(result) => {
                self.directory = self.leaving.take().or(self.directory.take());
                if result.is_some() {
                    self.go(report);
                }
            }
        }
    }

    /// It has changed its working directory.
    fn go(&mut self, report: &Report<'_>) {
        let directory = match report.call {
            "fchdir" => From::of(report.arguments).directory(None).map(str::to_owned),
            _ => match arguments::path(report.arguments) {
                path if path.starts_with('/') => Some(path.to_owned()),
                path => self.directory.as_deref().map(|from| join(Some(from), path)),
            },
        };
        self.is_in(From::Here(directory.as_deref()).directory(None));
    }

    fn is_in(&mut self, directory: Option<&str>) {
        let directory = directory.filter(|path| path.len() < LONGEST_DIRECTORY);
        if self.shares_directory {
            self.directory = None;
        } else if self.directory.as_deref() != directory {
            self.directory = directory.map(Rc::from);
        }
    }
}

fn bears(call: &str) -> bool {
    matches!(call, "clone" | "fork" | "vfork")
}

#[cfg(test)]
#[path = "kin_tests.rs"]
mod tests;
