//! The name under which a browser saves what it downloads (RFC 6266). The name may
//! be anything that a sandbox can call a file.

use std::fmt::Write;

use http::HeaderValue;

/// Characters of a name.
const LONGEST: usize = 150;

/// To be saved under this name, never shown.
pub(crate) fn attachment(name: &[u8]) -> HeaderValue {
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let text = String::from_utf8_lossy(base);
    let harmless = |c: char| {
        !c.is_control()
            && !matches!(c, '/' | '\\' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let text: String = text.chars().filter(|c| harmless(*c)).take(LONGEST).collect();
    let text = match text.trim_matches(['.', ' ']) {
        "" => "file",
        text => text,
    };
    let plain =
        |c: char| if c.is_ascii_graphic() && !"\"%\\;".contains(c) || c == ' ' { c } else { '_' };
    let simple: String = text.chars().map(plain).collect();
    let mut value = format!("attachment; filename=\"{simple}\"");
    if simple != text {
        value.push_str("; filename*=UTF-8''");
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                value.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                write!(value, "%{byte:02X}").ok();
            }
        }
    }
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &[u8]) -> String {
        attachment(name).to_str().unwrap().to_owned()
    }

    #[test]
    fn plain_names_are_plain() {
        assert_eq!(shown(b"src/main.rs"), "attachment; filename=\"main.rs\"");
    }

    #[test]
    fn other_names_come_in_two_spellings() {
        assert_eq!(
            shown("größe.txt".as_bytes()),
            "attachment; filename=\"gr__e.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt"
        );
    }

    #[test]
    fn no_name_breaks_out_of_the_header() {
        for name in [
            &b"a\"; filename=\"evil.exe"[..],
            b"a\r\nSet-Cookie: x=y",
            b"a\nb",
            b"\x1b]0;x\x07",
            b"\xff\xfe",
            b"..",
            b"",
            "\u{202e}gpj.exe".as_bytes(),
        ] {
            let shown = shown(name);
            assert!(shown.starts_with("attachment; filename=\""), "{shown}");
            assert_eq!(shown.matches('"').count(), 2, "{shown}");
            assert!(shown.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{shown}");
        }
        assert!(shown(b"..").contains("\"file\""));
    }

    #[test]
    fn names_are_cut() {
        assert!(shown(&[b'a'; 5000]).len() < 200);
    }
}
