//! `kill -9` of `cofferdam serve` in every state of a job: a short run of what
//! `cargo xtask crash` runs at length.

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_testkit::{CrashSuite, Postgres};

fn suite(postgres: Option<Arc<Postgres>>) -> CrashSuite {
    CrashSuite { binary: PathBuf::from(env!("CARGO_BIN_EXE_cofferdam")), postgres, seed: 4 }
}

/// One round of each of these states.
fn killed_in(suite: &CrashSuite, states: &[&str]) {
    for state in states {
        // Each run of the tests is the same: the round decides which job it hits.
        suite.state(state, 1..2).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

const BEFORE_WORK: &[&str] = &["accepted", "queued", "leased", "taken-up", "provisioning"];
const ANSWERS: &[&str] =
    &["model-asked", "model-waiting", "model-answering", "model-half", "model-answered"];
const TOOLS: &[&str] = &["tool-intent", "tool-running", "tool-ended", "collecting"];
const ENDINGS: &[&str] = &["checking", "zipping", "keeping", "completing", "ended"];
const ORDERS: &[&str] =
    &["cancelling", "cancelled-zipping", "cancelled-completing", "pausing", "resting", "resuming"];

#[test]
fn every_state_is_tried() {
    let tried = [BEFORE_WORK, ANSWERS, TOOLS, ENDINGS, ORDERS].concat();
    let mut known: Vec<&str> = CrashSuite::states().collect();
    known.retain(|state| !tried.contains(state));
    assert_eq!(known, Vec::<&str>::new());
}

#[test]
fn a_server_killed_before_the_work_begins_loses_no_job() {
    killed_in(&suite(None), BEFORE_WORK);
}

#[test]
fn a_server_killed_around_an_answer_asks_again_only_for_what_was_not_stored() {
    killed_in(&suite(None), ANSWERS);
}

#[test]
fn a_server_killed_around_a_command_runs_none_twice() {
    killed_in(&suite(None), TOOLS);
}

#[test]
fn a_server_killed_while_a_job_ends_ends_it_once() {
    killed_in(&suite(None), ENDINGS);
}

#[test]
fn a_server_killed_while_it_obeys_has_obeyed_in_the_end() {
    killed_in(&suite(None), ORDERS);
}

#[test]
fn the_same_holds_on_postgresql() {
    let states = ["accepted", "queued", "tool-running", "collecting", "zipping", "cancelling"];
    killed_in(&suite(Some(Postgres::shared())), &states);
}

#[test]
fn a_server_that_is_asked_to_stop_leaves_its_jobs_to_the_next() {
    let suite = suite(None);
    for trial in ["stop-in-tools", "stop-twice"] {
        suite.trial(trial, 1).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn a_job_whose_sandbox_is_killed_comes_to_an_end() {
    suite(None).trial("sandbox-killed", 1).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn whoever_reads_the_events_of_a_long_job_misses_none_while_servers_are_killed() {
    suite(None).trial("many-events", 1).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn jobs_under_random_kills_come_to_an_end() {
    suite(None).random(8).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn another_server_takes_over_what_a_dead_one_had() {
    let suite = suite(Some(Postgres::shared()));
    suite.two_servers(3).unwrap_or_else(|violation| panic!("{violation}"));
}
