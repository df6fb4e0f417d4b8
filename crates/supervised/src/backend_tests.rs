//! A supervisor that waits for its plan. What it does with one is tested by the back ends.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::*;

fn keeping_one() -> (tempfile::TempDir, Supervised) {
    let home = tempfile::tempdir().unwrap();
    let backend = Supervised::new(home.path().join("sandboxes")).keeping_warm(1);
    (home, backend)
}

fn waiting(backend: &Supervised) -> Option<Pid> {
    backend.starter.ready()
}

/// Waits until nothing is done aside any more.
async fn calm(backend: &Supervised) {
    let mut aside = std::mem::take(&mut *backend.aside.lock().unwrap());
    while aside.join_next().await.is_some() {}
}

async fn open(backend: &Supervised) -> SupervisedRoom {
    backend.make(Spec::scratch()).await.unwrap()
}

#[tokio::test]
async fn the_next_sandbox_has_the_supervisor_that_waits() {
    let (_home, backend) = keeping_one();
    assert_eq!(waiting(&backend), None, "nobody has wanted one yet");
    let first = open(&backend).await;
    calm(&backend).await;
    let next = waiting(&backend).unwrap();
    let second = open(&backend).await;
    assert_eq!(second.supervisor.as_ref().and_then(Reaped::pid), Some(next));
    calm(&backend).await;
    assert_ne!(waiting(&backend), Some(next), "one is only taken once");
    assert!(waiting(&backend).is_some());
    for room in [first, second] {
        Box::new(room).close().await.unwrap();
    }
}

#[tokio::test]
async fn one_that_was_killed_while_it_waited_is_replaced() {
    let (_home, backend) = keeping_one();
    backend.prepare();
    let child = waiting(&backend).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), ended).unwrap();
    Box::new(open(&backend).await).close().await.unwrap();
}

#[tokio::test]
async fn none_waits_where_none_is_to_be_kept() {
    let home = tempfile::tempdir().unwrap();
    let backend = Supervised::new(home.path().join("sandboxes"));
    Box::new(open(&backend).await).close().await.unwrap();
    calm(&backend).await;
    assert_eq!(waiting(&backend), None);
}

#[test]
fn nothing_is_got_ready_for_a_back_end_that_is_gone() {
    let (_home, backend) = keeping_one();
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        // Nothing is done aside before the only thread for that is free.
        let (release, busy) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || busy.recv().ok());
        let (done, is_done) = std::sync::mpsc::channel();
        backend.later(move || done.send(()).unwrap());
        let mut aside = std::mem::take(&mut *backend.aside.lock().unwrap());
        drop(backend);
        release.send(()).unwrap();
        busy.await.unwrap();
        while aside.join_next().await.is_some() {}
        assert!(is_done.recv().is_err());
    });
}
