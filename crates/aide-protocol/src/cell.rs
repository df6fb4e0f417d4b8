//! Records of code cells: what `cofferdam-aide cell` writes while a cell runs, and
//! what `cofferdam-aide kernel` and `kernels` say about kernels.
//!
//! The pieces come in the order in which the kernel published them. The last is
//! always [`CellPiece::Ended`]; output without it means that the aide itself was
//! ended.

use serde::{Deserialize, Serialize};

/// No text or part is longer in one piece: longer ones are cut into several.
pub const CELL_CHUNK: usize = 64 << 10;

/// A piece of what a cell gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellPiece {
    /// It printed this.
    Text {
        /// Where.
        stream: Stream,
        /// What, with the colour codes that the program wrote.
        text: String,
    },
    /// It gave or showed a value: a piece of one form of it.
    Part(Part),
    /// It raised an error.
    Error {
        /// The kind, such as `ZeroDivisionError`.
        name: String,
        /// The message.
        value: String,
        /// Line by line (some hold several), with colour codes.
        traceback: Vec<String>,
    },
    /// What was shown so far is to be wiped.
    Cleared,
    /// Here output was left out, because it was too much or nobody read it in time.
    Dropped {
        /// How much of it.
        bytes: u64,
    },
    /// It is over.
    Ended(CellEnd),
}

/// Where a cell prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of one form of a value. A value may come in several forms: a plot as an
/// image and as text. Pieces of one form follow one another; forms of one value too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Numbers the values of a cell from 0.
    pub value: u32,
    /// What the value is to the cell.
    pub role: Role,
    /// What form this is, such as `image/png`.
    pub mime: String,
    /// The next bytes of it: UTF-8 where the form is text, the image itself (not
    /// base64) where it is an image.
    pub bytes: Vec<u8>,
    /// Whether they are the last of this form.
    pub last: bool,
}

/// What a value is to its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The value of the last expression.
    Result,
    /// Something it displayed.
    Display,
    /// A newer state of something it displayed earlier.
    Update,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellEnd {
    /// It ran to its end. The number is the kernel's count of cells.
    Finished {
        /// As in `In [3]`.
        count: u32,
    },
    /// It raised an error; the kernel keeps its state.
    Failed {
        /// As in `In [3]`.
        count: u32,
    },
    /// It was interrupted; the kernel keeps its state.
    Interrupted(Because),
    /// It did not heed the interrupt, and its kernel was ended: the state is lost.
    /// The next use needs a new kernel.
    Killed(Because),
    /// Its kernel ended by itself while it ran: the state is lost. The next use needs
    /// a new kernel.
    Died {
        /// How, in words.
        how: String,
    },
    /// There is no kernel of this name.
    NoKernel {
        /// What was looked for, in words.
        why: String,
    },
    /// It was not run, or its end is not known.
    Broken {
        /// Cause and remedy, in words.
        why: String,
    },
}

/// Why a cell was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Because {
    /// Its time was up.
    TimeUp,
    /// Somebody asked (SIGTERM or SIGINT to the aide).
    Asked,
}

/// What is known of a kernel that can be started or runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// How it is asked for, such as `python3`.
    pub spec: String,
    /// For people, such as `Python 3 (ipykernel)`.
    pub display_name: String,
    /// Such as `python`.
    pub language: String,
    /// The file that describes it, or the program.
    pub found_at: String,
}

/// What `cofferdam-aide kernel` says of the kernel that it keeps, and `kernels` of
/// those that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelPiece {
    /// It answers: cells can run.
    Ready(KernelFacts),
    /// It could not be started.
    Failed {
        /// Cause and remedy, in words.
        why: String,
    },
    /// It has ended: by itself, idle for too long, or because somebody asked.
    Ended {
        /// How, in words.
        how: String,
    },
    /// It could be started.
    Found(KernelFacts),
}

/// Cuts printed text into pieces, between characters.
pub fn text_pieces(stream: Stream, text: &str) -> impl Iterator<Item = CellPiece> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(CELL_CHUNK))?;
        rest = after;
        (!piece.is_empty()).then(|| CellPiece::Text { stream, text: piece.to_owned() })
    })
}

/// Cuts one form of a value into pieces. There is always one, the last.
pub fn part_pieces(
    value: u32,
    role: Role,
    mime: &str,
    bytes: &[u8],
) -> impl Iterator<Item = CellPiece> {
    let count = bytes.len().div_ceil(CELL_CHUNK).max(1);
    (0..count).map(move |number| {
        let start = number * CELL_CHUNK;
        let end = bytes.len().min(start + CELL_CHUNK);
        CellPiece::Part(Part {
            value,
            role,
            mime: mime.to_owned(),
            bytes: bytes.get(start..end).unwrap_or_default().to_vec(),
            last: number + 1 == count,
        })
    })
}

#[cfg(test)]
mod tests {
    use cofferdam_guest_protocol::{RecordDecoder, encode_record};

    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_whole_again() {
        let text = format!("x{}", "ä".repeat(CELL_CHUNK));
        let mut whole = String::new();
        for piece in text_pieces(Stream::Stderr, &text) {
            let CellPiece::Text { stream: Stream::Stderr, text } = piece else { panic!() };
            assert!(!text.is_empty() && text.len() <= CELL_CHUNK);
            whole += &text;
        }
        assert_eq!(whole, text);
        assert_eq!(text_pieces(Stream::Stdout, "").count(), 0);
    }

    #[test]
    fn the_pieces_of_a_form_end_with_the_last() {
        for length in [0, 1, CELL_CHUNK, CELL_CHUNK + 1, 3 * CELL_CHUNK] {
            let bytes = vec![7; length];
            let (mut wire, mut decoder) = (Vec::new(), RecordDecoder::default());
            for piece in part_pieces(2, Role::Display, "image/png", &bytes) {
                encode_record(&piece, &mut wire).unwrap();
            }
            decoder.push(&wire);
            let (mut whole, mut lasts) = (Vec::new(), Vec::new());
            while let Some(CellPiece::Part(part)) = decoder.next_record().unwrap() {
                whole.extend(part.bytes);
                lasts.push(part.last);
            }
            assert_eq!(whole, bytes);
            assert_eq!(lasts.iter().filter(|last| **last).count(), 1);
            assert_eq!(lasts.last(), Some(&true));
        }
    }
}
