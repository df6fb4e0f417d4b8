//! The arguments of a call, taken one by one: what is missing or of another kind
//! is named, with what was expected and what came. Nothing is guessed.
//!
//! `null` counts as absent, since some providers write every argument; arguments
//! that nobody asks for are ignored.

use serde_json::{Map, Value};

use crate::trouble::Trouble;

/// Characters of a wrong value that are repeated.
const QUOTED: usize = 60;

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    tool: &'a str,
    values: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(tool: &'a str, values: &'a Map<String, Value>) -> Self {
        Self { tool, values }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, expected: &str, came: &Value) -> Trouble {
        let came: String = came.to_string().chars().take(QUOTED).collect();
        let tool = self.tool;
        Trouble::Refused(format!("{tool}: `{name}` must be {expected}; this came: {came}"))
    }

    /// Text that must be there.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str, Trouble> {
        self.optional_text(name)?.ok_or_else(|| {
            let given: Vec<&str> = self.values.keys().map(String::as_str).collect();
            let given = if given.is_empty() { "nothing".to_owned() } else { format!("{given:?}") };
            let tool = self.tool;
            Trouble::Refused(format!("{tool}: `{name}` (a string) is missing; given was {given}"))
        })
    }

    /// Text that may be there.
    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Trouble> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    /// A whole number in a range, that may be there.
    pub(crate) fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Trouble> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match whole(value) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("a whole number from {} to {}", range.start(), range.end());
                Err(self.wrong(name, &expected, value))
            }
        }
    }

    /// Yes or no; no if it is not there.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Trouble> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(name, "true or false", other)),
        }
    }
}

/// The number, if it is whole: some models write `5.0`.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        let exact = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and in the range where both are exact"
        )]
        exact.then_some(number as u64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(outcome: Result<impl std::fmt::Debug, Trouble>) -> String {
        match outcome {
            Err(Trouble::Refused(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_was_expected_and_what_came() {
        let values = json!({"path": 5, "limit": "7", "all": "yes", "offset": 0});
        let arguments = Arguments::new("read_file", values.as_object().unwrap());
        assert_eq!(
            said(arguments.text("path")),
            "read_file: `path` must be a string; this came: 5"
        );
        assert_eq!(
            said(arguments.number("limit", 1..=9)),
            "read_file: `limit` must be a whole number from 1 to 9; this came: \"7\""
        );
        assert!(said(arguments.number("offset", 1..=9)).contains("this came: 0"));
        assert!(said(arguments.flag("all")).contains("must be true or false"));
        assert_eq!(
            said(arguments.text("content")),
            "read_file: `content` (a string) is missing; given was \
             [\"all\", \"limit\", \"offset\", \"path\"]"
        );
    }

    #[test]
    fn null_is_absent_and_a_whole_float_is_a_number() {
        let values = json!({"path": null, "limit": 5.0, "offset": 5.5});
        let arguments = Arguments::new("read_file", values.as_object().unwrap());
        assert_eq!(arguments.optional_text("path"), Ok(None));
        assert_eq!(arguments.flag("path"), Ok(false));
        assert_eq!(arguments.number("limit", 1..=9), Ok(Some(5)));
        assert!(arguments.number("offset", 1..=9).is_err());
    }
}
