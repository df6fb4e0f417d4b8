//! Users and their tokens.

use cofferdam_store::{Principal, StoreError, TokenHash, TokenId, TokenRow, UserId, UserRow};
use tokio_postgres::Row;

use crate::database::{Connection, row, rows, write};
use crate::failure::Attempt;
use crate::rows::{number, some_time, text, time};

/// Makes a user.
pub(crate) async fn add_user(
    connection: &Connection,
    user: &UserRow,
    in_doubt: bool,
) -> Attempt<()> {
    let sql = "INSERT INTO users (id, name, admin, created) VALUES ($1, $2, $3, $4) \
               ON CONFLICT DO NOTHING";
    let created = number(user.created.0);
    let name = user.name.as_bytes();
    if write(connection, sql, &[&user.id.0, &name, &user.admin, &created]).await? > 0 {
        return Ok(());
    }
    let same = "SELECT 1 FROM users WHERE id = $1 AND name = $2";
    if in_doubt && row(connection, same, &[&user.id.0, &name]).await?.is_some() {
        return Ok(());
    }
    Err(StoreError::Taken("user").into())
}

/// All users, by name.
pub(crate) async fn users(connection: &Connection) -> Attempt<Vec<UserRow>> {
    let sql = "SELECT id, name, admin, created FROM users ORDER BY name";
    rows(connection, sql, &[]).await?.iter().map(user_row).collect()
}

/// Removes a user and its tokens.
pub(crate) async fn remove_user(
    connection: &Connection,
    user: UserId,
    in_doubt: bool,
) -> Attempt<()> {
    let removed = write(connection, "DELETE FROM users WHERE id = $1", &[&user.0]).await?;
    if removed > 0 || in_doubt { Ok(()) } else { Err(StoreError::Missing("user").into()) }
}

/// Makes a token.
pub(crate) async fn add_token(
    connection: &Connection,
    token: &TokenRow,
    hash: TokenHash,
    in_doubt: bool,
) -> Attempt<()> {
    let sql = "INSERT INTO tokens (id, user_id, hash, label, created, expires) \
               SELECT $1, id, $3, $4, $5, $6 FROM users WHERE id = $2 FOR KEY SHARE \
               ON CONFLICT DO NOTHING";
    let made = write(
        connection,
        sql,
        &[
            &token.id.0,
            &token.user.0,
            &hash.0.as_slice(),
            &token.label.as_bytes(),
            &number(token.created.0),
            &token.expires.map(|at| number(at.0)),
        ],
    )
    .await?;
    if made > 0 {
        return Ok(());
    }
    let same = "SELECT 1 FROM tokens WHERE id = $1 AND hash = $2";
    if in_doubt && row(connection, same, &[&token.id.0, &hash.0.as_slice()]).await?.is_some() {
        return Ok(());
    }
    let there = row(connection, "SELECT 1 FROM users WHERE id = $1", &[&token.user.0]).await?;
    Err(match there {
        Some(_) => StoreError::Taken("token"),
        None => StoreError::Missing("user"),
    }
    .into())
}

/// A user's tokens, the oldest first.
pub(crate) async fn tokens(connection: &Connection, user: UserId) -> Attempt<Vec<TokenRow>> {
    let sql = "SELECT id, user_id, label, created, expires FROM tokens WHERE user_id = $1 \
               ORDER BY created, id";
    let found = rows(connection, sql, &[&user.0]).await?;
    found
        .iter()
        .map(|row| {
            Ok(TokenRow {
                id: TokenId(row.try_get("id")?),
                user: UserId(row.try_get("user_id")?),
                label: text(row, "label")?,
                created: time(row, "created")?,
                expires: some_time(row, "expires")?,
            })
        })
        .collect()
}

/// Removes a token.
pub(crate) async fn remove_token(
    connection: &Connection,
    token: TokenId,
    in_doubt: bool,
) -> Attempt<()> {
    let removed = write(connection, "DELETE FROM tokens WHERE id = $1", &[&token.0]).await?;
    if removed > 0 || in_doubt { Ok(()) } else { Err(StoreError::Missing("token").into()) }
}

/// Who a token belongs to.
pub(crate) async fn principal(
    connection: &Connection,
    hash: TokenHash,
) -> Attempt<Option<Principal>> {
    let sql = "SELECT users.id, name, admin, users.created, tokens.id AS token \
               FROM tokens JOIN users ON users.id = user_id WHERE hash = $1 \
               AND (expires IS NULL OR expires > extract(epoch FROM clock_timestamp()) * 1000)";
    let found = row(connection, sql, &[&hash.0.as_slice()]).await?;
    let principal =
        |row: Row| Ok(Principal { user: user_row(&row)?, token: TokenId(row.try_get("token")?) });
    found.map(principal).transpose()
}

fn user_row(row: &Row) -> Attempt<UserRow> {
    Ok(UserRow {
        id: UserId(row.try_get("id")?),
        name: text(row, "name")?,
        admin: row.try_get("admin")?,
        created: time(row, "created")?,
    })
}
