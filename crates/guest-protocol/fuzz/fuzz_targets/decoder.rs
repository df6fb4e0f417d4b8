//! The decoders against arbitrary bytes, in arbitrary cuts.
//!
//! Bytes are frames (or records) or an error, never a panic; the cuts make no
//! difference; and whatever was decoded survives the wire again.

#![no_main]

use std::fmt::Debug;

use cofferdam_guest_protocol::{
    Channel, DecodeError, Decoder, Entry, Frame, RecordDecoder, RecordError, data_header, encode,
    encode_record,
};
use libfuzzer_sys::fuzz_target;

/// So many bytes at the beginning say how the rest is cut.
const CUTS: usize = 8;

/// Kinds of frames are numbered from 1 to this.
const KINDS: u8 = 10;

/// What came out of a stream, and the error that ended it, if one did.
type Decoded<T, E> = (Vec<T>, Option<E>);

fuzz_target!(|data: &[u8]| {
    let Some((cuts, bytes)) = data.split_at_checked(CUTS) else { return };
    // As they are, bytes seldom get past a header. Given sound headers, they reach
    // every kind of frame within seconds.
    check_frames(bytes, cuts);
    check_frames(&with_frame_headers(bytes), cuts);
    check_records(bytes, cuts);
    check_records(&with_record_headers(bytes), cuts);
});

fn check_frames(wire: &[u8], cuts: &[u8]) {
    let frames = frames_of(&mut pieces(wire, cuts));
    assert_eq!(frames, frames_of(&mut std::iter::once(wire)), "frames differ by the cut");
    survive(&frames.0, |frame, out| encode(frame, out).unwrap(), frames_of);
}

fn check_records(wire: &[u8], cuts: &[u8]) {
    let records = records_of(&mut pieces(wire, cuts));
    assert_eq!(records, records_of(&mut std::iter::once(wire)), "records differ by the cut");
    survive(&records.0, |record, out| encode_record(record, out).unwrap(), records_of);
}

/// Reads bytes as kind, channel, length and payload, over and over, and puts a
/// sound header before each payload.
fn with_frame_headers(mut bytes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    while let Some(([kind, channel, length], rest)) = bytes.split_first_chunk() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let channel = match channel % 3 {
            0 => Channel::Input,
            1 => Channel::Output,
            _ => Channel::Error,
        };
        let mut header = data_header(u64::from(*kind), channel, payload.len()).unwrap();
        header[4] = 1 + kind % KINDS;
        wire.extend_from_slice(&header);
        wire.extend_from_slice(payload);
        bytes = rest;
    }
    wire
}

/// Reads bytes as length and record, over and over, and puts a sound length
/// before each record.
fn with_record_headers(mut bytes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (record, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        wire.extend_from_slice(&u32::from(*length).to_le_bytes());
        wire.extend_from_slice(record);
        bytes = rest;
    }
    wire
}

/// Cuts bytes into pieces of 1 to 256, after the cuts in turn.
fn pieces<'a>(mut rest: &'a [u8], cuts: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    cuts.iter().cycle().map_while(move |cut| {
        let length = rest.len().min(usize::from(*cut) + 1);
        let piece = rest.split_off(..length)?;
        (!piece.is_empty()).then_some(piece)
    })
}

fn frames_of<'a>(pieces: &mut dyn Iterator<Item = &'a [u8]>) -> Decoded<Frame, DecodeError> {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn records_of<'a>(pieces: &mut dyn Iterator<Item = &'a [u8]>) -> Decoded<Entry, RecordError> {
    let mut decoder = RecordDecoder::default();
    let mut records = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(error) => return (records, Some(error)),
            }
        }
    }
    (records, None)
}

/// Encodes all values into one stream and expects the same values out of it.
fn survive<T: Debug + PartialEq, E: Debug + PartialEq>(
    values: &Vec<T>,
    encode: impl Fn(&T, &mut Vec<u8>),
    decode: impl Fn(&mut dyn Iterator<Item = &[u8]>) -> Decoded<T, E>,
) {
    let mut wire = Vec::new();
    for value in values {
        encode(value, &mut wire);
    }
    let (again, error) = decode(&mut std::iter::once(wire.as_slice()));
    assert_eq!(error, None, "what was encoded cannot be decoded");
    assert_eq!(&again, values, "the second time differs");
}
