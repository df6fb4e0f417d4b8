//! Tool calls as every provider takes them back.
//!
//! A model may write anything into a call. What it wrote is sent back exactly
//! where a provider accepts that; what would make the provider refuse the whole
//! conversation is put in a form that it accepts.

use cofferdam_types::Arguments;
use serde_json::value::RawValue;

/// The longest name that every provider takes.
const LONGEST_NAME: usize = 64;

/// The arguments as text that is a JSON object: what the model wrote, or a note
/// that holds it.
pub(crate) fn arguments(arguments: &Arguments) -> String {
    match arguments.object() {
        Ok(_) if arguments.0.trim().is_empty() => "{}".to_owned(),
        Ok(_) => arguments.0.clone(),
        Err(_) => serde_json::json!({ "malformed_arguments": arguments.0 }).to_string(),
    }
}

/// The same as a part of a body.
pub(crate) fn raw_arguments(of: &Arguments) -> Box<RawValue> {
    // The text is a JSON object, so this does not fail.
    RawValue::from_string(arguments(of)).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A name in the letters that every provider takes.
pub(crate) fn identifier(text: &str) -> String {
    let accepted = |character: char| {
        let plain = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        if plain { character } else { '_' }
    };
    let name: String = text.chars().map(accepted).take(LONGEST_NAME).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// The same name with a number, no longer than it may be.
pub(crate) fn numbered(name: &str, number: u32) -> String {
    let end = format!("_{number}");
    let kept: String = name.chars().take(LONGEST_NAME - end.len()).collect();
    kept + &end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_back_as_they_were_written_or_as_a_note() {
        for (written, sent) in [
            ("{ \"b\":1e1, \"a\":1 }", "{ \"b\":1e1, \"a\":1 }"),
            ("", "{}"),
            (" ", "{}"),
            ("{\"a\":", r#"{"malformed_arguments":"{\"a\":"}"#),
            ("[1]", r#"{"malformed_arguments":"[1]"}"#),
        ] {
            assert_eq!(arguments(&Arguments(written.to_owned())), sent);
            assert_eq!(raw_arguments(&Arguments(written.to_owned())).get(), sent);
        }
    }

    #[test]
    fn names_that_a_provider_would_refuse_are_made_acceptable() {
        for (name, sent) in [
            ("bash", "bash"),
            ("functions.bash", "functions_bash"),
            ("ä b", "__b"),
            ("", "unnamed"),
        ] {
            assert_eq!(identifier(name), sent);
        }
        assert_eq!(identifier(&"x".repeat(100)).len(), LONGEST_NAME);
    }
}
