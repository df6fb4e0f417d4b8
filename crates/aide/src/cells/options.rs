//! The options of the subcommands: `--name value`, each at most once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// No time that is asked for is longer: a month.
const MAX_SECONDS: u64 = 31 * 24 * 60 * 60;

/// Options by name.
#[derive(Debug)]
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    /// Takes arguments apart.
    pub(super) fn parse(args: &[OsString], known: &[&str]) -> Result<Self, String> {
        let mut options = BTreeMap::new();
        let mut args = args
            .iter()
            .map(|argument| argument.to_str().ok_or_else(|| format!("{argument:?} is not UTF-8")));
        while let Some(argument) = args.next() {
            let argument = argument?;
            let name = argument.strip_prefix("--").filter(|name| known.contains(name));
            let name = name.ok_or_else(|| format!("unknown argument {argument:?}"))?;
            let value = args.next().ok_or_else(|| format!("--{name} needs a value"))??;
            if options.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(format!("--{name} is given twice"));
            }
        }
        Ok(Self(options))
    }

    /// An option, or what it is otherwise.
    pub(super) fn text(&self, name: &str, otherwise: &str) -> String {
        self.0.get(name).map_or(otherwise, String::as_str).to_owned()
    }

    /// An option that is a number.
    pub(super) fn number(&self, name: &str, otherwise: usize) -> Result<usize, String> {
        let Some(value) = self.0.get(name) else { return Ok(otherwise) };
        value.parse().map_err(|_| format!("--{name} {value:?} is no whole number"))
    }

    /// An option in seconds, with or without a fraction.
    pub(super) fn seconds(&self, name: &str, otherwise: u64) -> Result<Duration, String> {
        let Some(value) = self.0.get(name) else { return Ok(Duration::from_secs(otherwise)) };
        let seconds = value.parse().ok().and_then(|value| Duration::try_from_secs_f64(value).ok());
        seconds
            .filter(|time| time.as_secs() <= MAX_SECONDS)
            .ok_or_else(|| format!("--{name} {value:?} is no number of seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        Options::parse(&args, &["name", "seconds"])
    }

    #[test]
    fn options_have_values_and_defaults() {
        let options = parse(&["--seconds", "0.5"]).unwrap();
        assert_eq!(options.seconds("seconds", 9), Ok(Duration::from_millis(500)));
        assert_eq!(options.text("name", "main"), "main");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for args in [&["x"][..], &["--other", "1"], &["--name"], &["--name", "a", "--name", "b"]] {
            assert!(parse(args).is_err(), "{args:?}");
        }
        for seconds in ["", "-1", "NaN", "inf", "1e300", "soon"] {
            let options = parse(&["--seconds", seconds]).unwrap();
            assert!(options.seconds("seconds", 9).is_err(), "{seconds:?}");
        }
    }
}
