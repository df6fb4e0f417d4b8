//! Whatever the pace of either side, the host gets each byte once, or is told
//! how many it does not get.

use proptest::prelude::*;

use super::*;

const LIMITS: std::ops::Range<u64> = 0..5_000;

/// A host: what it has received, with the gaps it was told of.
#[derive(Default)]
struct Host {
    bytes: Vec<u8>,
    gaps: Vec<(usize, u64)>,
}

impl Host {
    /// Takes at most `pieces` pieces.
    fn receive(&mut self, buffer: &mut OutputBuffer, pieces: usize) {
        for _ in 0..pieces {
            let Some(piece) = buffer.next_piece() else { return };
            match piece {
                Piece::Gap(dropped) => {
                    let gap = (self.bytes.len(), dropped);
                    if self.gaps.last() != Some(&gap) {
                        self.gaps.push(gap);
                    }
                }
                Piece::Data { offset, length } => {
                    assert_eq!(offset, self.bytes.len() as u64, "out of order");
                    self.bytes.extend_from_slice(buffer.bytes(offset, length).unwrap());
                }
            }
            buffer.mark_sent(piece);
        }
    }

    fn receive_all(&mut self, buffer: &mut OutputBuffer) {
        for _ in 0..10_000 {
            self.receive(buffer, 1_000);
            buffer.consumed(self.bytes.len() as u64).unwrap();
            if buffer.is_delivered() {
                return;
            }
        }
        panic!("never delivered");
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Receive(usize),
    Consume,
    Reconnect(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0usize..3_000).prop_map(Step::Write),
        3 => (0usize..4).prop_map(Step::Receive),
        2 => Just(Step::Consume),
        1 => any::<prop::sample::Index>().prop_map(Step::Reconnect),
    ];
    prop::collection::vec(step, 0..40)
}

/// Plays the steps and returns what was written and what the host has at the end.
fn play(mode: OutputMode, steps: &[Step]) -> (Vec<u8>, Host, (u64, u64)) {
    let mut buffer = OutputBuffer::new(mode);
    let mut host = Host::default();
    let mut consumed = 0;
    let mut written = Vec::new();
    for step in steps {
        match step {
            Step::Write(length) => {
                let length = (*length).min(buffer.room());
                let bytes: Vec<u8> =
                    (0..length).map(|at| ((written.len() + at) * 31 % 251) as u8).collect();
                buffer.push(&bytes);
                written.extend_from_slice(&bytes);
            }
            Step::Receive(pieces) => host.receive(&mut buffer, *pieces),
            Step::Consume => {
                consumed = host.bytes.len();
                buffer.consumed(consumed as u64).unwrap();
            }
            Step::Reconnect(index) => {
                // What was on the way is lost; what was consumed is not.
                let kept = consumed + index.index(host.bytes.len() - consumed + 1);
                host.bytes.truncate(kept);
                host.gaps.retain(|(at, _)| *at < kept);
                buffer.resume(kept as u64).unwrap();
                consumed = kept;
            }
        }
    }
    buffer.finish();
    host.receive_all(&mut buffer);
    (written, host, buffer.counts())
}

proptest! {
    #[test]
    fn a_stream_arrives_whole(steps in steps()) {
        let (written, host, counts) = play(OutputMode::Stream, &steps);
        prop_assert_eq!(&host.bytes, &written);
        prop_assert!(host.gaps.is_empty());
        prop_assert_eq!(counts, (written.len() as u64, 0));
    }

    #[test]
    fn a_capture_arrives_as_head_gap_and_tail(steps in steps(), limit in LIMITS) {
        let (written, host, counts) = play(OutputMode::Capture { limit }, &steps);
        let limit = limit as usize;
        if written.len() <= limit {
            prop_assert_eq!(&host.bytes, &written);
            prop_assert!(host.gaps.is_empty());
            prop_assert_eq!(counts, (written.len() as u64, 0));
        } else {
            let head = limit / 2;
            let dropped = written.len() - limit;
            let mut expected = written[..head].to_vec();
            expected.extend_from_slice(&written[head + dropped..]);
            prop_assert_eq!(&host.bytes, &expected);
            prop_assert_eq!(&host.gaps, &vec![(head, dropped as u64)]);
            prop_assert_eq!(counts, (written.len() as u64, dropped as u64));
        }
    }
}

#[test]
fn a_stream_takes_in_no_more_than_a_window_and_goes_on_when_it_is_consumed() {
    let mut buffer = OutputBuffer::new(OutputMode::Stream);
    buffer.push(&pattern(WINDOW as usize));
    assert_eq!(buffer.room(), 0);
    let mut host = Host::default();
    host.receive(&mut buffer, 1_000);
    assert_eq!(buffer.room(), 0, "sent is not consumed");
    buffer.consumed(1_000).unwrap();
    assert_eq!(buffer.room(), 1_000);
}

#[test]
fn a_captured_head_longer_than_the_window_waits_for_the_host() {
    let mut buffer = OutputBuffer::new(OutputMode::Capture { limit: 8 << 20 });
    let bytes = pattern(3 << 20);
    buffer.push(&bytes);
    let mut host = Host::default();
    host.receive(&mut buffer, 1_000);
    assert_eq!(host.bytes.len() as u64, WINDOW);
    buffer.finish();
    host.receive_all(&mut buffer);
    assert_eq!(host.bytes, bytes);
}

#[test]
fn a_host_that_comes_back_with_less_than_it_consumed_is_told_what_is_missing() {
    let mut buffer = OutputBuffer::new(OutputMode::Stream);
    let bytes = pattern(10_000);
    buffer.push(&bytes);
    Host::default().receive(&mut buffer, 100);
    buffer.consumed(6_000).unwrap();

    buffer.resume(0).unwrap();

    buffer.finish();
    let mut host = Host::default();
    host.receive_all(&mut buffer);
    assert_eq!(host.gaps, [(0, 6_000)]);
    assert_eq!(host.bytes, bytes[6_000..]);
}

#[test]
fn whoever_comes_back_later_is_told_all_that_is_missing_too() {
    let mut buffer = OutputBuffer::new(OutputMode::Stream);
    let bytes = pattern(10_000);
    buffer.push(&bytes);
    Host::default().receive(&mut buffer, 100);
    buffer.consumed(6_000).unwrap();
    // One that is told, and gone before it has consumed anything; one that consumes some.
    buffer.resume(0).unwrap();
    Host::default().receive(&mut buffer, 100);
    buffer.resume(0).unwrap();
    Host::default().receive(&mut buffer, 100);
    buffer.consumed(1_000).unwrap();

    buffer.resume(0).unwrap();
    buffer.finish();
    let mut host = Host::default();
    host.receive_all(&mut buffer);
    assert_eq!(host.gaps, [(0, 7_000)]);
    assert_eq!(host.bytes, bytes[7_000..]);

    // One that has some of it knows what was missing before that.
    buffer.resume(500).unwrap();
    let mut host = Host::default();
    host.receive(&mut buffer, 100);
    assert_eq!(host.gaps, [(0, 2_500)]);
}

#[test]
fn a_gap_in_a_capture_keeps_its_place_for_a_host_that_lost_some_before_it() {
    let mut buffer = OutputBuffer::new(OutputMode::Capture { limit: 2_000 });
    let bytes = pattern(10_000);
    buffer.push(&bytes);
    let mut host = Host::default();
    host.receive(&mut buffer, 1);
    assert_eq!(host.bytes, bytes[..1_000]);
    buffer.consumed(600).unwrap();

    // It has 100 bytes, and the 500 after them are gone.
    buffer.resume(100).unwrap();
    buffer.finish();
    let mut host = Host { bytes: bytes[..100].to_vec(), gaps: Vec::new() };
    host.receive_all(&mut buffer);
    assert_eq!(host.gaps, [(100, 500), (500, 8_000)]);
    assert_eq!(host.bytes, [&bytes[..100], &bytes[600..1_000], &bytes[9_000..]].concat());
}

#[test]
fn a_host_cannot_consume_or_resume_what_it_was_never_sent() {
    let mut buffer = OutputBuffer::new(OutputMode::Stream);
    buffer.push(b"abc");
    assert_eq!(buffer.consumed(1), Err(NeverSent));
    assert_eq!(buffer.resume(1), Err(NeverSent));
    assert_eq!(buffer.resume(0), Ok(()));
}

#[test]
fn an_absurd_capture_limit_is_bounded() {
    let mut buffer = OutputBuffer::new(OutputMode::Capture { limit: u64::MAX });
    let piece = pattern(CHUNK);
    for _ in 0..2 * MAX_CAPTURE as usize / CHUNK {
        buffer.push(&piece);
    }
    assert_eq!(buffer.counts(), (2 * MAX_CAPTURE, MAX_CAPTURE));
}
