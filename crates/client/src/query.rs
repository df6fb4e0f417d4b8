//! Queries of paths.

use std::fmt::Write;

/// A path with a query, as it is put together.
pub(crate) struct PathQuery {
    text: String,
    separator: char,
}

impl PathQuery {
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self { text: path.into(), separator: '?' }
    }

    /// Adds a parameter, if it has a value.
    pub(crate) fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.text.push(self.separator);
            self.separator = '&';
            self.text.push_str(name);
            self.text.push('=');
            encode(&value.to_string(), &mut self.text);
        }
        self
    }

    pub(crate) fn done(self) -> String {
        self.text
    }
}

/// One part of a path.
pub(crate) fn segment(text: &str) -> String {
    let mut encoded = String::new();
    encode(text, &mut encoded);
    encoded
}

fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                into.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            other => drop(write!(into, "%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_stays_in_its_parameter() {
        let path = PathQuery::new("/jobs")
            .with("status", Some("a,b"))
            .with("user", None::<&str>)
            .with("cursor", Some("x&y=z ü/?#"))
            .done();
        assert_eq!(path, "/jobs?status=a%2Cb&cursor=x%26y%3Dz%20%C3%BC%2F%3F%23");
        assert_eq!(segment("../x"), "..%2Fx");
    }
}
