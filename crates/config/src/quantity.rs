//! Values of the user's file that are more than numbers and text, read where the
//! TOML parser still knows their line.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use cofferdam_types::{Network, Usd, parse_bytes, parse_cpus, parse_duration, parse_memory};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::origin::shown;

/// A value written as text or as a number, and how it is understood.
pub(crate) trait Written: Sized {
    const WANTED: &'static str;
    fn parse(text: &str) -> Result<Self, String>;
}

/// A value that is read by its [`Written::parse`].
#[derive(Clone, Debug)]
pub(crate) struct Quantity<T>(pub(crate) T);

/// Bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64);

/// Bytes that at least the sandbox's first process can live with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory(pub(crate) u64);

/// Thousandths of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MilliCpus(pub(crate) u32);

/// Width and height of a screen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen(pub(crate) u32, pub(crate) u32);

/// Sides that a screen can have and be of use.
const SIDES: std::ops::RangeInclusive<u32> = 64..=8192;

impl Written for Screen {
    const WANTED: &'static str = "a screen such as \"1280x800\"";

    fn parse(text: &str) -> Result<Self, String> {
        let side = |text: &str| text.parse().ok().filter(|side| SIDES.contains(side));
        let sides = text.split_once('x').map(|(width, height)| (side(width), side(height)));
        match sides {
            Some((Some(width), Some(height))) => Ok(Self(width, height)),
            _ => {
                let (least, most) = (SIDES.start(), SIDES.end());
                let text = shown(text);
                Err(format!("{text} is not WIDTHxHEIGHT, each between {least} and {most}"))
            }
        }
    }
}

impl Written for Size {
    const WANTED: &'static str = "a size such as \"512M\"";

    fn parse(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self).map_err(|error| error.to_string())
    }
}

impl Written for Memory {
    const WANTED: &'static str = Size::WANTED;

    fn parse(text: &str) -> Result<Self, String> {
        parse_memory(text).map(Self).map_err(|error| error.to_string())
    }
}

impl Written for MilliCpus {
    const WANTED: &'static str = "a number of CPUs";

    fn parse(text: &str) -> Result<Self, String> {
        parse_cpus(text).map(Self).map_err(|error| error.to_string())
    }
}

impl Written for Duration {
    const WANTED: &'static str = "a time such as \"60s\"";

    fn parse(text: &str) -> Result<Self, String> {
        let span = parse_duration(text).map_err(|error| error.to_string())?;
        if span.is_zero() { Err("a time of nothing".to_owned()) } else { Ok(span) }
    }
}

impl Written for Usd {
    const WANTED: &'static str = "an amount of US dollars";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: cofferdam_types::UsdError| error.to_string())
    }
}

impl Written for u64 {
    const WANTED: &'static str = "a whole number";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{} is not a whole number", shown(text)))
    }
}

impl Written for Network {
    const WANTED: &'static str = "none, open or allow:HOST[:PORT],…";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: cofferdam_types::NetworkError| error.to_string())
    }
}

impl<'de, T: Written> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor(PhantomData))
    }
}

struct QuantityVisitor<T>(PhantomData<T>);

impl<T: Written> Visitor<'_> for QuantityVisitor<T> {
    type Value = Quantity<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::WANTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::parse(text).map(Quantity).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // The shortest text that reads back as the same number: what was written.
        self.visit_str(&number.to_string())
    }
}

/// A whole number of at least `LEAST` and at most `MOST`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounded<const LEAST: u32, const MOST: u32>(pub(crate) u32);

impl<const LEAST: u32, const MOST: u32> Bounded<LEAST, MOST> {
    pub(crate) fn new(number: i64) -> Result<Self, String> {
        Self::parse(&number.to_string())
    }
}

impl<const LEAST: u32, const MOST: u32> Written for Bounded<LEAST, MOST> {
    const WANTED: &'static str = u64::WANTED;

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if (LEAST..=MOST).contains(&number) => Ok(Self(number)),
            _ => Err(format!("{} is not a whole number between {LEAST} and {MOST}", shown(text))),
        }
    }
}

/// How many tokens an answer may have: less could hold no tool call, more has no
/// model.
pub(crate) type MaxOutput = Bounded<256, 1_000_000>;

/// How many tokens a model takes in and gives out together: in less there is no room
/// for what it is told and its tools, more has no model.
pub(crate) type ContextWindow = Bounded<8_000, 100_000_000>;
