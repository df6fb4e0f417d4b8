//! Whole numbers, however JSON writes them: `224` and `224.0` are the same.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a whole number that may be missing.
pub(crate) fn option<'de, D, N>(from: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<i64>,
{
    let Some(number) = from.deserialize_option(Whole)? else { return Ok(None) };
    N::try_from(number).map(Some).map_err(|_| D::Error::custom(format!("{number} is out of range")))
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Option<i64>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        i64::try_from(number).map(Some).map_err(|_| E::custom(format!("{number} is out of range")))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // Every whole number below this has a `f64` of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && number.abs() <= EXACT {
            Ok(Some(number as i64))
        } else {
            Err(E::custom(format!("{number} is no whole number")))
        }
    }
}
