//! Bytes as git writes them in a patch: compressed, 52 in a line, five characters
//! for every four of them.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Bytes in a line.
const LINE: usize = 52;

/// The lines for a content, with the line that announces it and the empty one
/// that ends it.
pub(super) fn literal(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    let packed = encoder.finish()?;
    let mut text = format!("literal {}\n", content.len()).into_bytes();
    for line in packed.chunks(LINE) {
        text.push(length(line.len()));
        for word in line.chunks(4) {
            text.extend_from_slice(&encoded(word));
        }
        text.push(b'\n');
    }
    text.push(b'\n');
    Ok(text)
}

/// `A` to `Z` for 1 to 26, `a` to `z` for 27 to 52.
fn length(count: usize) -> u8 {
    let count = u8::try_from(count).unwrap_or(0);
    if count <= 26 { b'A' - 1 + count } else { b'a' - 27 + count }
}

fn encoded(word: &[u8]) -> [u8; 5] {
    let mut number = 0_u32;
    for place in 0..4 {
        number = number << 8 | u32::from(word.get(place).copied().unwrap_or(0));
    }
    let mut text = [0; 5];
    for digit in text.iter_mut().rev() {
        *digit = ALPHABET.get((number % 85) as usize).copied().unwrap_or(b'0');
        number /= 85;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_git_does() {
        assert_eq!(&encoded(&[0, 0, 0, 0]), b"00000");
        assert_eq!(&encoded(&[255, 255, 255, 255]), b"|NsC0");
        assert_eq!((length(1), length(26), length(27), length(52)), (b'A', b'Z', b'a', b'z'));
    }
}
