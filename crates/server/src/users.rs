//! Users and their tokens: for admins, but for who one is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use cofferdam_api::{CreateToken, CreateUser, Me, NewToken, TokenList, UserList};
use cofferdam_store::{StoreError, TokenId, UserId};
use http::{HeaderMap, StatusCode};

use crate::accounts::{AccountError, add_token, add_user};
use crate::app::App;
use crate::body;
use crate::moment::now;
use crate::problem::{CONFLICT, MISSING, Refusal, UNFIT};
use crate::request::{Caller, Id, json, nothing};
use crate::show;
use crate::wish::time;

/// Characters of a label.
const LONGEST_LABEL: usize = 200;

/// `GET /api/v1/me`.
pub(crate) async fn me(caller: Caller) -> Result<Response, Refusal> {
    let Caller(principal, _) = caller;
    let me = Me { user: show::user(&principal.user), token: principal.token.to_string() };
    json(StatusCode::OK, &me)
}

/// `GET /api/v1/users`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Refusal> {
    caller.admin()?;
    let users = app.store().users().await?;
    json(StatusCode::OK, &UserList { users: users.iter().map(show::user).collect() })
}

/// `POST /api/v1/users`.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    caller.admin()?;
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let CreateUser { name, admin } = body::json(&headers, &bytes)?;
    let user = add_user(app.store(), &name, admin).await?;
    json(StatusCode::CREATED, &show::user(&user))
}

/// `DELETE /api/v1/users/{id}`.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    caller.admin()?;
    let user = user(&app, &id).await?;
    if user == caller.0.user.id {
        let remedy = "let another admin do it";
        return Err(Refusal::new(CONFLICT, "you would lock yourself out", remedy));
    }
    app.store().remove_user(user).await?;
    app.sessions.forget_all();
    Ok(nothing())
}

/// `GET /api/v1/users/{id}/tokens`.
pub(crate) async fn tokens(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    caller.admin()?;
    let tokens = app.store().tokens(user(&app, &id).await?).await?;
    json(StatusCode::OK, &TokenList { tokens: tokens.iter().map(show::token).collect() })
}

/// `POST /api/v1/users/{id}/tokens`.
pub(crate) async fn create_token(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    sent: Body,
) -> Result<Response, Refusal> {
    caller.admin()?;
    let user = user(&app, &id).await?;
    let bytes = body::whole(&headers, sent, &app.limits).await?;
    let asked: CreateToken =
        if bytes.is_empty() { CreateToken::default() } else { body::json(&headers, &bytes)? };
    let label = asked.label;
    if label.chars().count() > LONGEST_LABEL || label.chars().any(char::is_control) {
        let detail = format!("the label is longer than {LONGEST_LABEL} characters, or no text");
        return Err(Refusal::new(UNFIT, detail, "say in a few words what the token is for"));
    }
    let expires = time("expires", &asked.expires)?.map(|span| now().after(span));
    let (row, secret) = add_token(app.store(), user, &label, expires).await?;
    let token = NewToken { token: show::token(&row), secret: secret.reveal().clone() };
    json(StatusCode::CREATED, &token)
}

/// `DELETE /api/v1/tokens/{id}`.
pub(crate) async fn remove_token(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    caller.admin()?;
    let missing = || Refusal::new(MISSING, "there is no such token", "list a user's tokens");
    let token: TokenId = id.parse().map_err(|_| missing())?;
    if token == caller.0.token {
        let remedy = "use another token to remove this one";
        return Err(Refusal::new(CONFLICT, "you would lock yourself out", remedy));
    }
    match app.store().remove_token(token).await {
        Ok(()) => {}
        Err(StoreError::Missing(_)) => return Err(missing()),
        Err(error) => return Err(error.into()),
    }
    app.sessions.forget_all();
    Ok(nothing())
}

/// The user of this id, if there is one.
async fn user(app: &App, id: &str) -> Result<UserId, Refusal> {
    let users = app.store().users().await?;
    let wanted = id.parse::<UserId>().ok();
    let found = users.iter().map(|user| user.id).find(|user| Some(*user) == wanted);
    found.ok_or_else(|| Refusal::new(MISSING, "there is no such user", "GET /api/v1/users"))
}

impl From<AccountError> for Refusal {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Name(_) => Self::new(UNFIT, error.to_string(), "choose another name"),
            AccountError::Randomness(_) => Self::internal(&error),
            AccountError::Store(error) => error.into(),
        }
    }
}
