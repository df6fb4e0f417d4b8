//! Flow control: neither side is more than a window ahead, and no call waits
//! for another.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::{CHUNK, Channel, Control, ExecEnd, Frame, Stdin, WINDOW};
use cofferdam_sandbox::{CallError, OutputChunk};
use cofferdam_types::CallId;
use futures_util::poll;

use crate::fake_guest::{connected, connected_over, done, exec, stdout};

const PIECE: usize = 64 << 10;
const PIECES: usize = WINDOW as usize / PIECE;

#[tokio::test]
async fn credit_is_given_for_output_once_the_next_is_asked_for_and_not_before() {
    let (client, mut guest) = connected().await;
    let mut slow = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    for _ in 0..PIECES {
        guest.send(stdout(1, vec![7; PIECE])).await;
    }

    // Another call is served although nobody takes anything of the first.
    let mut quick = client.exec(CallId(2), exec(Stdin::Null)).await.unwrap();
    assert_eq!(guest.request().await.0, 2);
    guest.send_all([stdout(2, "quick"), done(2, ExecEnd::Exited(0))]).await;
    assert_eq!(quick.next_output().await, Some(OutputChunk::Stdout("quick".into())));
    quick.wait().await.unwrap();
    assert_eq!(guest.frame().await, Frame::Ack { call: 2 });

    let credit = |total| Frame::Consumed { call: 1, channel: Channel::Output, total };
    let mut stored = 0;
    for _ in 0..PIECES {
        let Some(OutputChunk::Stdout(bytes)) = slow.next_output().await else { panic!("no data") };
        if stored > 0 && stored % (WINDOW / 4) == 0 {
            assert_eq!(guest.frame().await, credit(stored));
        }
        stored += bytes.len() as u64;
    }
    assert_eq!(stored, WINDOW);
    // Whoever dies with the last piece in hand can have it again.
    guest.is_left_alone(Duration::from_millis(50)).await;
    let mut next = Box::pin(slow.next_output());
    assert!(poll!(&mut next).is_pending());
    assert_eq!(guest.frame().await, credit(WINDOW));
}

#[tokio::test]
async fn a_guest_that_overruns_the_window_loses_the_connection() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Null)).await.unwrap();
    guest.request().await;
    for _ in 0..PIECES {
        guest.send(stdout(1, vec![7; PIECE])).await;
    }
    guest.send(stdout(1, "x")).await;

    assert_eq!(guest.next().await, None);
    let Err(CallError::ConnectionLost { reason }) = process.wait().await else {
        panic!("the call went on");
    };
    assert_eq!(reason, "the guest sent more than 1048576 bytes ahead on Output of call 1");
}

#[tokio::test]
async fn stdin_goes_a_window_ahead_and_no_further() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    guest.request().await;
    let mut stdin = process.take_stdin().unwrap();
    let content: Bytes = (0..3 * WINDOW).map(|at| at as u8).collect::<Vec<u8>>().into();
    let all = content.clone();

    let play = async {
        let mut got = Vec::new();
        let mut consumed = 0;
        while got.len() < content.len() {
            // Take what comes until the window is full, then let it move.
            let Frame::Data { channel: Channel::Input, bytes, .. } = guest.frame().await else {
                panic!("no data");
            };
            assert!(bytes.len() <= CHUNK);
            got.extend_from_slice(&bytes);
            assert!(got.len() as u64 - consumed <= WINDOW);
            if got.len() as u64 - consumed == WINDOW {
                consumed = got.len() as u64 - 1000;
                let channel = Channel::Input;
                guest.send(Frame::Consumed { call: 1, channel, total: consumed }).await;
            }
        }
        assert_eq!(guest.frame().await, Frame::End { call: 1, channel: Channel::Input });
        got
    };
    let write = async {
        stdin.write(all).await.unwrap();
        stdin.close();
    };
    let (got, ()) = tokio::join!(play, write);
    assert!(got == content);
}

#[tokio::test]
async fn a_stream_that_takes_little_at_a_time_loses_nothing() {
    let (client, mut guest) = connected_over(1000).await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    let content = Bytes::from(vec![5; 700_000]);
    let write = async {
        stdin.write(content).await.unwrap();
        stdin.close();
    };
    let play = async {
        guest.request().await;
        let mut got = 0;
        loop {
            match guest.frame().await {
                Frame::Data { bytes, .. } => got += bytes.len(),
                Frame::End { .. } => return got,
                other => panic!("unexpected {other:?}"),
            }
        }
    };
    let ((), got) = tokio::join!(write, play);
    assert_eq!(got, 700_000);
}

#[tokio::test]
async fn a_kill_does_not_wait_for_a_guest_that_takes_nothing() {
    let (client, mut guest) = connected_over(1000).await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    process.write_stdin(Bytes::from(vec![0; 700 << 10])).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    assert!(poll!(Box::pin(stdin.write("no room".into()))).is_pending());
    for _ in 0..100_000 {
        process.signal(1);
    }
    process.kill();
    process.kill();

    let mut controls = Vec::new();
    while controls.last() != Some(&Control::Kill) {
        if let Frame::Control { call: 1, control } = guest.frame().await {
            controls.push(control);
        }
    }
    assert!((2..1000).contains(&controls.len()), "{} of them", controls.len());
    // There is room again: more reach it, and no second kill came.
    process.signal(15);
    let last = Frame::Control { call: 1, control: Control::Signal(15) };
    assert_eq!(guest.frame().await, last);
}

#[tokio::test]
async fn writing_to_a_command_that_ends_returns() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    guest.request().await;
    let mut stdin = process.take_stdin().unwrap();
    let write = stdin.write(Bytes::from(vec![0; 2 * WINDOW as usize]));
    let play = async {
        let mut got = 0;
        while got < WINDOW {
            if let Frame::Data { bytes, .. } = guest.frame().await {
                got += bytes.len() as u64;
            }
        }
        guest.send(done(1, ExecEnd::Exited(0))).await;
    };
    let (written, ()) = tokio::join!(write, play);
    assert_eq!(written, Err(CallError::InputClosed));
}

#[tokio::test]
async fn a_guest_that_claims_input_it_never_got_loses_the_connection() {
    let (client, mut guest) = connected().await;
    let mut process = client.exec(CallId(1), exec(Stdin::Piped)).await.unwrap();
    guest.request().await;
    guest.send(Frame::Consumed { call: 1, channel: Channel::Input, total: 1 }).await;
    assert!(matches!(process.wait().await, Err(CallError::ConnectionLost { .. })));
}
