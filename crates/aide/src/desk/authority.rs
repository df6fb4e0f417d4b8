//! The key to the display: a file as the X server and all its clients read it.

use super::error::DeskError;

/// The only kind of key that is in use.
pub(super) const KIND: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// For any host and any display: the number of the display is not known before the
/// server runs, and the server must have the file before.
const ANY: u16 = 0xffff;

/// Sixteen random bytes.
pub(super) fn new_cookie() -> Result<[u8; 16], DeskError> {
    let mut cookie = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut cookie, flags) {
        Ok(16) => Ok(cookie),
        Ok(_) => Err(DeskError::Broken("the system gave too few random bytes".to_owned())),
        Err(error) => Err(DeskError::System { what: "get random bytes", source: error.into() }),
    }
}

/// The file with this key in it.
pub(super) fn file(cookie: &[u8; 16]) -> Vec<u8> {
    let mut out = ANY.to_be_bytes().to_vec();
    // Address and number of the display: none, which is any.
    for field in [&b""[..], b"", KIND, cookie] {
        // All four are short.
        out.extend_from_slice(&u16::try_from(field.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(field);
    }
    out
}

/// The key in such a file.
pub(super) fn cookie(file: &[u8]) -> Option<&[u8]> {
    let (_, mut rest) = file.split_first_chunk::<2>()?;
    let mut last = None;
    for _ in 0..4 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (field, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        (last, rest) = (Some(field), after);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_read_as_it_was_written() {
        let key = new_cookie().unwrap();
        assert_eq!(cookie(&file(&key)), Some(&key[..]));
        assert_eq!(cookie(b"\xff\xff\x00\x09x"), None);
    }
}
