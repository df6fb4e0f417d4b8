//! Tests of the program as people and their enemies use it.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "the program under test runs on the host")]

mod agent;
mod context_lab;
mod desk_lab;
mod home;
mod invocation;
mod processes;
mod served;
mod terminal;

mod background;
mod bytes;
mod cells;
mod compose;
mod container_jobs;
mod context_killed;
mod context_long;
mod context_meaning;
mod context_meaning_file;
mod context_replay;
mod context_served;
mod context_shown;
mod context_sizes;
mod context_summaries;
mod context_wires;
mod desktop_crash;
mod desktop_full;
mod desktop_jobs;
mod desktop_view;
mod doctor;
mod environment;
mod exec;
mod image_agent;
mod image_command;
mod image_task;
mod image_task_served;
mod interrupt;
mod json;
mod killed;
mod limits;
mod notebook_download;
mod options;
mod preview;
mod preview_lab;
mod pty;
mod recall_jobs;
mod run;
mod run_faults;
mod run_killed;
mod run_samples;
mod serve_access;
mod serve_jobs;
mod serve_sandbox;
mod server_cases;
mod server_client;
mod server_contract;
mod server_crash;
mod server_faults;
mod server_lab;
mod server_page;
mod server_probes;
mod server_traces;
mod setup_command;
mod stdin;
mod trail;
mod user;
mod workspace;
mod workspace_hostile;
mod workspace_mounts;

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says something beside what a test has to say.
#[expect(clippy::print_stderr, reason = "for whoever reads why a test failed")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// Waits until something is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
