//! Output: byte-exact, apart, bounded, and fair.

use cofferdam_guest_protocol::{Channel, Control, Exec, ExecEnd, OutputMode, WINDOW};

use crate::client::{argv, shell};
use crate::guest::{Guest, wait_until};

fn capture(limit: u64, script: &str) -> Exec {
    Exec { output: OutputMode::Capture { limit }, ..shell(script) }
}

#[test]
fn stdout_and_stderr_are_apart_and_byte_exact() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let every: Vec<u8> = (0..=255).collect();
    let path = guest.put("every", &every);
    let script = format!("cat {0}; cat {0} {0} >&2", path.display());
    let outcome = client.run(shell(&script));
    assert_eq!(outcome.output, every);
    assert_eq!(outcome.error, [every.clone(), every].concat());
    assert_eq!(outcome.ended.len(), 2);
    assert_eq!((outcome.report().output, outcome.report().error), ((256, 0), (512, 0)));
}

#[test]
fn a_line_of_32_megabytes_arrives_whole() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let line: Vec<u8> = (0..32 << 20).map(|at: u32| b'a' + (at % 23) as u8).collect();
    let path = guest.put("line", &line);
    let outcome = client.run(argv(&["cat", path.to_str().unwrap()]));
    assert!(outcome.output == line, "{} bytes came", outcome.output.len());
}

#[test]
fn output_comes_while_the_command_runs() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = client.exec(shell("echo first; sleep 1000"));
    client.pump_until(call, |outcome| outcome.output == b"first\n");
    assert!(client.outcome(call).started.is_some());
    client.control(call, Control::Kill);
    client.finish(call);
}

#[test]
fn a_flood_does_not_delay_others() {
    let guest = Guest::start();
    let mut client = guest.connect();
    client.keeps = false;
    let flood = client.exec(argv(&["cat", "/dev/zero"]));
    client.pump_until(flood, |outcome| outcome.received[0] > 4 << 20);
    for _ in 0..20 {
        let before = client.outcome(flood).received[0];
        let outcome = client.run(argv(&["true"]));
        assert_eq!(outcome.end(), &ExecEnd::Exited(0));
        let between = client.outcome(flood).received[0] - before;
        assert!(between < 1 << 30, "{between} bytes of the flood went first");
    }
    client.control(flood, Control::Kill);
    client.finish(flood);
}

#[test]
fn a_call_that_nobody_consumes_does_not_delay_others() {
    let guest = Guest::start();
    let mut client = guest.connect();
    client.consumes = false;
    let flood = client.exec(argv(&["cat", "/dev/zero"]));
    client.pump_until(flood, |outcome| outcome.received[0] == WINDOW);
    client.consumes = true;
    let outcome = client.run(shell("head -c 3000000 /dev/zero"));
    assert_eq!(outcome.output.len(), 3_000_000);
    assert_eq!(client.outcome(flood).received[0], WINDOW);
    client.consume(flood);
    client.pump_until(flood, |outcome| outcome.received[0] > WINDOW);
    client.control(flood, Control::Kill);
    client.finish(flood);
}

#[test]
fn a_host_that_does_not_read_costs_the_guest_little() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let mark = guest.workspace().join("mark");
    let script = format!("touch {}; head -c 1073741824 /dev/zero", mark.display());
    let call = client.exec(shell(&script));
    wait_until("the flood has begun", || mark.exists());
    let mut highest = 0;
    let mut same = 0;
    // Until the memory has stayed as it is for a while.
    wait_until("the guest has filled what it fills", || {
        let now = guest.memory_kb("VmRSS");
        same = if now > highest { 0 } else { same + 1 };
        highest = highest.max(now);
        same > 40
    });
    assert!(highest < 32 << 10, "{highest} KB");
    client.keeps = false;
    client.wait_done(call);
    assert_eq!(client.outcome(call).received[0], 1 << 30);
    assert!(guest.memory_kb("VmHWM") < 32 << 10);
}

#[test]
fn a_capture_keeps_head_and_tail_and_counts_the_rest() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "printf aaaaa; head -c 5000000 /dev/zero | tr '\\0' b; printf ccccc";
    let outcome = client.run(capture(20, script));
    assert_eq!(outcome.text(), "aaaaabbbbbbbbbbccccc");
    assert_eq!(outcome.gaps, [(Channel::Output, 10, 5_000_010 - 20)]);
    assert_eq!(outcome.report().output, (5_000_010, 4_999_990));
    assert_eq!(outcome.report().error, (0, 0));
}

#[test]
fn a_capture_that_fits_has_no_gap() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(capture(3_000_000, "head -c 3000000 /dev/zero | tr '\\0' x"));
    assert_eq!(outcome.output, vec![b'x'; 3_000_000]);
    assert!(outcome.gaps.is_empty());
    assert_eq!(outcome.report().output, (3_000_000, 0));
}

#[test]
fn a_captured_command_never_waits_for_the_host() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let done = guest.workspace().join("done");
    // Nothing is read here until the command has written everything.
    let script = format!("head -c 300000000 /dev/zero; touch {}", done.display());
    let call = client.exec(capture(8 << 20, &script));
    wait_until("the command has written all", || done.exists());
    let outcome = client.finish(call);
    assert_eq!(outcome.output.len(), 8 << 20);
    assert_eq!(outcome.report().output, (300_000_000, 300_000_000 - (8 << 20)));
}

#[test]
fn both_channels_are_captured_each_for_itself() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(capture(4, "printf 123456; printf 12 >&2"));
    assert_eq!((outcome.text().as_str(), outcome.error.as_slice()), ("1256", b"12".as_slice()));
    assert_eq!(outcome.gaps, [(Channel::Output, 2, 2)]);
}
