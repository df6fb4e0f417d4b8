//! What a file is that is no text, told by its first bytes.

/// First bytes, and what they stand for.
const KINDS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a ZIP archive, or a document in that form"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "a WebAssembly module"),
];

/// What the bytes are, if that is known.
pub(crate) fn of(bytes: &[u8]) -> Option<&'static str> {
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    if webp {
        return Some("image/webp");
    }
    KINDS.iter().find(|(first, _)| bytes.starts_with(first)).map(|(_, kind)| *kind)
}

/// Whether a model can look at it.
pub(crate) fn is_picture(kind: &str) -> bool {
    matches!(kind, "image/png" | "image/jpeg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        assert_eq!(of(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(of(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(of(b"GIF89a"), Some("image/gif"));
        assert_eq!(of(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(of(b"RIFF\0\0\0\0WAVE"), None);
        assert_eq!(of(b""), None);
    }
}
