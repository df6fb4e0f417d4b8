//! Users and tokens, as the command line and the endpoints make them.

use cofferdam_store::{Store, StoreError, TokenId, TokenRow, UserId, UserRow};
use cofferdam_types::{Redacted, Timestamp};

use crate::credentials;
use crate::moment::now;

/// The name of the first user.
const ADMIN: &str = "admin";

/// Why an account cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is none.
    #[error("{0:?} is no name for a user: letters, digits, `-`, `_`, `.` and `@`, at most 64")]
    Name(String),
    /// The machine gives no randomness.
    #[error("the machine gives no randomness: {0}")]
    Randomness(std::io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes the first user, an admin, and a token for it, if there is no user yet.
/// The token is kept nowhere: show it.
///
/// # Errors
/// When the store fails.
pub async fn first_admin(store: &dyn Store) -> Result<Option<Redacted<String>>, AccountError> {
    if !store.users().await?.is_empty() {
        return Ok(None);
    }
    let user = match add_user(store, ADMIN, true).await {
        Ok(user) => user,
        // Another server on the same database was faster.
        Err(AccountError::Store(StoreError::Taken(_))) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (_, token) = add_token(store, user.id, "made at the first start", None).await?;
    Ok(Some(token))
}

/// Makes a user.
///
/// # Errors
/// When the name is none or is taken, or the store fails.
pub async fn add_user(store: &dyn Store, name: &str, admin: bool) -> Result<UserRow, AccountError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(AccountError::Name(name.chars().take(80).collect()));
    }
    let user = UserRow { id: UserId::generate(), name: name.to_owned(), admin, created: now() };
    store.add_user(user.clone()).await?;
    Ok(user)
}

/// Makes a token for a user, that stops working at `expires`. The token is kept
/// nowhere: show it.
///
/// # Errors
/// When there is no such user, or the store fails.
pub async fn add_token(
    store: &dyn Store,
    user: UserId,
    label: &str,
    expires: Option<Timestamp>,
) -> Result<(TokenRow, Redacted<String>), AccountError> {
    let secret = credentials::generate().map_err(|error| AccountError::Randomness(error.into()))?;
    let label = label.to_owned();
    let row = TokenRow { id: TokenId::generate(), user, label, created: now(), expires };
    store.add_token(row.clone(), credentials::hash(secret.reveal())).await?;
    Ok((row, secret))
}
