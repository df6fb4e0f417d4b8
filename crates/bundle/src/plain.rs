//! JSON for people: one part of the whole, or one row of a list, on each line,
//! and nothing in it that a terminal would obey.

use std::io::{self, Write};

use serde_json::ser::Formatter;

use crate::component::commands_terminal;

/// How a manifest is written.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    depth: usize,
}

impl Plain {
    fn separate<W: ?Sized + Write>(
        &self,
        out: &mut W,
        first: bool,
        deepest: usize,
    ) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= deepest { self.line(out) } else { Ok(()) }
    }

    fn line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Plain {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, 2)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth == 0 {
            self.line(out)?
        }
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, 1)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for part in fragment.split_inclusive(commands_terminal) {
            let last = part.chars().next_back().filter(|found| commands_terminal(*found));
            let length = part.len() - last.map_or(0, char::len_utf8);
            out.write_all(part.as_bytes().get(..length).unwrap_or_default())?;
            if let Some(found) = last {
                write!(out, "\\u{:04x}", u32::from(found))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_and_rows_have_lines_and_terminals_nothing_to_obey() {
        let value = json!({
            "name": "a\u{9b}2J\u{202e}\u{1b}é\u{7f}",
            "none": [],
            "rows": [{"x": 1, "y": [1, 2]}, {"x": 2}],
        });
        let mut out = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, Plain::default());
        value.serialize(&mut serializer).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = r#"{
  "name": "a\u009b2J\u202e\u001bé\u007f",
  "none": [],
  "rows": [
    {"x": 1,"y": [1,2]},
    {"x": 2}]
}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
