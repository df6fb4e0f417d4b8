//! Money, exactly: whole billionths of a dollar, because a single token may cost
//! less than a millionth.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Tokens;

const NANOS: u64 = 1_000_000_000;

/// An amount of US dollars that is never negative. Sums stop at the largest
/// amount instead of wrapping.
///
/// In JSON it is its decimal form, exact: `"0.0123"`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Usd {
    nanos: u64,
}

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// So many billionths of a dollar.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// The amount in billionths of a dollar.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// This amount so many times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self { nanos: self.nanos.saturating_mul(count) }
    }

    /// What is left after taking `other` away; nothing if that is more.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usd {
    fn sum<Amounts: Iterator<Item = Self>>(amounts: Amounts) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    /// Cents, and two more places where the cents alone would say nothing.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = if self.nanos != 0 && self.nanos < NANOS { 4 } else { 2 };
        let unit = 10_u64.pow(9 - places);
        // Rounded up: what was spent is never shown as nothing.
        let shown = self.nanos.div_ceil(unit);
        let whole = 10_u64.pow(places);
        write!(formatter, "${}.{:0width$}", shown / whole, shown % whole, width = places as usize)
    }
}

/// Prices of one model, for one token each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Read.
    pub input: Usd,
    /// Read from the provider's cache.
    pub cache_read: Usd,
    /// Read and put into the provider's cache.
    pub cache_write: Usd,
    /// Written.
    pub output: Usd,
}

impl Price {
    /// What so many tokens cost.
    #[must_use]
    pub fn of(&self, tokens: Tokens) -> Usd {
        self.input.times(tokens.input)
            + self.cache_read.times(tokens.cache_read)
            + self.cache_write.times(tokens.cache_write)
            + self.output.times(tokens.output)
    }

    /// Nothing at all: models that run here.
    pub const FREE: Self =
        Self { input: Usd::ZERO, cache_read: Usd::ZERO, cache_write: Usd::ZERO, output: Usd::ZERO };
}

/// An amount of money that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an amount of US dollars such as 2 or 0.50")]
pub struct UsdError {
    text: String,
}

impl From<Usd> for String {
    fn from(amount: Usd) -> Self {
        let (whole, fraction) = (amount.nanos / NANOS, amount.nanos % NANOS);
        if fraction == 0 {
            return whole.to_string();
        }
        format!("{whole}.{fraction:09}").trim_end_matches('0').to_owned()
    }
}

impl TryFrom<String> for Usd {
    type Error = UsdError;

    fn try_from(text: String) -> Result<Self, UsdError> {
        text.parse()
    }
}

impl FromStr for Usd {
    type Err = UsdError;

    fn from_str(text: &str) -> Result<Self, UsdError> {
        let error = || UsdError { text: text.to_owned() };
        let digits = text.strip_prefix('$').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits == "." || !numeric(whole) || !numeric(fraction) {
            return Err(error());
        }
        if fraction.len() > 9 {
            return Err(error());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| error())? };
        let fraction: u64 = format!("{fraction:0<9}").parse().map_err(|_| error())?;
        let nanos = whole.checked_mul(NANOS).and_then(|nanos| nanos.checked_add(fraction));
        nanos.map(Self::from_nanos).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly() {
        for (text, nanos) in [
            ("2", 2_000_000_000),
            ("$0.50", 500_000_000),
            (".25", 250_000_000),
            ("0.000000001", 1),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Usd::from_nanos(nanos)), "{text}");
        }
        for text in ["", "$", ".", "-1", "1e3", "1,5", "0.0000000001", "99999999999", "NaN"] {
            assert!(text.parse::<Usd>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_json_form_is_exact() {
        for (nanos, json) in [(0, "\"0\""), (5, "\"0.000000005\""), (1_250_000_000, "\"1.25\"")] {
            let amount = Usd::from_nanos(nanos);
            assert_eq!(serde_json::to_string(&amount).unwrap(), json);
            assert_eq!(serde_json::from_str::<Usd>(json).unwrap(), amount);
        }
    }

    #[test]
    fn what_was_spent_is_never_shown_as_nothing() {
        for (nanos, shown) in [
            (0, "$0.00"),
            (1, "$0.0001"),
            (12_300_000, "$0.0123"),
            (1_500_000_000, "$1.50"),
            (1_999_999_999, "$2.00"),
        ] {
            assert_eq!(Usd::from_nanos(nanos).to_string(), shown);
        }
    }

    #[test]
    fn sums_do_not_wrap() {
        let most = Usd::from_nanos(u64::MAX);
        assert_eq!(most + Usd::from_nanos(1), most);
        assert_eq!(Usd::from_nanos(3).minus(Usd::from_nanos(5)), Usd::ZERO);
    }
}
