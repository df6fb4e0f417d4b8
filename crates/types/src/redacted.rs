//! Secrets that no log, panic or error prints by accident.

use std::fmt;

/// A secret. `Debug` prints its length, there is no `Display` and no way to
/// serialise it; whoever needs it says [`Redacted::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Keeps a secret.
    pub const fn new(secret: T) -> Self {
        Self(secret)
    }

    /// The secret itself, for the one place that needs it.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T: AsRef<[u8]>> fmt::Debug for Redacted<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Redacted({} bytes)", self.0.as_ref().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_length_of_a_secret_is_printed() {
        let key = Redacted::new("sk-secret".to_owned());
        assert_eq!(format!("{:?}", Some(&key)), "Some(Redacted(9 bytes))");
        assert_eq!(key.reveal(), "sk-secret");
    }
}
