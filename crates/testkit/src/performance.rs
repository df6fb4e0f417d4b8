//! A turn as what happens on the socket: where the faults are made.

use std::time::Duration;

use cofferdam_types::StopReason;

use crate::render::{Event, Part, Script, events, overloaded, ping};
use crate::script::{Dialect, Fault, ScriptedAnswer, Turn};

/// Stands in a text for bytes that are not UTF-8.
const MARK: char = '\u{e000}';
/// Those bytes: half a character, then one that never is a part of any.
const INVALID: &[u8] = &[0xe2, 0x82, 0xff];
/// A tool that nobody offers.
const UNKNOWN_TOOL: &str = "no_such_tool";

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum Performance {
    /// Not at all.
    Silence,
    /// With a status and a body.
    Status { status: u16, headers: Vec<(String, String)>, body: String },
    /// With an event stream.
    Stream(Vec<Act>),
}

/// What happens to an event stream.
#[derive(Debug)]
pub(crate) enum Act {
    /// These chunks are written in one go.
    Send(Vec<Vec<u8>>),
    /// The body ends as it should.
    End,
    /// The connection is reset.
    Reset,
    /// Nothing comes until the client leaves.
    Stall,
    /// Only these bytes come, until the client leaves.
    Ping(Vec<u8>, Duration),
}

/// The performance of the turn with this number.
pub(crate) fn perform(dialect: Dialect, turn: &Turn, number: usize, model: &str) -> Performance {
    let (fault, answer) = match turn {
        Turn::Answer(answer) => (None, answer),
        Turn::Faulty(fault, answer) => (Some(fault), answer),
    };
    match fault {
        Some(Fault::StallHeaders) => return Performance::Silence,
        Some(Fault::Status(status, headers, body)) => {
            let (headers, body) = (headers.clone(), body.clone());
            return Performance::Status { status: *status, headers, body };
        }
        _ => {}
    }
    let answer = told(answer, fault);
    let arguments = arguments(&answer, fault);
    let script = Script { number, model, answer: &answer, arguments };
    Performance::Stream(acts(dialect, fault, &events(dialect, &script)))
}

/// What the model says under a fault.
fn told(answer: &ScriptedAnswer, fault: Option<&Fault>) -> ScriptedAnswer {
    let mut answer = answer.clone();
    match fault {
        Some(Fault::HugeText(length)) => {
            let line = "All work and no play makes a long answer.\n";
            answer.text = line.chars().cycle().take(*length).collect();
        }
        Some(Fault::Empty) => {
            let usage = answer.usage;
            answer = ScriptedAnswer { usage, ..ScriptedAnswer::default() };
        }
        Some(Fault::OutputLimit) => answer.stop = Some(StopReason::OutputLimit),
        Some(Fault::UnknownTool) => {
            if let Some((name, _)) = answer.calls.first_mut() {
                UNKNOWN_TOOL.clone_into(name);
            }
        }
        Some(Fault::InvalidUtf8) => answer.text.push(MARK),
        _ => {}
    }
    answer
}

/// The arguments of its calls, as it writes them.
fn arguments(answer: &ScriptedAnswer, fault: Option<&Fault>) -> Vec<String> {
    let mut texts: Vec<String> = answer.calls.iter().map(|(_, value)| value.to_string()).collect();
    match fault {
        Some(Fault::CutArguments | Fault::OutputLimit) => {
            if let Some(last) = texts.last_mut() {
                let half = last.chars().count() / 2;
                *last = last.chars().take(half).collect();
            }
        }
        Some(Fault::InvalidUtf8InCall) => {
            if let Some(first) = texts.first_mut()
                && let Some(end) = first.rfind('"')
            {
                first.insert(end, MARK);
            }
        }
        _ => {}
    }
    texts
}

fn acts(dialect: Dialect, fault: Option<&Fault>, events: &[Event]) -> Vec<Act> {
    let first = |part| events.iter().position(|event| event.part == part);
    let last_text = events.iter().rposition(|event| event.part == Part::Text).unwrap_or(0);
    let middle = first(Part::Arguments).or(first(Part::Text)).unwrap_or(0);
    let until = |last: usize| events.iter().take(last + 1).map(Event::bytes).collect::<Vec<_>>();
    let whole = || events.iter().map(Event::bytes).collect::<Vec<_>>();
    match fault {
        Some(Fault::ErrorEvent) => {
            let mut chunks = until(middle);
            chunks.push(overloaded(dialect).bytes());
            vec![Act::Send(chunks), Act::End]
        }
        Some(Fault::ResetMidCall) => vec![Act::Send(until(middle)), Act::Reset],
        Some(Fault::ResetAfterText) => vec![Act::Send(until(last_text)), Act::Reset],
        Some(Fault::EndMidCall) => vec![Act::Send(until(middle)), Act::End],
        Some(Fault::EndAfterText) => vec![Act::Send(until(last_text)), Act::End],
        Some(Fault::EndMidEvent) => {
            let mut chunks = until(middle);
            if let Some(last) = chunks.last_mut() {
                last.truncate(last.len() / 2);
            }
            vec![Act::Send(chunks), Act::End]
        }
        Some(Fault::NoStopReason) => {
            let rest = events.iter().filter(|event| event.part != Part::Reason);
            vec![Act::Send(rest.map(Event::bytes).collect()), Act::End]
        }
        Some(Fault::StallStream) => vec![Act::Send(until(middle)), Act::Stall],
        Some(Fault::StallPinging(interval)) => {
            vec![Act::Send(until(middle)), Act::Ping(ping(dialect), *interval)]
        }
        Some(Fault::SplitUtf8) => {
            let pieces = split_characters(&whole().concat());
            let sends = pieces.into_iter().map(|piece| Act::Send(vec![piece]));
            sends.chain([Act::End]).collect()
        }
        Some(Fault::InvalidUtf8 | Fault::InvalidUtf8InCall) => {
            let chunks = whole().into_iter().map(|chunk| with_invalid_bytes(&chunk)).collect();
            vec![Act::Send(chunks), Act::End]
        }
        _ => vec![Act::Send(whole()), Act::End],
    }
}

/// Bytes in pieces that end after the first byte of each longer character.
fn split_characters(bytes: &[u8]) -> Vec<Vec<u8>> {
    let first_of_several = |byte: &u8| *byte >= 0xc0;
    bytes.split_inclusive(first_of_several).map(<[u8]>::to_vec).collect()
}

fn with_invalid_bytes(chunk: &[u8]) -> Vec<u8> {
    let mark = MARK.to_string().into_bytes();
    let mut bytes = Vec::new();
    let mut rest = chunk;
    while let Some((first, more)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(mark.as_slice()) {
            bytes.extend_from_slice(INVALID);
            rest = after;
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    bytes
}
