//! What a kernel publishes, as pieces of a cell.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_aide_protocol::{CellPiece, Role, Stream, part_pieces, text_pieces};
use serde_json::{Map, Value};

use super::outbox::Outbox;
use super::wire::Message;

/// A value has no more forms than this.
const MAX_FORMS: usize = 32;

/// Parts of an error are no longer than this.
const MAX_ERROR: usize = 64 << 10;

/// Passes on what a message shows, if it shows something.
pub(super) fn show(message: &Message, values: &mut u32, out: &mut Outbox) {
    let content = match &message.content {
        Ok(content) => content,
        Err(bytes) => return out.drop_bytes(*bytes),
    };
    let role = match message.kind.as_str() {
        "execute_result" => Role::Result,
        "display_data" => Role::Display,
        "update_display_data" => Role::Update,
        "error" => return show_error(content, out),
        "clear_output" => return out.push([CellPiece::Cleared], 0),
        _ => return,
    };
    if let Some(forms) = content.get("data").and_then(Value::as_object) {
        show_value(*values, role, forms, out);
        *values = values.saturating_add(1);
    }
}

/// Passes on printed text.
pub(super) fn print(stream: Stream, text: &str, out: &mut Outbox) {
    if !text.is_empty() {
        out.push(text_pieces(stream, text), text.len());
    }
}

/// Where a message prints, if it does.
pub(super) fn stream(message: &Message) -> Option<Stream> {
    match (message.kind.as_str(), message.text("name")) {
        ("stream", "stderr") => Some(Stream::Stderr),
        ("stream", _) => Some(Stream::Stdout),
        _ => None,
    }
}

fn show_value(value: u32, role: Role, forms: &Map<String, Value>, out: &mut Outbox) {
    let mut forms: Vec<(&String, &Value)> = forms.iter().collect();
    forms.sort_by_key(|(mime, _)| *mime);
    for (mime, content) in forms.into_iter().take(MAX_FORMS) {
        let bytes = form(mime, content);
        out.push(part_pieces(value, role, mime, &bytes), bytes.len());
    }
}

/// The bytes of a form: images and the like come in base64, JSON as JSON, text as text
/// or as a list of lines.
fn form(mime: &str, content: &Value) -> Vec<u8> {
    let is_json = mime == "application/json" || mime.ends_with("+json");
    let text = match content {
        Value::String(text) if !is_json => text.clone(),
        Value::Array(lines) if !is_json && lines.iter().all(Value::is_string) => {
            lines.iter().filter_map(Value::as_str).collect()
        }
        other => return other.to_string().into_bytes(),
    };
    let is_text =
        mime.starts_with("text/") || mime.ends_with("+xml") || mime.contains("javascript");
    if !is_text {
        let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        if let Ok(bytes) = STANDARD.decode(packed) {
            return bytes;
        }
    }
    text.into_bytes()
}

fn show_error(content: &Value, out: &mut Outbox) {
    let mut left = 2 * MAX_ERROR;
    let lines = content.get("traceback").and_then(Value::as_array);
    let traceback: Vec<String> = lines
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .map(|line| cut(line, MAX_ERROR))
        .take_while(|line| {
            left = left.saturating_sub(line.len() + 8);
            left > 0
        })
        .collect();
    let field = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, value) = (cut(field("ename"), 1 << 10), cut(field("evalue"), MAX_ERROR));
    out.push([CellPiece::Error { name, value, traceback }], 0);
}

fn cut(text: &str, limit: usize) -> String {
    match text.split_at_checked(text.floor_char_boundary(limit)) {
        Some((kept, "")) => kept.to_owned(),
        Some((kept, _)) => format!("{kept}…"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_become_bytes() {
        let cases = [
            ("image/png", json!("iVBO\nRw=="), b"\x89PNG".to_vec()),
            ("image/svg+xml", json!("<svg/>"), b"<svg/>".to_vec()),
            ("text/plain", json!(["a\n", "b"]), b"a\nb".to_vec()),
            ("application/json", json!({"a": [1]}), b"{\"a\":[1]}".to_vec()),
            ("application/json", json!("text"), b"\"text\"".to_vec()),
            ("text/plain", json!(5), b"5".to_vec()),
            ("application/javascript", json!("abcd"), b"abcd".to_vec()),
            ("image/png", json!("not base64!"), b"not base64!".to_vec()),
        ];
        for (mime, content, bytes) in cases {
            assert_eq!(form(mime, &content), bytes, "{mime} {content}");
        }
    }

    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(cut("ääää", 3), "ä…");
        assert_eq!(cut("ab", 3), "ab");
    }
}
