//! Who may use a server.

use cofferdam_store::{Principal, StoreError, TokenHash, TokenId, TokenRow, UserId, UserRow};
use cofferdam_types::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::clock;
use crate::error::{failed, unless_taken};
use crate::rows::{all, execute, maybe_time, text, time, unsigned, uuid, value};

/// Makes a user.
pub(crate) fn add_user(connection: &Connection, user: &UserRow) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("INSERT INTO users (id, name, admin, created) VALUES (?1, ?2, ?3, ?4)")
        .map_err(failed)?;
    statement
        .execute(params![user.id.0.as_bytes(), user.name, user.admin, time(user.created)?])
        .map(drop)
        .map_err(unless_taken("user"))
}

/// All users, by name.
pub(crate) fn users(connection: &Connection) -> Result<Vec<UserRow>, StoreError> {
    all(connection, "SELECT id, name, admin, created FROM users ORDER BY name", [], read_user)
}

/// Removes a user, and its tokens with it.
pub(crate) fn remove_user(connection: &Connection, user: UserId) -> Result<(), StoreError> {
    let removed = execute(connection, "DELETE FROM users WHERE id = ?1", [user.0.as_bytes()])?;
    if removed == 0 { Err(StoreError::Missing("user")) } else { Ok(()) }
}

/// Makes a token.
pub(crate) fn add_token(
    connection: &Connection,
    token: &TokenRow,
    hash: &TokenHash,
) -> Result<(), StoreError> {
    let user = token.user.0.as_bytes();
    let owner: Option<i64> = value(connection, "SELECT 1 FROM users WHERE id = ?1", [user])?;
    if owner.is_none() {
        return Err(StoreError::Missing("user"));
    }
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO tokens (id, hash, user, label, created, expires) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .map_err(failed)?;
    statement
        .execute(params![
            token.id.0.as_bytes(),
            hash.0,
            user,
            token.label,
            time(token.created)?,
            token.expires.map(time).transpose()?
        ])
        .map(drop)
        .map_err(unless_taken("token"))
}

/// A user's tokens, the oldest first.
pub(crate) fn tokens(connection: &Connection, user: UserId) -> Result<Vec<TokenRow>, StoreError> {
    all(
        connection,
        "SELECT id, label, created, expires FROM tokens WHERE user = ?1 ORDER BY created, id",
        [user.0.as_bytes()],
        |row| {
            Ok(TokenRow {
                id: TokenId(uuid(row, 0)?),
                user,
                label: text(row, 1)?.to_owned(),
                created: Timestamp(unsigned(row, 2)?),
                expires: maybe_time(row, 3)?,
            })
        },
    )
}

/// Removes a token.
pub(crate) fn remove_token(connection: &Connection, token: TokenId) -> Result<(), StoreError> {
    let removed = execute(connection, "DELETE FROM tokens WHERE id = ?1", [token.0.as_bytes()])?;
    if removed == 0 { Err(StoreError::Missing("token")) } else { Ok(()) }
}

/// Who a token belongs to, unless it has expired.
pub(crate) fn principal(
    connection: &Connection,
    hash: &TokenHash,
) -> Result<Option<Principal>, StoreError> {
    let mut found = all(
        connection,
        "SELECT users.id, name, admin, users.created, tokens.id \
         FROM tokens JOIN users ON users.id = tokens.user \
         WHERE hash = ?1 AND (expires IS NULL OR expires > ?2)",
        params![hash.0, clock::now()],
        |row| Ok(Principal { user: read_user(row)?, token: TokenId(uuid(row, 4)?) }),
    )?;
    Ok(found.pop())
}

fn read_user(row: &Row<'_>) -> Result<UserRow, StoreError> {
    Ok(UserRow {
        id: UserId(uuid(row, 0)?),
        name: text(row, 1)?.to_owned(),
        admin: row.get(2).map_err(failed)?,
        created: Timestamp(unsigned(row, 3)?),
    })
}
