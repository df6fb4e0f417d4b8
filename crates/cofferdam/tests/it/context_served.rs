//! A long job of a server: what the user says in the middle of it holds to the end, also
//! when the server is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cofferdam_testkit::marathon::{Course, Summary, rule};

use crate::context_lab::{Long, SPRINT, cuts, patiently};
use crate::server_lab::Served;

#[test]
fn what_the_user_says_to_a_long_job_holds_to_its_end_and_through_a_crash() {
    let course = Course { steps: 46, ..SPRINT };
    let (stalls, stalled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (stalls_there, stalled_there) = (Arc::clone(&stalls), Arc::clone(&stalled));
    let Long { agent, seen } = Long::with(course, move |_| {
        if stalls_there.swap(false, Ordering::SeqCst) {
            stalled_there.store(true, Ordering::SeqCst);
            return Summary::Stall;
        }
        Summary::Good
    });
    agent.configure(&format!("[model]\ncontext_window = {}\n", course.window));
    let mut served = Served::with_options(agent, &[]);
    let job = served.submit(&["--max-turns", "5000", &course.task()]);
    for (number, step) in (1..).zip([5, 15, 22, 28]) {
        seen.until("the next steps", |record| record.step >= step);
        served.ask(&["say", &job, &rule(&format!("delta-0{number}"))]).expect_code(0);
        if number == 1 {
            served.kill();
            served.restart();
        }
    }
    // The server is gone while a summary is asked for.
    stalls.store(true, Ordering::SeqCst);
    patiently("a summary that is asked for", || stalled.load(Ordering::SeqCst));
    served.kill();
    served.restart();
    patiently("the end of the job", || {
        let status = served.job(&job)["status"].clone();
        assert_ne!(status, "error");
        status == "complete"
    });
    let log = served.ask(&["logs", "--json", &job]).expect_code(0);
    let transcript = crate::agent::records(&log.stdout);
    let [_, summarised, _] = cuts(&transcript);
    assert!(summarised > 5, "{summarised}");
    let patch = served.ask(&["download", &job, "--format", "patch", "--out", "-"]).expect_code(0);
    let ledger: Vec<String> = patch
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix('+'))
        .filter(|line| line.starts_with("step "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(seen.record().tags.len(), 2 + 2 + 4);
    seen.went_well(&ledger.concat());
}
