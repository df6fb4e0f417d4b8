//! Hosts that lose their connection and come back.

use cofferdam_guest_protocol::{
    Channel, Exec, ExecEnd, Frame, OutputMode, Refusal, Reply, Request,
};

use crate::client::{argv, shell};
use crate::guest::{Guest, wait_until};

fn numbers(count: u32) -> Vec<u8> {
    (1..=count).flat_map(|n| format!("{n}\n").into_bytes()).collect()
}

#[test]
fn no_byte_is_lost_or_doubled_over_many_connections() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = 9;
    client.request_as(call, Request::Exec(shell("seq 400000; seq 300000 >&2")));
    let mut connections = 1;
    let outcome = loop {
        let until = client.outcome(call).received[0] + 100_000 * connections;
        // Whatever was received and not granted is asked for again or not,
        // depending on where the connection breaks.
        client.consumes = connections % 2 == 0;
        while client.outcome(call).received[0] < until && client.outcome(call).reply.is_none() {
            if !client.consumes && client.outcome(call).received[0] > until - 50_000 {
                client.consume(call);
            }
            client.pump();
            if !client.consumes {
                client.consume(call);
            }
        }
        if client.outcome(call).reply.is_some() {
            break client.finish(call);
        }
        let known = client.take(call);
        drop(client);
        client = guest.connect();
        client.resume(call, known);
        connections += 1;
    };
    assert!(connections > 3, "{connections}");
    assert!(outcome.output == numbers(400_000));
    assert!(outcome.error == numbers(300_000));
    assert_eq!(outcome.end(), &ExecEnd::Exited(0));
    assert!(outcome.gaps.is_empty());
}

#[test]
fn a_result_waits_for_its_host_until_it_is_acknowledged() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let done = guest.workspace().join("done");
    let script = format!("seq 1000; touch {}; exit 8", done.display());
    client.request_as(5, Request::Exec(shell(&script)));
    let nothing = client.take(5);
    drop(client);
    wait_until("the command is over", || done.exists());

    for _ in 0..3 {
        let mut client = guest.connect();
        client.resume(5, crate::client::Outcome::default());
        client.wait_done(5);
        assert_eq!(client.outcome(5).output, numbers(1000));
        assert_eq!(client.outcome(5).end(), &ExecEnd::Exited(8));
        assert!(client.outcome(5).started.is_some());
    }
    let mut client = guest.connect();
    client.send(&Frame::Ack { call: 5 });
    client.resume(5, nothing);
    client.wait_done(5);
    let unknown = Some(Reply::Refused(Refusal::Unknown));
    assert_eq!(client.outcome(5).reply, unknown);
}

#[test]
fn a_captured_result_comes_again_with_its_gap() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let output = OutputMode::Capture { limit: 10 };
    client.request_as(3, Request::Exec(Exec { output, ..shell("seq -s '' 100") }));
    client.wait_done(3);
    assert_eq!(client.outcome(3).text(), "12345100\n9".replace("100\n9", "9100\n"));
    let known = client.take(3);
    drop(client);
    let mut client = guest.connect();
    client.resume(3, crate::client::Outcome::default());
    client.wait_done(3);
    assert_eq!(client.outcome(3).output, known.output);
    assert_eq!(client.outcome(3).gaps, known.gaps);
    assert_eq!(known.gaps.len(), 1);
    assert_eq!(known.gaps[0].0, Channel::Output);
}

#[test]
fn a_command_goes_on_without_a_connection() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let go = guest.workspace().join("go");
    let script =
        format!("while [ ! -e {0} ]; do sleep 0.01; done; touch {0}.seen; exit 4", go.display());
    client.request_as(6, Request::Exec(shell(&script)));
    client.pump_until(6, |outcome| outcome.started.is_some());
    drop(client);
    guest.put("go", "");
    wait_until("it saw the file", || guest.workspace().join("go.seen").exists());
    let mut client = guest.connect();
    client.resume(6, crate::client::Outcome::default());
    assert_eq!(client.finish(6).end(), &ExecEnd::Exited(4));
}

#[test]
fn a_stream_without_a_host_waits_and_then_goes_on() {
    let guest = Guest::start();
    let mut client = guest.connect();
    client.request_as(7, Request::Exec(argv(&["seq", "1000000"])));
    client.pump_until(7, |outcome| outcome.started.is_some());
    let known = client.take(7);
    drop(client);
    assert!(guest.memory_kb("VmRSS") < 32 << 10);
    let mut client = guest.connect();
    client.resume(7, known);
    assert!(client.finish(7).output == numbers(1_000_000));
}
