//! How fast it is. The bounds only catch what is broken; the numbers are printed.

use std::time::{Duration, Instant};

use cofferdam_guest_protocol::ExecEnd;

use crate::client::argv;
use crate::guest::{Guest, program};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn a_trivial_command_is_there_and_back_quickly() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let mut over_the_wire = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        let outcome = client.run(argv(&["/bin/true"]));
        over_the_wire.push(began.elapsed());
        assert_eq!(outcome.end(), &ExecEnd::Exited(0));
        let began = Instant::now();
        assert!(program("/bin/true").status().unwrap().success());
        bare.push(began.elapsed());
    }
    let (over_the_wire, bare) = (median(over_the_wire), median(bare));
    println!("/bin/true: {over_the_wire:?} over the wire, {bare:?} bare");
    assert!(over_the_wire < Duration::from_secs(2));
}

#[test]
fn two_gigabytes_stream_through() {
    let guest = Guest::start();
    let mut client = guest.connect();
    client.keeps = false;
    let began = Instant::now();
    let outcome = client.run(argv(&["head", "-c", "2147483648", "/dev/zero"]));
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(outcome.received[0], 2 << 30);
    println!("2 GiB in {seconds:.2} s: {:.2} GB/s", (2u64 << 30) as f64 / seconds / 1e9);
}
