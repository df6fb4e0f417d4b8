//! The first sixteen bytes each side sends. Their form never changes, so that
//! peers of any two versions can tell each other apart.

/// Length of a hello on the wire, for ever.
pub const HELLO_LEN: usize = 16;

/// The newest version of the protocol this build speaks.
pub const VERSION: u16 = 1;

/// The oldest version this build still speaks.
const OLDEST: u16 = 1;

const MAGIC: [u8; 8] = *b"cofferdm";

/// The span of versions a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    oldest: u16,
    newest: u16,
}

/// Why two peers cannot talk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The other side speaks something else altogether.
    #[error("the peer is not a Cofferdam guest or host (its first bytes are {0:02x?})")]
    Stranger([u8; 8]),
    /// Both are ours, but of versions with nothing in common.
    #[error(
        "the peer speaks guest protocol {theirs_oldest} to {theirs_newest}, this side {ours_oldest} \
         to {ours_newest}: use host and guest of the same release"
    )]
    Version {
        /// Oldest version of the peer.
        theirs_oldest: u16,
        /// Newest version of the peer.
        theirs_newest: u16,
        /// Oldest version of this side.
        ours_oldest: u16,
        /// Newest version of this side.
        ours_newest: u16,
    },
}

impl Hello {
    /// What this build says.
    #[must_use]
    pub const fn ours() -> Self {
        Self { oldest: OLDEST, newest: VERSION }
    }

    /// A hello of another span of versions, for tests of peers to come.
    #[must_use]
    pub const fn spanning(oldest: u16, newest: u16) -> Self {
        Self { oldest, newest }
    }

    /// The bytes to send.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        let (magic, rest) = bytes.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        let (oldest, rest) = rest.split_at_mut(2);
        oldest.copy_from_slice(&self.oldest.to_le_bytes());
        let (newest, _reserved) = rest.split_at_mut(2);
        newest.copy_from_slice(&self.newest.to_le_bytes());
        bytes
    }

    /// Reads the peer's hello.
    ///
    /// # Errors
    /// When the bytes do not start as ours do.
    pub fn from_bytes(bytes: [u8; HELLO_LEN]) -> Result<Self, HelloError> {
        let [m0, m1, m2, m3, m4, m5, m6, m7, o0, o1, n0, n1, ..] = bytes;
        let magic = [m0, m1, m2, m3, m4, m5, m6, m7];
        if magic != MAGIC {
            return Err(HelloError::Stranger(magic));
        }
        Ok(Self { oldest: u16::from_le_bytes([o0, o1]), newest: u16::from_le_bytes([n0, n1]) })
    }

    /// The version both will speak: the newest that both know.
    ///
    /// # Errors
    /// When the spans do not overlap.
    pub fn agree(self, theirs: Self) -> Result<u16, HelloError> {
        let version = self.newest.min(theirs.newest);
        if version >= self.oldest && version >= theirs.oldest && theirs.oldest <= theirs.newest {
            return Ok(version);
        }
        Err(HelloError::Version {
            theirs_oldest: theirs.oldest,
            theirs_newest: theirs.newest,
            ours_oldest: self.oldest,
            ours_newest: self.newest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_survives_the_wire() {
        assert_eq!(Hello::from_bytes(Hello::ours().to_bytes()), Ok(Hello::ours()));
    }

    #[test]
    fn the_bytes_of_version_one_are_fixed() {
        assert_eq!(&Hello::ours().to_bytes(), b"cofferdm\x01\x00\x01\x00\x00\x00\x00\x00");
    }

    #[test]
    fn peers_speak_the_newest_version_both_know() {
        let old = Hello::spanning(1, 3);
        let new = Hello::spanning(2, 7);
        assert_eq!(old.agree(new), Ok(3));
        assert_eq!(new.agree(old), Ok(3));
    }

    #[test]
    fn peers_with_nothing_in_common_say_what_each_speaks() {
        let error = Hello::spanning(1, 1).agree(Hello::spanning(2, 4)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the peer speaks guest protocol 2 to 4, this side 1 to 1: use host and guest of the \
             same release"
        );
        assert!(Hello::spanning(5, 9).agree(Hello::spanning(2, 4)).is_err());
        assert!(Hello::spanning(1, 9).agree(Hello::spanning(4, 2)).is_err());
    }

    #[test]
    fn a_stranger_is_told_apart_from_another_version() {
        let error = Hello::from_bytes(*b"HTTP/1.1 400 Bad").unwrap_err();
        assert!(matches!(error, HelloError::Stranger(_)), "{error}");
    }
}
