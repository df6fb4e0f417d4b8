//! Who may use a server.

use cofferdam_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{TokenId, UserId};

/// The hash of a token (SHA-256: a token is 256 random bits, not a password).
/// The token itself is kept nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRow {
    /// Its id.
    pub id: UserId,
    /// Its name, unique.
    pub name: String,
    /// Whether it may see everybody's jobs and manage users.
    pub admin: bool,
    /// When it was made.
    pub created: Timestamp,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// Whose.
    pub user: UserId,
    /// What it is for, in words.
    pub label: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it stops working.
    pub expires: Option<Timestamp>,
}

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user: UserRow,
    /// By which token.
    pub token: TokenId,
}
