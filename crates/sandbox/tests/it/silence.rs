//! Guests that say nothing: whether they still answer, and when that is asked.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::{ExecEnd, Frame, Stdin};
use cofferdam_sandbox::CallError;
use cofferdam_types::CallId;
use tokio::time::{Instant, sleep};

use crate::fake_guest::{connected, connected_over, done, exec};

const HOUR: Duration = Duration::from_secs(3600);

/// More than a snapshot may stop a guest for, and not much more.
fn is_patient(waited: Duration) -> bool {
    (150..220).contains(&waited.as_secs())
}

fn is_silence<T>(result: Result<T, CallError>) -> bool {
    matches!(result, Err(CallError::ConnectionLost { reason }) if reason == "the guest does not answer")
}

#[tokio::test(start_paused = true)]
async fn a_command_may_be_silent_for_as_long_as_its_guest_answers() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    let begun = Instant::now();
    let play = async {
        while begun.elapsed() < HOUR {
            let question = guest.question().await;
            guest.answer(question).await;
        }
        guest.send(done(1, ExecEnd::Exited(0))).await;
    };
    let (report, ()) = tokio::join!(process.wait(), play);
    assert_eq!(report.unwrap().end, ExecEnd::Exited(0));
    assert_eq!(guest.frame().await, Frame::Ack { call: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_answer_ends_every_wait() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    let begun = Instant::now();
    let files = client.files();
    let play = async {
        let own = guest.question().await;
        guest.request().await;
        let mut asked = 0;
        while let Some(frame) = guest.next().await {
            let Frame::Request { call, .. } = frame else { panic!("unexpected {frame:?}") };
            assert_ne!(call, own);
            asked += 1;
        }
        asked
    };
    let (report, calls, read, asked) =
        tokio::join!(process.wait(), client.calls(), files.stat("file"), play);
    assert!(is_silence(report) && is_silence(calls) && read.is_err());
    assert_eq!(asked, 5);
    assert!(is_patient(begun.elapsed()), "{:?}", begun.elapsed());
    assert_eq!(client.lost().as_deref(), Some("the guest does not answer"));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_nobody_waits_for_is_left_alone() {
    let (client, mut guest) = connected().await;
    guest.is_left_alone(HOUR).await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    guest.send(done(1, ExecEnd::Exited(0))).await;
    process.wait().await.unwrap();
    assert_eq!(guest.frame().await, Frame::Ack { call: 1 });
    guest.is_left_alone(HOUR).await;

    client.exec(CallId(2), exec(Stdin::Null)).await.unwrap().detach();
    guest.request().await;
    guest.is_left_alone(HOUR).await;

    // Whoever comes after that is watched over again.
    let mut process = client.exec(CallId(3), exec(Stdin::Null)).await.unwrap();
    let begun = Instant::now();
    assert!(is_silence(process.wait().await));
    assert!(is_patient(begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_is_not_forgotten() {
    let (client, guest) = connected_over(1000).await;
    let mut first = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    first.write_stdin(Bytes::from(vec![0; 700 << 10])).await.unwrap();
    drop(first);
    sleep(HOUR).await;
    assert_eq!(client.lost(), None);
    let begun = Instant::now();
    assert!(is_silence(client.exec(CallId(2), exec(Stdin::Null)).await));
    assert!(is_patient(begun.elapsed()), "{:?}", begun.elapsed());
    drop(guest);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_stopped_itself_asks_again_before_it_gives_up() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    for _ in 0..5 {
        guest.question().await;
    }
    tokio::time::advance(HOUR).await;
    let begun = Instant::now();
    let question = guest.question().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    guest.answer(question).await;
    for _ in 0..5 {
        guest.question().await;
    }
    assert!(is_silence(process.wait().await));
    assert!(is_patient(begun.elapsed()), "{:?}", begun.elapsed());
}
