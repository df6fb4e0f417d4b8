//! What stands behind the question mark. Unknown and repeated names are refused,
//! so that a misspelt one is told.

use crate::problem::Refusal;

/// Bytes of a path in a workspace.
const LONGEST_PATH: usize = 4096;

/// The parameters of a query.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, Vec<u8>)>,
}

impl Query {
    /// Takes a query apart, which may have parameters of these names only.
    pub(crate) fn of(text: Option<&str>, known: &[&str]) -> Result<Self, Refusal> {
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = String::from_utf8_lossy(&decode(name)?).into_owned();
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(Refusal::malformed(match known.as_str() {
                    "" => format!("there is no parameter {name:?} here, nor any other"),
                    known => format!("there is no parameter {name:?} here, only {known}"),
                }));
            }
            if pairs.iter().any(|(there, _)| *there == name) {
                return Err(Refusal::malformed(format!("{name} is there twice")));
            }
            pairs.push((name, decode(value)?));
        }
        Ok(Self { pairs })
    }

    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.pairs.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_slice())
    }

    /// A parameter's text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let Some(bytes) = self.bytes(name) else { return Ok(None) };
        let text = std::str::from_utf8(bytes);
        text.map(Some).map_err(|_| Refusal::malformed(format!("{name} is not UTF-8")))
    }

    /// A parameter's number, which is one of these.
    pub(crate) fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits && range.contains(&number) => Ok(Some(number)),
            _ => {
                let (least, most) = (range.start(), range.end());
                Err(Refusal::malformed(format!("{name} is no number from {least} to {most}")))
            }
        }
    }

    /// Whether a parameter says `true`; it may say `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.text(name)? {
            Some("true") => Ok(true),
            Some("false") | None => Ok(false),
            Some(_) => Err(Refusal::malformed(format!("{name} is neither true nor false"))),
        }
    }

    /// A path in a workspace, which is bytes.
    pub(crate) fn path(&self) -> Result<Option<Vec<u8>>, Refusal> {
        self.bytes("path").map(|bytes| path(bytes.to_vec())).transpose()
    }

    /// The same where it must be there.
    pub(crate) fn needed_path(&self) -> Result<Vec<u8>, Refusal> {
        self.path()?.ok_or_else(|| Refusal::malformed("the parameter `path` is missing"))
    }
}

/// A path that can be one.
pub(crate) fn path(bytes: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Refusal::malformed("the path is empty or holds a NUL"));
    }
    if bytes.len() > LONGEST_PATH {
        return Err(Refusal::malformed(format!("the path is longer than {LONGEST_PATH} bytes")));
    }
    Ok(bytes)
}

fn decode(text: &str) -> Result<Vec<u8>, Refusal> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(), digit());
                let value =
                    high.zip(low).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
                value.ok_or_else(|| Refusal::malformed("the query has a % without two digits"))?
            }
            byte => byte,
        });
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_bytes_whatever_they_are() {
        let query = Query::of(Some("path=a%2Fb+c%FF"), &["path"]).unwrap();
        assert_eq!(query.needed_path().unwrap(), b"a/b c\xff");
        assert!(query.text("path").is_err());
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "path=", "path=a%00b", "path=%4", "path=%zz"] {
            let query = Query::of(Some(text), &["path"]);
            assert!(query.and_then(|query| query.needed_path()).is_err(), "{text}");
        }
        let long = format!("path={}", "a".repeat(5000));
        assert!(Query::of(Some(&long), &["path"]).unwrap().needed_path().is_err());
    }

    #[test]
    fn numbers_have_bounds_and_no_other_spelling() {
        let number = |text: &str| {
            Query::of(Some(text), &["limit"]).and_then(|query| query.number("limit", 1..=10))
        };
        assert_eq!(number("limit=10").unwrap(), Some(10));
        assert_eq!(number("").unwrap(), None);
        for text in ["limit=0", "limit=11", "limit=+1", "limit=-1", "limit=", "limit=1e1"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(number("limit=99999999999999999999").is_err());
    }

    #[test]
    fn names_that_are_unknown_or_repeated_are_refused() {
        assert!(Query::of(Some("limti=1"), &["limit"]).is_err());
        assert!(Query::of(Some("limit=1&limit=2"), &["limit"]).is_err());
        assert!(Query::of(Some("x"), &[]).is_err());
        assert!(Query::of(Some("&&limit=1&"), &["limit"]).is_ok());
    }

    #[test]
    fn a_flag_is_true_or_false() {
        let flag = |text| Query::of(Some(text), &["f"]).and_then(|query| query.flag("f"));
        assert!(flag("f=true").unwrap());
        assert!(!flag("f=false").unwrap());
        assert!(!flag("").unwrap());
        assert!(flag("f=1").is_err());
    }
}
