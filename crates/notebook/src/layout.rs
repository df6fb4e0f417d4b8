//! How outputs of a cell are written for a model, and read again: the only place that knows.
//!
//! Each piece is a [`Content`] of its own. A text begins with a line that says what it is; what
//! follows is verbatim to its end. So nothing that a cell prints can be taken for another piece,
//! and a model reads it without being told how:
//!
//! | content | what it is |
//! | --- | --- |
//! | `[stdout]`, then the text | printed |
//! | `[stderr]`, then the text | printed there |
//! | `[result]`, then the text | the last expression's value, as `text/plain` |
//! | `[display]`, then the text | something shown, as `text/plain` |
//! | `[+ text/html]`, then the text | the same thing as before it in another form |
//! | a picture | the same thing as before it as a picture |
//! | `[error "NameError" "name 'x' is not defined"]`, then the traceback | two JSON strings |
//! | `[note]`, then the text | the host's words: a time-out, output that was left out |
//! | `[kernel started]`, then why | what was there before this cell is lost |
//! | `[kernel restarted]`, then why | what this cell did is lost as well |
//! | any other text | the host's words, as with `[note]` |
//!
//! `[result]` and `[display]` without a second line have no `text/plain`: a picture alone is
//! `[display]` and then the picture. A picture that follows nothing it could be a form of is
//! something shown.
//!
//! For the tool that writes it: join what comes to one stream in a row into one piece, and bound
//! the pieces; cut long text within its piece, with words in the gap. Leave out forms that say
//! less than the one before (`text/html` beside `text/plain`, unless somebody wants the notebook
//! more than the tokens). Colour codes may stay or go; both can be read again.

use cofferdam_types::Content;

use crate::cell::{Bundle, Output, Part, Stream, is_mime, is_picture};

const STDOUT: &str = "[stdout]";
const STDERR: &str = "[stderr]";
const RESULT: &str = "[result]";
const DISPLAY: &str = "[display]";
const NOTE: &str = "[note]";
const STARTED: &str = "[kernel started]";
const RESTARTED: &str = "[kernel restarted]";
const FORM: &str = "[+ ";
const ERROR: &str = "[error ";

/// What a model is shown of a cell's outputs.
#[must_use]
pub fn contents(outputs: &[Output]) -> Vec<Content> {
    let mut contents = Vec::new();
    for output in outputs {
        match output {
            Output::Printed { stream: Stream::Stdout, text } => contents.push(piece(STDOUT, text)),
            Output::Printed { stream: Stream::Stderr, text } => contents.push(piece(STDERR, text)),
            Output::Result(bundle) => contents.extend(forms(RESULT, bundle)),
            Output::Display(bundle) => contents.extend(forms(DISPLAY, bundle)),
            Output::Error { name, value, traceback } => {
                contents
                    .push(piece(&format!("{ERROR}{} {}]", quoted(name), quoted(value)), traceback));
            }
            Output::Note(text) => contents.push(piece(NOTE, text)),
            Output::Started(why) => contents.push(piece(STARTED, why)),
            Output::Restarted(why) => contents.push(piece(RESTARTED, why)),
        }
    }
    contents
}

fn piece(mark: &str, text: &str) -> Content {
    Content::text(format!("{mark}\n{text}"))
}

/// A bundle: its plain text first, then its other forms in their order.
fn forms(mark: &str, bundle: &Bundle) -> Vec<Content> {
    let plain = bundle.0.iter().find(|part| part.mime == Part::PLAIN);
    let mut contents = vec![match plain {
        Some(part) => piece(mark, &part.data),
        None => Content::text(mark),
    }];
    let others = bundle.0.iter().filter(|part| part.mime != Part::PLAIN && is_mime(&part.mime));
    contents.extend(others.map(|part| {
        if part.is_picture() {
            Content::Image { media_type: part.mime.clone(), data: part.data.clone() }
        } else {
            piece(&format!("{FORM}{}]", part.mime), &part.data)
        }
    }));
    contents
}

/// As a JSON string, which is one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The outputs that a model was shown.
#[must_use]
pub fn outputs(contents: &[Content]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for content in contents {
        match content {
            Content::Text { text } => read(text, &mut outputs),
            Content::Image { media_type, data } => {
                let part = Part::new(media_type, data);
                if let Some(part) = add(part, &mut outputs) {
                    outputs.push(Output::Display(Bundle(vec![part])));
                }
            }
        }
    }
    outputs
}

fn read(text: &str, outputs: &mut Vec<Output>) {
    let (mark, body) = match text.split_once('\n') {
        Some((mark, body)) => (mark, Some(body)),
        None => (text, None),
    };
    let own = || body.unwrap_or_default().to_owned();
    let bundle = || Bundle(body.map(|body| Part::new(Part::PLAIN, body)).into_iter().collect());
    let output = match mark {
        STDOUT => Output::Printed { stream: Stream::Stdout, text: own() },
        STDERR => Output::Printed { stream: Stream::Stderr, text: own() },
        RESULT => Output::Result(bundle()),
        DISPLAY => Output::Display(bundle()),
        NOTE => Output::Note(own()),
        STARTED => Output::Started(own()),
        RESTARTED => Output::Restarted(own()),
        _ => {
            if let Some((name, value)) = error(mark) {
                Output::Error { name, value, traceback: own() }
            } else if let Some(mime) = form(mark) {
                match add(Part::new(mime, own()), outputs) {
                    Some(part) => Output::Display(Bundle(vec![part])),
                    None => return,
                }
            } else {
                Output::Note(text.to_owned())
            }
        }
    };
    outputs.push(output);
}

/// The name and the value in an error's first line.
fn error(mark: &str) -> Option<(String, String)> {
    let words = mark.strip_prefix(ERROR)?.strip_suffix(']')?;
    let mut words = serde_json::Deserializer::from_str(words).into_iter::<String>();
    let (name, value) = (words.next()?.ok()?, words.next()?.ok()?);
    words.next().is_none().then_some((name, value))
}

/// The media type in the first line of another form.
fn form(mark: &str) -> Option<&str> {
    let mime = mark.strip_prefix(FORM)?.strip_suffix(']')?;
    (is_mime(mime) && !is_picture(mime)).then_some(mime)
}

/// Adds a form to the last output; gives it back if that has such a form, or has no forms.
fn add(part: Part, outputs: &mut [Output]) -> Option<Part> {
    let Some(Output::Result(bundle) | Output::Display(bundle)) = outputs.last_mut() else {
        return Some(part);
    };
    if bundle.0.iter().any(|other| other.mime == part.mime) {
        return Some(part);
    }
    bundle.0.push(part);
    None
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
