//! Peers that are no hosts, or of another time.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use cofferdam_guest_protocol::{
    Channel, ExecEnd, Frame, HELLO_LEN, Hello, MAX_PAYLOAD, Refusal, Reply, Request, WINDOW, encode,
};

use crate::client::{Client, argv, shell};
use crate::guest::{Guest, PATIENCE, as_nobody, guest_program, program};

/// Everything the guest says until it closes.
fn everything(stream: &mut UnixStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("it does not close: {error}"),
    }
}

#[test]
fn strangers_and_other_versions_get_a_hello_and_are_closed() {
    let guest = Guest::start();
    let newer = Hello::spanning(900, 901).to_bytes();
    for said in [b"GET / HTTP/1.1\r\n".as_slice(), &newer, &[0; 64]] {
        let mut stream = guest.dial();
        stream.write_all(said).unwrap();
        assert_eq!(everything(&mut stream), Hello::ours().to_bytes());
    }
    assert_eq!(guest.connect().run(argv(&["true"])).end(), &ExecEnd::Exited(0));
}

#[test]
fn a_stranger_does_not_take_the_place_of_the_host() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let silent = guest.dial();
    let mut stranger = guest.dial();
    stranger.write_all(&[7; HELLO_LEN]).unwrap();
    everything(&mut stranger);
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
    drop(silent);
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
}

#[test]
fn a_new_host_takes_the_place_of_the_old() {
    let guest = Guest::start();
    let mut old = guest.connect();
    let mut new = guest.connect();
    assert_eq!(new.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
    assert_eq!(old.next_frame(), None);
}

#[test]
fn garbage_costs_the_connection_and_not_the_guest() {
    let mut guest = Guest::start();
    let too_long = (MAX_PAYLOAD as u32 + 1).to_le_bytes();
    let mut from_guest = Vec::new();
    encode(&Frame::Started { call: 1, pid: 1 }, &mut from_guest).unwrap();
    let garbage: [&[u8]; 4] = [&[0xff; 100], &too_long, &from_guest, &[0; 16]];
    for (call, bytes) in (1..).zip(garbage) {
        let mut client = guest.connect();
        client.request_as(call, Request::Exec(shell("sleep 1000")));
        client.pump_until(call, |outcome| outcome.started.is_some());
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().max(16), 0);
        client.send_raw(&padded);
        assert_eq!(client.next_frame(), None);
    }
    assert!(guest.is_alive());
    let mut client = guest.connect();
    client.request_as(100, Request::Calls);
    client.wait_done(100);
    let Some(Reply::Calls(states)) = &client.outcome(100).reply else { panic!() };
    assert_eq!(states.iter().filter(|state| state.running).count(), 4, "what ran goes on");
}

#[test]
fn a_host_that_breaks_the_flow_control_is_closed() {
    let guest = Guest::start();
    let consumed = |call| Frame::Consumed { call, channel: Channel::Output, total: 1 << 40 };
    let resume = |call| Frame::Resume { call, output: 1 << 40, error: 0 };
    let input = |call| Frame::Consumed { call, channel: Channel::Input, total: 0 };
    let mut number = 50;
    for frame in [consumed, resume, input] {
        number += 1;
        let mut client = guest.connect();
        client.request_as(number, Request::Exec(shell("sleep 1000")));
        client.pump_until(number, |outcome| outcome.started.is_some());
        client.send(&frame(number));
        assert_eq!(client.next_frame(), None);
    }
    let mut client = guest.connect();
    let exec = shell("sleep 1000");
    let exec =
        cofferdam_guest_protocol::Exec { stdin: cofferdam_guest_protocol::Stdin::Piped, ..exec };
    client.request_as(60, Request::Exec(exec));
    client.pump_until(60, |outcome| outcome.started.is_some());
    let bytes = bytes::Bytes::from(vec![0; MAX_PAYLOAD]);
    for _ in 0..2 * WINDOW as usize / MAX_PAYLOAD + 1 {
        client.send(&Frame::Data { call: 60, channel: Channel::Input, bytes: bytes.clone() });
    }
    assert_eq!(client.next_frame(), None);
}

#[test]
fn frames_of_unknown_calls_lead_nowhere() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = 77;
    let bytes = bytes::Bytes::from_static(b"x");
    client.send(&Frame::Data { call, channel: Channel::Input, bytes });
    client.send(&Frame::End { call, channel: Channel::Input });
    client.send(&Frame::Consumed { call, channel: Channel::Output, total: 5 });
    client.send(&Frame::Ack { call });
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
}

#[test]
fn more_calls_than_can_be_held_are_refused() {
    let guest = Guest::start();
    let mut client = guest.connect();
    // Tunnels to nowhere end at once and are kept.
    let nowhere = || cofferdam_guest_protocol::TunnelTarget::Unix(b"/nonexistent".to_vec());
    let calls: Vec<u64> = (0..1024).map(|_| client.tunnel(nowhere())).collect();
    let one_more = client.tunnel(nowhere());
    client.wait_done(one_more);
    let refused = Some(Reply::Refused(Refusal::Full(1024)));
    assert_eq!(client.outcome(one_more).reply, refused);
    client.finish(calls[0]);
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0), "there is room again");
}

#[test]
fn one_host_can_be_served_over_stdin_and_stdout() {
    let workspace = tempfile::tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    let mut command = program(&guest_program());
    command.arg("--stdio").env_clear().env("COFFERDAM_WORKSPACE", workspace.path());
    command.stdin(Stdio::from(theirs.try_clone().unwrap())).stdout(Stdio::from(theirs));
    as_nobody(&mut command, workspace.path());
    let mut child = command.spawn().unwrap();
    drop(command);

    let mut client = Client::new(ours);
    assert_eq!(client.run(shell("echo hello")).text(), "hello\n");
    let call = client.exec(shell("echo $$; exec sleep 1000"));
    client.pump_until(call, |outcome| !outcome.output.is_empty());
    let pid: i32 = client.outcome(call).text().trim().parse().unwrap();
    drop(client);

    assert!(child.wait().unwrap().success(), "it ends when the host leaves");
    crate::guest::wait_until("its commands are gone", || !crate::guest::is_alive(pid));
}
