//! Frames survive the wire in any cut; garbage never does harm.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::message::{ExecEnd, ExecReport, Leftovers, OutputMode, Program, Stdin};
use crate::{Exec, PtySize, Refusal, TunnelTarget};

fn any_channel() -> impl Strategy<Value = Channel> {
    prop_oneof![Just(Channel::Input), Just(Channel::Output), Just(Channel::Error)]
}

fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn any_request() -> impl Strategy<Value = Request> {
    let exec = (
        prop::collection::vec(some_bytes(), 0..4),
        some_bytes(),
        prop::collection::vec((some_bytes(), some_bytes()), 0..3),
        any::<Option<u64>>(),
        any::<(bool, bool, bool)>(),
        any::<(u16, u16)>(),
        any::<u64>(),
    );
    prop_oneof![
        exec.prop_map(
            |(argv, cwd, env, timeout_ms, (piped, pty, capture), (rows, cols), limit)| {
                Request::Exec(Exec {
                    program: Program::Argv(argv),
                    cwd,
                    env,
                    stdin: if piped { Stdin::Piped } else { Stdin::Null },
                    pty: pty.then_some(PtySize { rows, cols }),
                    timeout_ms,
                    grace_ms: limit,
                    output: if capture {
                        OutputMode::Capture { limit }
                    } else {
                        OutputMode::Stream
                    },
                    leftovers: Leftovers::Kill,
                })
            }
        ),
        any::<u16>().prop_map(|port| Request::Tunnel(TunnelTarget::Tcp(port))),
        some_bytes().prop_map(|path| Request::Tunnel(TunnelTarget::Unix(path))),
        Just(Request::Calls),
    ]
}

fn any_reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<i32>(), any::<(u64, u64)>(), any::<u64>()).prop_map(|(code, output, number)| {
            Reply::Exec(ExecReport {
                end: ExecEnd::Exited(code),
                output,
                error: (number, 0),
                duration_us: number,
                cpu_us: number,
                peak_memory: number,
                left_running: 3,
            })
        }),
        any::<u32>().prop_map(|n| Reply::Refused(Refusal::Full(n))),
        ".{0,40}".prop_map(|text| Reply::Tunnel(Err((5, text)))),
    ]
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let call = any::<u64>();
    prop_oneof![
        (call, any_request()).prop_map(|(call, request)| Frame::Request { call, request }),
        (call, any::<i32>())
            .prop_map(|(call, n)| Frame::Control { call, control: Control::Signal(n) }),
        any::<(u64, u64, u64)>().prop_map(|(call, output, error)| Frame::Resume {
            call,
            output,
            error
        }),
        call.prop_map(|call| Frame::Ack { call }),
        (call, any_channel(), some_bytes()).prop_map(|(call, channel, bytes)| Frame::Data {
            call,
            channel,
            bytes: Bytes::from(bytes)
        }),
        (call, any_channel()).prop_map(|(call, channel)| Frame::End { call, channel }),
        (call, any_channel(), any::<u64>()).prop_map(|(call, channel, total)| Frame::Consumed {
            call,
            channel,
            total
        }),
        (call, any_channel(), any::<u64>()).prop_map(|(call, channel, dropped)| Frame::Gap {
            call,
            channel,
            dropped
        }),
        any::<(u64, u32)>().prop_map(|(call, pid)| Frame::Started { call, pid }),
        (call, any_reply()).prop_map(|(call, reply)| Frame::Done { call, reply }),
    ]
}

fn decode_in_pieces(wire: &[u8], piece: usize) -> Result<Vec<Frame>, DecodeError> {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for bytes in wire.chunks(piece) {
        decoder.buffer().extend_from_slice(bytes);
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn frames_survive_the_wire_in_any_cut(
        frames in prop::collection::vec(any_frame(), 1..8),
        piece in 1usize..700,
    ) {
        let mut wire = Vec::new();
        for frame in &frames {
            encode(frame, &mut wire).unwrap();
        }
        prop_assert_eq!(decode_in_pieces(&wire, piece).unwrap(), frames);
    }

    #[test]
    fn garbage_is_an_error_or_waits_for_more_and_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        piece in 1usize..64,
    ) {
        let _outcome = decode_in_pieces(&bytes, piece);
    }

    #[test]
    fn one_flipped_bit_never_panics(
        frame in any_frame(),
        position in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut wire = Vec::new();
        encode(&frame, &mut wire).unwrap();
        let at = position.index(wire.len());
        wire[at] ^= 1 << bit;
        let _outcome = decode_in_pieces(&wire, 37);
    }
}

#[test]
fn the_longest_payload_passes_and_one_byte_more_does_not() {
    let frame = |length: usize| Frame::Data {
        call: 1,
        channel: Channel::Output,
        bytes: Bytes::from(vec![7; length]),
    };
    let mut wire = Vec::new();
    encode(&frame(MAX_PAYLOAD), &mut wire).unwrap();
    assert_eq!(decode_in_pieces(&wire, 65_536).unwrap(), vec![frame(MAX_PAYLOAD)]);

    let before = wire.len();
    assert_eq!(
        encode(&frame(MAX_PAYLOAD + 1), &mut wire),
        Err(EncodeError::TooLong(MAX_PAYLOAD + 1))
    );
    assert_eq!(wire.len(), before, "nothing half-written");
}

#[test]
fn an_announced_length_beyond_the_limit_is_refused_before_any_of_it_arrives() {
    let mut header = data_header(1, Channel::Output, 0).unwrap();
    header[..4].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
    assert_eq!(decode_in_pieces(&header, 16), Err(DecodeError::TooLong(MAX_PAYLOAD + 1)));
}

#[test]
fn each_broken_rule_has_its_own_error() {
    let good = data_header(1, Channel::Output, 0).unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        decode_in_pieces(&bytes, 16)
    };
    assert_eq!(with(4, 99), Err(DecodeError::Kind(99)));
    assert_eq!(with(5, 3), Err(DecodeError::Channel(3)));
    assert_eq!(with(6, 1), Err(DecodeError::Reserved(1)));
    assert_eq!(with(4, REQUEST), Err(DecodeError::Payload(REQUEST)), "an empty request");
}

#[test]
fn trailing_bytes_after_a_message_are_refused() {
    let mut wire = Vec::new();
    raw(&mut wire, REQUEST, Channel::Input, 1, &[3, 0]).unwrap();
    assert_eq!(decode_in_pieces(&wire, 18), Err(DecodeError::Payload(REQUEST)));
}

/// The bytes of version 1, as an earlier release wrote them.
#[test]
fn frames_of_version_one_are_still_read() {
    let request = b"\x01\0\0\0\x01\0\0\0\x05\0\0\0\0\0\0\0\x03";
    assert_eq!(
        decode_in_pieces(request, 17).unwrap(),
        vec![Frame::Request { call: 5, request: Request::Calls }]
    );
    let data = b"\x02\0\0\0\x05\x01\0\0\x09\0\0\0\0\0\0\0hi";
    assert_eq!(
        decode_in_pieces(data, 3).unwrap(),
        vec![Frame::Data { call: 9, channel: Channel::Output, bytes: Bytes::from_static(b"hi") }]
    );
}
