//! Commands: their output, their input, their end, and what dropping one does.

use bytes::Bytes;
use cofferdam_guest_protocol::{
    Channel, Control, ExecEnd, Frame, PtySize, Refusal, Reply, Request, Stdin,
};
use cofferdam_sandbox::{CallError, Offsets, OutputChunk};
use cofferdam_types::CallId;

use crate::fake_guest::{connected, done, exec, stderr, stdout};

#[tokio::test]
async fn a_command_brings_its_output_in_order_and_then_its_report() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(7), exec(Stdin::Null)).await.unwrap();
    assert_eq!(guest.request().await, (7, Request::Exec(exec(Stdin::Null))));
    guest
        .send_all([
            Frame::Started { call: 7, pid: 42 },
            stdout(7, "out"),
            stderr(7, &b"\xff\0err"[..]),
            Frame::Gap { call: 7, channel: Channel::Output, dropped: 9 },
            stdout(7, "put"),
            Frame::End { call: 7, channel: Channel::Output },
            Frame::End { call: 7, channel: Channel::Error },
            done(7, ExecEnd::Exited(3)),
        ])
        .await;

    assert_eq!(process.started().await, Ok(Some(42)));
    assert_eq!(process.next_output().await, Some(OutputChunk::Stdout("out".into())));
    assert_eq!(process.next_output().await, Some(OutputChunk::Stderr((&b"\xff\0err"[..]).into())));
    assert_eq!(process.next_output().await, Some(OutputChunk::StdoutGap(9)));
    assert_eq!(process.next_output().await, Some(OutputChunk::Stdout("put".into())));
    assert_eq!(process.offsets(), Offsets { stdout: 6, stderr: 5 });
    assert_eq!(process.next_output().await, None);
    assert_eq!(process.wait().await.unwrap().end, ExecEnd::Exited(3));
    assert_eq!(guest.frame().await, Frame::Ack { call: 7 });
}

#[tokio::test]
async fn calls_at_the_same_time_do_not_mix() {
    let (client, mut guest) = connected().await;
    let mut first = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    let mut second = client.exec(CallId(2), exec(Stdin::Null)).await.unwrap();
    for round in 0..100u64 {
        let call = 1 + round % 2;
        guest.send_all([stdout(call, format!("{call} ")), stdout(99, "nobody's")]).await;
    }
    guest.send_all([done(2, ExecEnd::Exited(2)), done(1, ExecEnd::Exited(1))]).await;

    for (process, name) in [(&mut first, "1 "), (&mut second, "2 ")] {
        let mut output = Vec::new();
        while let Some(OutputChunk::Stdout(bytes)) = process.next_output().await {
            output.extend_from_slice(&bytes);
        }
        assert_eq!(output, name.repeat(50).into_bytes());
    }
    assert_eq!(first.wait().await.unwrap().end, ExecEnd::Exited(1));
    assert_eq!(second.wait().await.unwrap().end, ExecEnd::Exited(2));
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused_here_already() {
    let (client, _guest) = connected().await;
    let _first = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    let second = client.exec(CallId(1), exec(Stdin::Null)).await;
    assert_eq!(second.err(), Some(CallError::Refused(Refusal::IdInUse)));
}

#[tokio::test]
async fn what_the_guest_refuses_or_cannot_start_is_a_typed_error() {
    let (client, mut guest) = connected().await;
    let mut refused = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    let missing = client.exec(CallId(2), exec(Stdin::Null)).await.unwrap();
    guest
        .send_all([
            Frame::Done { call: 1, reply: Reply::Refused(Refusal::Full(64)) },
            done(2, ExecEnd::NotStarted(2, "execve".into())),
        ])
        .await;
    assert_eq!(refused.wait().await, Err(CallError::Refused(Refusal::Full(64))));
    let wanted = CallError::NotStarted { errno: 2, what: "execve".into() };
    assert_eq!(missing.started().await, Err(wanted));

    // The guest keeps nothing of what it refused: the id may be another call's.
    drop((refused, missing));
    guest.request().await;
    guest.request().await;
    assert_eq!(guest.frame().await, Frame::Ack { call: 2 });
}

#[tokio::test]
async fn stdin_signals_and_sizes_reach_the_command() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    guest.request().await;
    process.write_stdin(Bytes::from_static(b"in")).await.unwrap();
    process.signal(15);
    let size = PtySize { rows: 3, cols: 4 };
    process.resize(size);
    process.close_stdin();
    process.kill();

    let (call, channel) = (1, Channel::Input);
    assert_eq!(guest.frame().await, Frame::Data { call, channel, bytes: "in".into() });
    assert_eq!(guest.frame().await, Frame::Control { call, control: Control::Signal(15) });
    assert_eq!(guest.frame().await, Frame::Control { call, control: Control::Resize(size) });
    assert_eq!(guest.frame().await, Frame::End { call, channel });
    assert_eq!(guest.frame().await, Frame::Control { call, control: Control::Kill });
    assert_eq!(process.write_stdin("x".into()).await, Err(CallError::InputClosed));
}

#[tokio::test]
async fn input_that_is_cut_short_is_not_ended() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    guest.request().await;
    let mut stdin = process.take_stdin().unwrap();
    stdin.write("half".into()).await.unwrap();
    drop(stdin);
    drop(process);
    let process = client.exec(CallId(2), exec(Stdin::Piped)).await.unwrap();
    drop(process);

    let channel = Channel::Input;
    assert_eq!(guest.frame().await, Frame::Data { call: 1, channel, bytes: "half".into() });
    assert_eq!(guest.frame().await, Frame::Control { call: 1, control: Control::Kill });
    assert_eq!(guest.request().await.0, 2);
    assert_eq!(guest.frame().await, Frame::Control { call: 2, control: Control::Kill });

    // Whoever lets a command go has given it all there is.
    client.exec(CallId(3), exec(Stdin::Piped)).await.unwrap().detach();
    assert_eq!(guest.request().await.0, 3);
    assert_eq!(guest.frame().await, Frame::End { call: 3, channel });
}

#[tokio::test]
async fn dropping_a_running_command_kills_it_and_forgets_it_when_it_is_dead() {
    let (client, mut guest) = connected().await;
    let process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    drop(process);
    assert_eq!(guest.frame().await, Frame::Control { call: 1, control: Control::Kill });

    // It still floods: that is thrown away, with credit, so that it can end.
    let piece = Bytes::from(vec![0; 256 << 10]);
    guest.send(stdout(1, piece)).await;
    let channel = Channel::Output;
    assert_eq!(guest.frame().await, Frame::Consumed { call: 1, channel, total: 256 << 10 });
    guest.send(done(1, ExecEnd::Signaled(9))).await;
    assert_eq!(guest.frame().await, Frame::Ack { call: 1 });
}

#[tokio::test]
async fn dropping_a_command_that_has_ended_only_forgets_it() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    guest.send(done(1, ExecEnd::Exited(0))).await;
    assert_eq!(process.next_output().await, None);
    drop(process);
    assert_eq!(guest.frame().await, Frame::Ack { call: 1 });
}

#[tokio::test]
async fn a_result_can_be_left_with_the_guest_until_it_is_stored() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    guest.send(done(1, ExecEnd::Exited(0))).await;
    process.wait_unacknowledged().await.unwrap();
    drop(process);
    let next = client.exec(CallId(2), exec(Stdin::Null)).await.unwrap();
    assert_eq!(guest.request().await.0, 2);
    client.acknowledge(CallId(1));
    assert_eq!(guest.frame().await, Frame::Ack { call: 1 });
    drop(next);
}

#[tokio::test]
async fn a_detached_command_runs_on_and_is_taken_up_where_it_was_left() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    guest.send(stdout(1, "first ")).await;
    assert_eq!(process.next_output().await, Some(OutputChunk::Stdout("first ".into())));
    let call = process.detach();
    guest.send_all([stdout(1, "second"), done(1, ExecEnd::Exited(0))]).await;

    let here = Offsets { stdout: 6, stderr: 0 };
    assert_eq!(client.resume(call, Offsets::default()).await.err(), Some(CallError::Offsets));
    let mut process = client.resume(call, here).await.unwrap();
    assert_eq!(process.next_output().await, Some(OutputChunk::Stdout("second".into())));
    assert_eq!(process.wait().await.unwrap().end, ExecEnd::Exited(0));
    assert_eq!(guest.frame().await, Frame::Ack { call: 1 });
}
