//! The command line of `desk`.

use std::ffi::OsString;
use std::time::Duration;

use cofferdam_aide_protocol::{DEFAULT_LIMITS, PictureLimits, Size};

use super::error::DeskError;

const USAGE: &str = "usage: desk start [--name NAME] [--width W] [--height H] [--idle SECONDS], \
     desk find [--name NAME], desk release [--name NAME], desk stop [--name NAME], \
     desk act [--name NAME] [--longest PIXELS] [--pixels PIXELS] [--look MILLISECONDS]";

/// The desktop that is meant, if none is named.
pub(super) const MAIN: &str = "main";

/// The screen, if nothing else is said: the largest that is shown as it is.
const SCREEN: Size = Size { width: 1280, height: 800 };

/// Screens smaller or larger than this are of no use to anybody.
const SIDES: std::ops::RangeInclusive<u64> = 64..=8192;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Start(StartWish),
    Find { name: String },
    Release { name: String },
    Stop { name: String },
    Act(ActWish),
}

/// What desktop is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartWish {
    pub(super) name: String,
    pub(super) size: Size,
    /// After how long it ends when nobody uses it.
    pub(super) idle: Option<Duration>,
}

/// How an action is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ActWish {
    pub(super) name: String,
    pub(super) limits: PictureLimits,
    /// Whether a picture is wanted after whatever may have changed the screen, and
    /// how long to wait until the screen is calm.
    pub(super) look: Option<Duration>,
}

impl Order {
    pub(super) fn parse(args: &[OsString]) -> Result<Self, DeskError> {
        let usage = || DeskError::Refused(USAGE.to_owned());
        let words: Option<Vec<&str>> = args.iter().map(|word| word.to_str()).collect();
        let words = words.ok_or_else(usage)?;
        let (command, mut rest) = words.split_first().ok_or_else(usage)?;
        let mut start = StartWish { name: MAIN.to_owned(), size: SCREEN, idle: None };
        let mut act = ActWish { name: MAIN.to_owned(), limits: DEFAULT_LIMITS, look: None };
        while let Some((option, after)) = rest.split_first() {
            let (value, after) = after.split_first().ok_or_else(usage)?;
            rest = after;
            let number = |range: std::ops::RangeInclusive<u64>| -> Result<u64, DeskError> {
                value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                    let (from, to) = (range.start(), range.end());
                    DeskError::Refused(format!(
                        "{option} must be between {from} and {to}, not {value}"
                    ))
                })
            };
            match (*command, *option) {
                ("start" | "find" | "release" | "stop" | "act", "--name") => {
                    start.name = checked_name(value)?;
                    act.name.clone_from(&start.name);
                }
                ("start", "--width") => start.size.width = narrow(number(SIDES)?),
                ("start", "--height") => start.size.height = narrow(number(SIDES)?),
                ("start", "--idle") => {
                    start.idle = Some(Duration::from_secs(number(1..=30 * 86_400)?));
                }
                ("act", "--longest") => act.limits.longest = narrow(number(16..=65_535)?),
                ("act", "--pixels") => act.limits.pixels = narrow(number(256..=1 << 30)?),
                ("act", "--look") => {
                    act.look = Some(Duration::from_millis(number(0..=60_000)?));
                }
                _ => return Err(usage()),
            }
        }
        match *command {
            "start" => Ok(Self::Start(start)),
            "find" => Ok(Self::Find { name: start.name }),
            "release" => Ok(Self::Release { name: start.name }),
            "stop" => Ok(Self::Stop { name: start.name }),
            "act" => Ok(Self::Act(act)),
            _ => Err(usage()),
        }
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A name becomes a part of a path, which is short where sockets are.
fn checked_name(name: &str) -> Result<String, DeskError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(letter) {
        let why = format!("{name:?} is no name of a desktop: up to 32 letters, digits, - and _");
        return Err(DeskError::Refused(why));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Order, DeskError> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Order::parse(&words)
    }

    #[test]
    fn what_is_not_said_has_a_value() {
        let start = StartWish { name: "main".to_owned(), size: SCREEN, idle: None };
        assert_eq!(parse("start").unwrap(), Order::Start(start));
        let act = ActWish { name: "main".to_owned(), limits: DEFAULT_LIMITS, look: None };
        assert_eq!(parse("act").unwrap(), Order::Act(act));
    }

    #[test]
    fn what_is_said_counts() {
        let start = StartWish {
            name: "two".to_owned(),
            size: Size { width: 1920, height: 1200 },
            idle: Some(Duration::from_secs(9)),
        };
        let line = "start --name two --width 1920 --height 1200 --idle 9";
        assert_eq!(parse(line).unwrap(), Order::Start(start));
        assert_eq!(parse("find --name two").unwrap(), Order::Find { name: "two".to_owned() });
        assert_eq!(parse("stop --name two").unwrap(), Order::Stop { name: "two".to_owned() });
    }

    #[test]
    fn nonsense_is_refused() {
        for line in
            ["", "go", "start --width", "start --width 3", "start --name ../x", "act --idle 3"]
        {
            assert!(matches!(parse(line), Err(DeskError::Refused(_))), "{line}");
        }
    }
}
