//! Connections that end, and calls that are taken up over a new one.

use cofferdam_guest_protocol::{CallState, ExecEnd, Frame, Refusal, Reply, Request, Stdin};
use cofferdam_sandbox::{CallError, Offsets, OutputChunk};
use cofferdam_types::CallId;

use crate::fake_guest::{connected, done, exec, stderr, stdout};

fn reason<T>(result: Result<T, CallError>) -> String {
    match result {
        Err(CallError::ConnectionLost { reason }) => reason,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

#[tokio::test]
async fn every_call_ends_with_the_connection_after_the_output_that_came() {
    let (client, mut guest) = connected().await;
    let mut first = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    let second = client.exec(CallId(2), exec(Stdin::Null)).await.unwrap();
    guest.send(stdout(1, "came")).await;
    drop(guest);

    assert_eq!(first.next_output().await, Some(OutputChunk::Stdout("came".into())));
    assert_eq!(first.next_output().await, None);
    assert_eq!(reason(first.wait().await), "the guest closed the stream");
    assert_eq!(reason(second.started().await), "the guest closed the stream");
    client.ended().await;
    assert_eq!(client.lost().as_deref(), Some("the guest closed the stream"));
    assert!(reason(client.exec(CallId(3), exec(Stdin::Null)).await).contains("closed"));
}

#[tokio::test]
async fn what_a_guest_answered_before_it_went_away_is_heard() {
    let (client, mut guest) = connected().await;
    let mut first = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    guest.send_all([stdout(1, "last words"), done(1, ExecEnd::Exited(0))]).await;
    drop(guest);
    let mut second = client.exec(CallId(2), exec(Stdin::Null)).await.unwrap();
    assert_eq!(first.next_output().await, Some(OutputChunk::Stdout("last words".into())));
    assert_eq!(first.wait().await.unwrap().end, ExecEnd::Exited(0));
    reason(second.wait().await);
}

#[tokio::test]
async fn dropping_the_client_ends_its_calls_and_closes_the_stream() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    drop(client);
    assert_eq!(reason(process.wait().await), "the connection was closed on this side");
    assert_eq!(guest.next().await, None);
}

#[tokio::test]
async fn closing_sends_what_was_still_to_be_sent() {
    let (client, mut guest) = connected().await;
    client.acknowledge(CallId(5));
    client.close().await;
    assert_eq!(guest.frame().await, Frame::Ack { call: 5 });
    assert_eq!(guest.next().await, None);
}

#[tokio::test]
async fn bytes_that_are_no_frame_and_frames_of_a_host_end_the_connection() {
    for bytes in [&[0xff; 64][..], &[0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]] {
        let (client, mut guest) = connected().await;
        let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
        guest.request().await;
        guest.send_raw(bytes).await;
        reason(process.wait().await);
        assert_eq!(guest.next().await, None);
    }
}

#[tokio::test]
async fn a_call_is_taken_up_over_a_new_connection_with_no_byte_lost_or_twice() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(8), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    guest.send_all([stdout(8, "one "), stderr(8, "e")]).await;
    process.next_output().await.unwrap();
    process.next_output().await.unwrap();
    drop(guest);
    reason(process.wait_unacknowledged().await);
    let offsets = process.offsets();
    assert_eq!(offsets, Offsets { stdout: 4, stderr: 1 });

    let (client, mut guest) = connected().await;
    let play = async {
        let (call, request) = guest.request().await;
        assert_eq!(request, Request::Calls);
        let states = [8, call].map(|call| CallState { call, running: true });
        guest.send(Frame::Done { call, reply: Reply::Calls(states.into()) }).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
    };
    let (calls, ()) = tokio::join!(client.calls(), play);
    assert_eq!(calls.unwrap(), [CallState { call: 8, running: true }]);

    let mut process = client.resume(CallId(8), offsets).await.unwrap();
    assert_eq!(guest.frame().await, Frame::Resume { call: 8, output: 4, error: 1 });
    guest.send_all([stdout(8, "two"), done(8, ExecEnd::Exited(0))]).await;
    assert_eq!(process.started().await, Ok(None));
    assert_eq!(process.next_output().await, Some(OutputChunk::Stdout("two".into())));
    assert_eq!(process.offsets(), Offsets { stdout: 7, stderr: 1 });
    process.wait().await.unwrap();
    assert_eq!(guest.frame().await, Frame::Ack { call: 8 });
}

#[tokio::test]
async fn a_call_that_the_guest_does_not_know_is_refused() {
    let (client, mut guest) = connected().await;
    let mut process = client.resume(CallId(8), Offsets::default()).await.unwrap();
    guest.frame().await;
    guest.send(Frame::Done { call: 8, reply: Reply::Refused(Refusal::Unknown) }).await;
    assert_eq!(process.wait().await, Err(CallError::Refused(Refusal::Unknown)));
}
