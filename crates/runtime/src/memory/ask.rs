//! What a call of `recall` asks for.

use std::fmt::Display;

use cofferdam_types::{Timestamp, ToolSpec};
use serde_json::{Map, Value, json};

use super::moment::moment;
use super::window::Range;

/// The tool's name.
pub(crate) const NAME: &str = "recall";

/// Hits of a list, if nothing else is said, and at most.
const HITS: u64 = 8;
const MOST_HITS: u64 = 20;

/// Bytes of words that are looked for.
const LONGEST: usize = 4_000;

/// The names of the arguments.
const KNOWN: [&str; 8] = ["query", "id", "file", "from", "to", "limit", "offset", "byte"];

/// The tool, as models are told of it.
pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Find again what was cut from this conversation: everything that was said, \
                      called, put out and checked since the job began, and text files of the \
                      workspace. By `query`, `file` or time: a list with numbers. By `id`: the \
                      original of event #id, whole or a range; with `query` too, the places in it."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "words: names, paths, errors"},
                "id": {"type": "integer", "description": "number of an event, without the #"},
                "file": {"type": "string", "description": "only what is about this path"},
                "from": {"type": "string", "description": "RFC 3339, or \"2h ago\""},
                "to": {"type": "string"},
                "limit": {"type": "integer", "description": "results; with id: lines"},
                "offset": {"type": "integer", "description": "with id: first line, default 1"},
                "byte": {"type": "integer", "description": "with id: where in that line"}
            },
            "required": []
        }),
    }
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// An event, in full or in part.
    Read { id: u64, range: Range },
    /// The places in an event that fit some words.
    Within { id: u64, query: String, limit: usize },
    /// Whatever fits.
    Find(Find),
}

/// What is looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Find {
    pub(super) query: String,
    pub(super) file: Option<String>,
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
    pub(super) limit: usize,
}

impl Wanted {
    /// What these arguments ask for; what is wrong with them otherwise.
    pub(super) fn of(arguments: &Map<String, Value>, now: Timestamp) -> Result<Self, String> {
        if let Some(unknown) = arguments.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            let known = KNOWN.join(", ");
            return Err(format!("there is no argument {unknown:?}; there are {known}"));
        }
        let query = text(arguments, "query")?;
        let file = text(arguments, "file")?.map(|path| plain(&path));
        let time = |name: &str| match text(arguments, name)? {
            Some(words) => moment(&words, now).map(Some).map_err(|why| format!("`{name}`: {why}")),
            None => Ok(None),
        };
        let (from, to) = (time("from")?, time("to")?);
        let (limit, offset) = (number(arguments, "limit")?, number(arguments, "offset")?);
        let byte = number(arguments, "byte")?;
        let hits = limit.unwrap_or(HITS).clamp(1, MOST_HITS);
        let hits = usize::try_from(hits).unwrap_or(usize::MAX);
        if let Some(id) = number(arguments, "id")? {
            if file.is_some() || from.is_some() || to.is_some() {
                return Err("`id` goes with `query`, `offset`, `limit` and `byte` only".to_owned());
            }
            return Ok(match query {
                Some(query) => Self::Within { id, query, limit: hits },
                None => {
                    let line = offset.unwrap_or(1).max(1);
                    let range = Range { line, lines: limit.unwrap_or(u64::MAX), byte };
                    Self::Read { id, range: range.sound()? }
                }
            });
        }
        if offset.is_some() || byte.is_some() {
            return Err("`offset` and `byte` are for reading an event: give its `id`".to_owned());
        }
        if query.is_none() && file.is_none() && from.is_none() && to.is_none() {
            return Err(
                "say what to look for: `query`, `id`, `file`, or `from` and `to`".to_owned()
            );
        }
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            return Err("`from` is later than `to`".to_owned());
        }
        let query = query.unwrap_or_default();
        Ok(Self::Find(Find { query, file, from, to, limit: hits }))
    }
}

fn wrong(name: &str, what: &str, found: impl Display) -> String {
    format!("`{name}` must be {what}, not {found}")
}

fn text(arguments: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() <= LONGEST => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(format!("`{name}` is longer than {LONGEST} bytes")),
        Some(other) => Err(wrong(name, "text", other)),
    }
}

fn number(arguments: &Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        // As it stands in the conversation.
        Some(Value::String(text)) => match text.trim().trim_start_matches('#').parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(wrong(name, "a whole number", format!("{text:?}"))),
        },
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(name, "a whole number", value)),
        },
    }
}

/// A path as the index has it.
fn plain(path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    path.trim_start_matches("./").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_750_000_000_000);

    fn of(arguments: &str) -> Result<Wanted, String> {
        Wanted::of(&serde_json::from_str(arguments).unwrap(), NOW)
    }

    #[test]
    fn each_way_of_asking_is_understood() {
        let whole = Range { line: 1, lines: u64::MAX, byte: None };
        assert_eq!(of(r##"{"id":"#7"}"##), Ok(Wanted::Read { id: 7, range: whole }));
        let part = Range { line: 3, lines: 5, byte: Some(9) };
        let read = of(r#"{"id":7,"offset":3,"limit":5,"byte":9}"#);
        assert_eq!(read, Ok(Wanted::Read { id: 7, range: part }));
        let within = Wanted::Within { id: 7, query: "port".to_owned(), limit: 8 };
        assert_eq!(of(r#"{"id":7,"query":"port"}"#), Ok(within));
        let Ok(Wanted::Find(find)) =
            of(r#"{"file":"/workspace/a/b.rs","from":"2h ago","limit":99,"query":null}"#)
        else {
            panic!()
        };
        assert_eq!(find.file.as_deref(), Some("a/b.rs"));
        assert_eq!(find.from, Some(Timestamp(NOW.0 - 7_200_000)));
        assert_eq!((find.query.as_str(), find.limit), ("", 20));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (arguments, told) in [
            ("{}", "say what to look for"),
            (r#"{"query":"  "}"#, "say what to look for"),
            (r#"{"id":-1}"#, "`id` must be a whole number, not -1"),
            (r#"{"id":1.5}"#, "`id` must be a whole number"),
            (r#"{"id":"last"}"#, "`id` must be a whole number, not \"last\""),
            (r#"{"query":7}"#, "`query` must be text"),
            (r#"{"words":"x"}"#, "there is no argument \"words\""),
            (r#"{"id":1,"file":"x"}"#, "`id` goes with"),
            (r#"{"query":"x","offset":2}"#, "give its `id`"),
            (r#"{"from":"soon"}"#, "`from`:"),
            (r#"{"from":"1h ago","to":"2h ago"}"#, "`from` is later"),
            (r#"{"id":1,"limit":0}"#, "`limit`"),
        ] {
            let error = of(arguments).unwrap_err();
            assert!(error.contains(told), "{arguments}: {error}");
        }
    }

    #[test]
    fn the_spec_is_short_and_names_what_is_known() {
        let spec = spec();
        let properties = spec.schema["properties"].as_object().unwrap();
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut known = KNOWN.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
        assert!(serde_json::to_string(&spec).unwrap().len() < 1_400);
    }
}
