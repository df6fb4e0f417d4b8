//! What comes of a cell, held within bounds, for a model and for a notebook.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_aide_protocol::{Because, CellEnd, CellPiece, Part, Role, Stream, strip_ansi};
use cofferdam_notebook::{Bundle, Output};
use cofferdam_types::{CallId, Rest, ToolStatus};

use crate::cut::Recording;
use crate::outputs::Outputs;
use crate::read_file::kind;
use crate::tools::Watcher;

/// Outputs of one cell that are kept. The last places are for its value and for what it
/// raised, which say most.
const MOST_OUTPUTS: usize = 64;
const RESERVED: usize = 4;

/// Texts that are kept apart where a cell prints to both streams in turn; more are joined.
const MOST_PRINTED: usize = 8;

/// Forms of one value. The aide passes on fewer, but it is not to be believed.
const MOST_FORMS: usize = 16;
const LONGEST_MIME: usize = 100;

/// Pictures of one cell, and bytes of all of them, that a model is shown: providers refuse
/// larger ones, and with them the whole conversation.
const MOST_PICTURES: usize = 8;
const PICTURE_BYTES: usize = 5_000_000 / 4 * 3;
const LONGEST_SIDE: usize = 8_000;

/// Bytes of another form of a value that are kept, and of a traceback.
const LARGEST_FORM: usize = 16 << 10;

/// Bytes of all of those of a cell.
const FORM_BYTES: usize = 64 << 10;

const PLAIN: &str = "text/plain";

/// What came so far.
pub(super) struct Collected {
    outputs: Arc<Outputs>,
    call: CallId,
    items: Vec<Item>,
    pictures: usize,
    picture_bytes: usize,
    form_bytes: usize,
    left_out: u64,
    /// The value that was left out last.
    left: Option<u32>,
    doubt: Option<String>,
    /// How it ended, once that is known.
    pub(super) end: Option<CellEnd>,
}

enum Item {
    Printed(Stream, Recording),
    Value { number: u32, role: Role, forms: Vec<Form> },
    Error { name: String, value: String, traceback: String },
    Note(String),
}

struct Form {
    mime: String,
    bytes: Vec<u8>,
    whole: bool,
}

impl Collected {
    pub(super) fn new(outputs: &Arc<Outputs>, call: CallId) -> Self {
        let outputs = Arc::clone(outputs);
        Self {
            outputs,
            call,
            items: Vec::new(),
            pictures: 0,
            picture_bytes: 0,
            form_bytes: 0,
            left_out: 0,
            left: None,
            doubt: None,
            end: None,
        }
    }

    /// Says why its end is not known.
    pub(super) fn doubt(&mut self, why: String) {
        (self.end, self.doubt) = (None, Some(why));
    }

    pub(super) fn take(&mut self, piece: CellPiece, watcher: &dyn Watcher) {
        match piece {
            CellPiece::Text { stream, text } => {
                watcher.output(text.as_bytes());
                self.printed(stream, &text);
            }
            CellPiece::Part(part) => self.part(part),
            CellPiece::Error { name, value, traceback } => {
                let traceback = last_of(&strip_ansi(&traceback.join("\n")));
                let (name, value) = (last_of(&name), last_of(&value));
                watcher.output(format!("{traceback}\n").as_bytes());
                self.push(MOST_OUTPUTS, Item::Error { name, value, traceback });
            }
            CellPiece::Cleared => {
                self.items.clear();
                (self.pictures, self.picture_bytes, self.form_bytes) = (0, 0, 0);
            }
            CellPiece::Dropped { bytes } => {
                let text = format!("{bytes} bytes of output were left out here");
                self.push(MOST_OUTPUTS - RESERVED, Item::Note(text));
            }
            CellPiece::Ended(end) => self.end = Some(end),
        }
    }

    fn push(&mut self, most: usize, item: Item) {
        if self.items.len() < most {
            self.items.push(item);
        } else {
            self.left_out += 1;
        }
    }

    fn printed(&mut self, stream: Stream, text: &str) {
        let printed = self.items.iter().filter(|item| matches!(item, Item::Printed(..))).count();
        let joins = printed >= MOST_PRINTED || self.items.len() >= MOST_OUTPUTS - RESERVED;
        let of_stream = |item: &&mut Item| matches!(item, Item::Printed(of, _) if *of == stream);
        let place = match self.items.last_mut().filter(of_stream) {
            None if joins => self.items.iter_mut().rfind(of_stream),
            last => last,
        };
        if let Some(Item::Printed(_, recording)) = place {
            recording.push(text.as_bytes());
            return;
        }
        let name = format!("{}.{}", self.call, self.items.len() + 1);
        let mut recording = Recording::new(&self.outputs, name);
        recording.push(text.as_bytes());
        self.push(MOST_OUTPUTS, Item::Printed(stream, recording));
    }

    fn part(&mut self, part: Part) {
        if part.mime.len() > LONGEST_MIME || self.left == Some(part.value) {
            return;
        }
        if !matches!(self.items.last(), Some(Item::Value { number, .. }) if *number == part.value) {
            let most =
                if part.role == Role::Result { MOST_OUTPUTS } else { MOST_OUTPUTS - RESERVED };
            if self.items.len() >= most {
                (self.left, self.left_out) = (Some(part.value), self.left_out + 1);
                return;
            }
            let forms = Vec::new();
            self.items.push(Item::Value { number: part.value, role: part.role, forms });
        }
        let Some(Item::Value { forms, .. }) = self.items.last_mut() else { return };
        let picture = is_picture(&part.mime);
        if forms.last().is_none_or(|form| form.mime != part.mime) {
            // The pieces of one form follow one another.
            let again = forms.iter().any(|form| form.mime == part.mime);
            if again || forms.len() >= MOST_FORMS {
                return;
            }
            if picture && self.pictures >= MOST_PICTURES {
                (self.left, self.left_out) = (Some(part.value), self.left_out + 1);
                return;
            }
            self.pictures += usize::from(picture);
            forms.push(Form { mime: part.mime.clone(), bytes: Vec::new(), whole: true });
        }
        let Some(form) = forms.last_mut() else { return };
        let (spent, most) = match picture {
            true => (&mut self.picture_bytes, PICTURE_BYTES),
            false => (&mut self.form_bytes, FORM_BYTES),
        };
        let room = most.saturating_sub(*spent);
        let own = if picture { most } else { LARGEST_FORM };
        let room = room.min(own.saturating_sub(form.bytes.len()));
        form.whole &= part.bytes.len() <= room;
        let kept = part.bytes.get(..room).unwrap_or(&part.bytes);
        form.bytes.extend_from_slice(kept);
        *spent += kept.len();
    }

    /// What a model is shown, how it ended, and where the rest of a long text is.
    pub(super) async fn finish(self) -> (Vec<Output>, ToolStatus, Option<Rest>) {
        let (mut outputs, mut rest) = (Vec::new(), None);
        for item in self.items {
            match item {
                Item::Printed(stream, recording) => {
                    let shown = recording.finish().await;
                    rest = rest.or(shown.rest);
                    let stream = match stream {
                        Stream::Stdout => cofferdam_notebook::Stream::Stdout,
                        Stream::Stderr => cofferdam_notebook::Stream::Stderr,
                    };
                    outputs.push(Output::Printed { stream, text: shown.text });
                }
                Item::Value { role, forms, .. } => {
                    let bundle = Bundle(shown_forms(forms));
                    outputs.push(match role {
                        Role::Result => Output::Result(bundle),
                        Role::Display | Role::Update => Output::Display(bundle),
                    });
                }
                Item::Error { name, value, traceback } => {
                    outputs.push(Output::Error { name, value, traceback });
                }
                Item::Note(text) => outputs.push(Output::Note(text)),
            }
        }
        if self.left_out > 0 {
            outputs.push(Output::Note(format!("{} more outputs were left out", self.left_out)));
        }
        let (status, said) = told(self.end, self.doubt);
        outputs.extend(said);
        if outputs.is_empty() {
            outputs.push(Output::Note("done; no output".to_owned()));
        }
        (outputs, status, rest)
    }
}

fn is_picture(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Whether a provider takes this picture for what it is said to be.
fn can_be_shown(form: &Form) -> bool {
    let fits = imagesize::blob_size(&form.bytes)
        .is_ok_and(|size| (1..=LONGEST_SIDE).contains(&size.width.max(size.height)));
    form.whole && kind::is_picture(&form.mime) && kind::of(&form.bytes) == Some(&form.mime) && fits
}

/// The end of a text, which says most where something went wrong.
fn last_of(text: &str) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(LARGEST_FORM));
    match text.get(from..) {
        Some(end) if from > 0 => format!("[… cut here …]\n{end}"),
        _ => text.to_owned(),
    }
}

/// The forms of a value that say something to a model: its text, pictures, and others where
/// there is neither.
fn shown_forms(forms: Vec<Form>) -> Vec<cofferdam_notebook::Part> {
    let has = |wanted: fn(&Form) -> bool| forms.iter().any(wanted);
    let enough = has(|form| form.mime == PLAIN || is_picture(&form.mime));
    let structured = |form: &Form| form.mime == "application/json";
    forms
        .iter()
        .filter(|form| form.mime == PLAIN || is_picture(&form.mime) || structured(form) || !enough)
        .map(|form| {
            let data = match (is_picture(&form.mime), form.whole) {
                (true, _) if can_be_shown(form) => STANDARD.encode(&form.bytes),
                (true, _) => {
                    let text = format!("[a picture ({}) that cannot be shown]", form.mime);
                    return cofferdam_notebook::Part::new(PLAIN, text);
                }
                (false, whole) => {
                    let text = String::from_utf8_lossy(&form.bytes);
                    let text = strip_ansi(&text).into_owned();
                    if whole { text } else { format!("{text}\n[… cut here …]") }
                }
            };
            cofferdam_notebook::Part::new(form.mime.clone(), data)
        })
        .collect()
}

/// What an end means for the call, and what is said of it.
fn told(end: Option<CellEnd>, doubt: Option<String>) -> (ToolStatus, Option<Output>) {
    let because = |because| match because {
        Because::TimeUp => "its time was up",
        Because::Asked => "it was told to stop",
    };
    match end {
        Some(CellEnd::Finished { .. }) => (ToolStatus::Done, None),
        Some(CellEnd::Failed { .. }) => (ToolStatus::Failed, None),
        Some(CellEnd::Interrupted(why)) => {
            let text = format!("interrupted: {}. Variables are kept", because(why));
            (ToolStatus::Failed, Some(Output::Note(text)))
        }
        Some(CellEnd::Killed(why)) => {
            let text = format!("{} and it did not heed the interrupt: ended", because(why));
            (ToolStatus::Failed, Some(Output::Restarted(text)))
        }
        Some(CellEnd::Died { how }) => {
            (ToolStatus::Failed, Some(Output::Restarted(format!("the interpreter died: {how}"))))
        }
        Some(CellEnd::NoKernel { why } | CellEnd::Broken { why }) => {
            (ToolStatus::Failed, Some(Output::Note(why)))
        }
        None => {
            let why = doubt.unwrap_or_default();
            let text = format!("what became of it is not known: {why}");
            (ToolStatus::Unknown, Some(Output::Note(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Blind;

    impl Watcher for Blind {
        fn output(&self, _: &[u8]) {}
    }

    fn collected(pieces: impl IntoIterator<Item = CellPiece>) -> (Collected, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let outputs = Arc::new(Outputs::in_directory(directory.path().to_owned()));
        let mut collected = Collected::new(&outputs, CallId(1));
        for piece in pieces {
            collected.take(piece, &Blind);
        }
        (collected, directory)
    }

    fn part(value: u32, role: Role, mime: &str, length: usize) -> CellPiece {
        let bytes = vec![b'x'; length];
        CellPiece::Part(Part { value, role, mime: mime.to_owned(), bytes, last: true })
    }

    fn held(collected: &Collected) -> usize {
        let forms = collected.items.iter().filter_map(|item| match item {
            Item::Value { forms, .. } => Some(forms),
            _ => None,
        });
        forms.flatten().map(|form| form.bytes.len() + form.mime.len()).sum()
    }

    #[test]
    fn a_flood_of_forms_takes_no_memory() {
        let forms = (0..100_000).map(|n| part(0, Role::Display, ["a/b", "a/c"][n % 2], 1_000));
        let names = (0..10_000).map(|n| part(1, Role::Display, &format!("a/{n}"), 1_000));
        let values = (2..10_000).map(|n| part(n, Role::Display, "a/b", 1_000));
        let pictures = (10_000..10_100).map(|n| part(n, Role::Display, "image/png", 1 << 20));
        let (collected, _directory) = collected(forms.chain(names).chain(values).chain(pictures));
        assert!(collected.items.len() <= MOST_OUTPUTS);
        assert!(held(&collected) <= FORM_BYTES + PICTURE_BYTES + MOST_OUTPUTS * 1_000);
    }

    #[tokio::test]
    async fn what_was_raised_is_shown_however_much_came_before() {
        let printed = (0..200).map(|n| CellPiece::Text {
            stream: if n % 2 == 0 { Stream::Stdout } else { Stream::Stderr },
            text: format!("line {n}\n"),
        });
        let shown = (0..200).map(|n| part(n, Role::Display, PLAIN, 10));
        let error = CellPiece::Error {
            name: "ValueError".to_owned(),
            value: "at last".to_owned(),
            traceback: vec!["x".repeat(1 << 20), "ValueError: at last".to_owned()],
        };
        let result = part(200, Role::Result, PLAIN, 10);
        let end = CellPiece::Ended(CellEnd::Failed { count: 1 });
        let (collected, _directory) = collected(printed.chain(shown).chain([result, error, end]));
        let (outputs, status, _) = collected.finish().await;
        assert_eq!(status, ToolStatus::Failed);
        assert!(outputs.iter().any(|output| matches!(output, Output::Result(_))));
        let raised = outputs.iter().find_map(|output| match output {
            Output::Error { traceback, .. } => Some(traceback),
            _ => None,
        });
        let traceback = raised.expect("the error is there");
        assert!(traceback.ends_with("ValueError: at last") && traceback.len() < 20_000);
        let texts: String = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Printed { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert!((0..200).all(|n| texts.contains(&format!("line {n}\n"))), "{texts}");
    }

    #[test]
    fn only_pictures_that_a_provider_takes_are_shown() {
        let form = |mime: &str, bytes: &[u8]| Form {
            mime: mime.to_owned(),
            bytes: bytes.to_vec(),
            whole: true,
        };
        let png = |width: u32, height: u32| {
            let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
            bytes.extend(width.to_be_bytes());
            bytes.extend(height.to_be_bytes());
            bytes.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
            bytes
        };
        assert!(can_be_shown(&form("image/png", &png(640, 480))));
        assert!(!can_be_shown(&form("image/jpeg", &png(640, 480))));
        assert!(!can_be_shown(&form("image/png", &png(12_000, 9))));
        assert!(!can_be_shown(&form("image/png", b"\x89PNG\r\n\x1a\n")));
        assert!(!can_be_shown(&form("image/png", b"")));
        assert!(!can_be_shown(&Form { whole: false, ..form("image/png", &png(1, 1)) }));
    }
}
