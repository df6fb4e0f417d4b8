//! Users and their tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Its id.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it may see everybody's jobs and manage users.
    pub admin: bool,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created: String,
}

/// All users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    /// By name.
    pub users: Vec<User>,
}

/// A user to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// Its name: letters, digits, `-`, `_`, `.` and `@`, at most 64.
    #[schema(pattern = "^[A-Za-z0-9._@-]{1,64}$")]
    pub name: String,
    /// Whether it may see everybody's jobs and manage users.
    #[serde(default)]
    pub admin: bool,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its id.
    #[schema(format = "uuid")]
    pub id: String,
    /// Whose it is.
    #[schema(format = "uuid")]
    pub user: String,
    /// What it is for, in words.
    pub label: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created: String,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires: Option<String>,
}

/// A user's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The oldest first.
    pub tokens: Vec<Token>,
}

/// A token to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for, in words.
    #[serde(default)]
    #[schema(max_length = 200, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub label: String,
    /// After how long it stops working: `30d`. Never, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 32,
        pattern = r"^([0-9]+\.?[0-9]*|\.[0-9]+)(ms|s|m|h|d)?$",
        example = "30d"
    )]
    pub expires: Option<String>,
}

/// A token that was just made. Its secret is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    pub token: Token,
    /// What to send as `Authorization: Bearer`.
    pub secret: String,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NewToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Who sent the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The user.
    pub user: User,
    /// The id of the token that the request came with.
    #[schema(format = "uuid")]
    pub token: String,
}
