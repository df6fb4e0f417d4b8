//! One connection from inside, as the log will tell it.

use std::time::Duration;

use cofferdam_types::{AuditAct, AuditRecord};

use crate::ending::Ended;
use crate::failure::Failure;
use crate::traffic::Traffic;

/// What is known of a connection so far. It becomes a record whenever it ends,
/// also when it is cut off in the middle.
#[derive(Debug)]
pub(crate) struct Attempt {
    at_us: u64,
    host: String,
    port: u16,
    verdict: Verdict,
    pub(crate) traffic: Traffic,
}

#[derive(Debug)]
enum Verdict {
    Undecided,
    /// Allowed, and under way.
    Allowed,
    /// Allowed, and over: whatever comes now changes nothing.
    Over,
    Refused(String),
    /// Allowed, and broken off for this reason.
    Ended(String),
    Idle(Duration),
    Stopped,
}

impl Attempt {
    pub(crate) fn new(at_us: u64) -> Self {
        Self {
            at_us,
            host: String::new(),
            port: 0,
            verdict: Verdict::Undecided,
            traffic: Traffic::new(),
        }
    }

    /// Takes note of what is asked for. The host is fit to be shown.
    pub(crate) fn asked(&mut self, host: String, port: u16) {
        self.host = host;
        self.port = port;
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn allowed(&mut self) {
        self.verdict = Verdict::Allowed;
    }

    /// What was allowed stays so: it may have carried something to the host.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.verdict = match self.verdict {
            Verdict::Allowed => Verdict::Ended(failure.to_string()),
            _ => Verdict::Refused(failure.verdict()),
        };
    }

    /// What was allowed has ended.
    pub(crate) fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Whole | Ended::Gone => self.verdict = Verdict::Over,
            Ended::Broken(failure) => self.failed(&failure),
            Ended::Idle(limit) => self.verdict = Verdict::Idle(limit),
        }
    }

    /// The connection was cut because the proxy stops: for this reason, or because the sandbox
    /// ends.
    pub(crate) fn stopped(&mut self, why: Option<&Failure>) {
        match (&self.verdict, why) {
            (Verdict::Allowed, None) => self.verdict = Verdict::Stopped,
            (Verdict::Undecided, None) => {
                self.verdict = Verdict::Refused("failed: the sandbox ended first".to_owned());
            }
            (Verdict::Allowed | Verdict::Undecided, Some(failure)) => self.failed(failure),
            (
                Verdict::Over
                | Verdict::Refused(_)
                | Verdict::Ended(_)
                | Verdict::Idle(_)
                | Verdict::Stopped,
                _,
            ) => {}
        }
    }

    pub(crate) fn into_record(self) -> AuditRecord {
        let verdict = match self.verdict {
            Verdict::Undecided => "malformed: nothing was asked for".to_owned(),
            Verdict::Allowed | Verdict::Over => "allowed".to_owned(),
            Verdict::Refused(why) => why,
            Verdict::Ended(why) => format!("allowed, ended: {why}"),
            Verdict::Idle(limit) => {
                format!("allowed, ended after {} s without traffic", limit.as_secs_f64())
            }
            Verdict::Stopped => "allowed, ended with the sandbox".to_owned(),
        };
        AuditRecord {
            at_us: self.at_us,
            call: None,
            pid: 0,
            act: AuditAct::Egress {
                host: self.host,
                port: self.port,
                verdict,
                sent: self.traffic.sent(),
                received: self.traffic.received(),
            },
        }
    }
}
