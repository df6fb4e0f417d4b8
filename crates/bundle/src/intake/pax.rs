//! Headers of a tar archive that tell more of the next entry, or of all.

/// What such a header says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

/// Reads one, of which every record must be as it has to be.
pub(super) fn parse(mut bytes: &[u8]) -> Result<Pax, &'static str> {
    let mut pax = Pax::default();
    while !bytes.is_empty() {
        let (record, rest) = record(bytes).ok_or("it has a malformed extended header")?;
        bytes = rest;
        let equals = record.iter().position(|byte| *byte == b'=');
        let Some((key, value)) = equals.and_then(|at| record.split_at_checked(at)) else {
            return Err("it has a malformed extended header");
        };
        let value = value.get(1..).unwrap_or_default();
        let twice = match key {
            b"path" => pax.path.replace(value.to_vec()).is_some(),
            b"linkpath" => pax.link.replace(value.to_vec()).is_some(),
            b"size" => {
                let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                let size = str::from_utf8(value).ok().filter(|_| digits);
                let size = size.and_then(|text| text.parse().ok());
                pax.size.replace(size.ok_or("it has a size that is no number")?).is_some()
            }
            key if key.starts_with(b"GNU.sparse.") => {
                return Err("it is sparse: pack it without that");
            }
            _ => false,
        };
        if twice {
            return Err("an extended header says something twice");
        }
    }
    Ok(pax)
}

/// One record, which begins with its own length and ends with a line's end.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().take(8).position(|byte| *byte == b' ')?;
    let digits = bytes.get(..space)?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length: usize = str::from_utf8(digits).ok()?.parse().ok()?;
    let (whole, rest) = bytes.split_at_checked(length)?;
    let record = whole.get(space + 1..)?.strip_suffix(b"\n")?;
    Some((record, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_strictly() {
        let pax = parse(b"11 path=ab\n13 comment=x\n12 size=123\n").unwrap();
        assert_eq!((pax.path.as_deref(), pax.size), (Some(b"ab".as_slice()), Some(123)));
        // A line's end in a value is no record's end.
        assert_eq!(parse(b"12 path=a\nb\n").unwrap().path.as_deref(), Some(b"a\nb".as_slice()));
        for wrong in [
            b"10 path=ab\n".as_slice(),
            b"12 path=ab\n",
            b"path=ab\n",
            b"0 \n",
            b"3 \n",
            b"99999999999999999999 path=a\n",
            b"9 nothing",
            b"11 path=ab\n11 path=cd\n",
            b"12 size=-12\n",
            b"12 size=1 2\n",
            b"24 GNU.sparse.realsize=1\n",
            b"11 path=ab\n\0\0\0",
        ] {
            assert!(parse(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }
}
