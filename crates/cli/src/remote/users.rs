//! `cofferdam user` and `cofferdam token`: for admins.

use clap::{Args, Subcommand};
use cofferdam_api::{CreateToken, CreateUser, User};
use cofferdam_client::Client;

use super::access::ServerOptions;
use super::submit::duration_text;
use super::table::{Table, stdout_width};
use super::{Failed, print, print_json, problem};
use crate::streams::{self, Writer};
use crate::{Product, exit};

/// What is to be done with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Make a user
    Add(AddUser),
    /// List all users
    List(Listing),
    /// Remove a user with its tokens
    Remove(RemoveUser),
}

/// What is to be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token and print it, this once
    Add(AddToken),
    /// List a user's tokens, without their secrets
    List(ListTokens),
    /// Remove a token: it works no more
    Remove(RemoveToken),
}

#[derive(Debug, Args)]
pub(crate) struct AddUser {
    /// Its name: letters, digits, `-`, `_`, `.` and `@`
    #[arg(value_name = "NAME")]
    name: String,
    /// It may see everybody's jobs and manage users
    #[arg(long)]
    admin: bool,
    /// Print the user as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveUser {
    /// Its name or id
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct AddToken {
    /// Whose it is: a name or id [default: you]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// What it is for, in words
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// After how long it stops working: 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration_text)]
    expires: Option<String>,
    /// Print the token as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ListTokens {
    /// Whose: a name or id [default: you]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveToken {
    /// Its id, as `token list` shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    server: ServerOptions,
}

impl UserVerb {
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Add(arguments) => arguments.json,
            Self::List(arguments) => arguments.json,
            Self::Remove(_) => false,
        }
    }
}

impl TokenVerb {
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Add(arguments) => arguments.json,
            Self::List(arguments) => arguments.listing.json,
            Self::Remove(_) => false,
        }
    }
}

pub(crate) async fn user(
    product: &Product,
    verb: &UserVerb,
    out: &mut Writer,
) -> Result<u8, Failed> {
    match verb {
        UserVerb::Add(arguments) => {
            let client = arguments.server.client(product)?;
            let wanted = CreateUser { name: arguments.name.clone(), admin: arguments.admin };
            let made = client.create_user(&wanted).await.map_err(problem::failed)?;
            if arguments.json {
                print_json(out, &made).await;
            } else {
                print(out, &made.id).await;
                let name = cofferdam_view::tame_line(&made.name);
                streams::tell(&format!("Make a token: cofferdam token add --user {name}"));
            }
        }
        UserVerb::List(arguments) => {
            let client = arguments.server.client(product)?;
            let users = client.users().await.map_err(problem::failed)?.users;
            if arguments.json {
                for user in &users {
                    print_json(out, user).await;
                }
                return Ok(0);
            }
            let mut table = Table::new(["NAME", "ADMIN", "CREATED", "ID"]);
            for User { id, name, admin, created } in users {
                let admin = if admin { "yes" } else { "no" };
                table.row(vec![name, admin.to_owned(), created, id]);
            }
            print(out, &table.text(stdout_width())).await;
        }
        UserVerb::Remove(arguments) => {
            let client = arguments.server.client(product)?;
            let user = find(&client, Some(&arguments.name)).await?;
            client.remove_user(&user).await.map_err(problem::failed)?;
            streams::tell("The user is removed, and its tokens work no more.");
        }
    }
    Ok(0)
}

pub(crate) async fn token(
    product: &Product,
    verb: &TokenVerb,
    out: &mut Writer,
) -> Result<u8, Failed> {
    match verb {
        TokenVerb::Add(arguments) => {
            let client = arguments.server.client(product)?;
            let user = find(&client, arguments.user.as_deref()).await?;
            let (label, expires) = (arguments.label.clone(), arguments.expires.clone());
            let made = client.create_token(&user, &CreateToken { label, expires }).await;
            let made = made.map_err(problem::failed)?;
            if arguments.json {
                print_json(out, &made).await;
            } else {
                print(out, &cofferdam_view::tame_line(&made.secret)).await;
                streams::tell("This token is not shown again.");
            }
        }
        TokenVerb::List(arguments) => {
            let client = arguments.listing.server.client(product)?;
            let user = find(&client, arguments.user.as_deref()).await?;
            let tokens = client.tokens(&user).await.map_err(problem::failed)?.tokens;
            if arguments.listing.json {
                for token in &tokens {
                    print_json(out, token).await;
                }
                return Ok(0);
            }
            let mut table = Table::new(["ID", "CREATED", "EXPIRES", "LABEL"]);
            for token in tokens {
                let expires = token.expires.unwrap_or_else(|| "never".to_owned());
                table.row(vec![token.id, token.created, expires, token.label]);
            }
            print(out, &table.text(stdout_width())).await;
        }
        TokenVerb::Remove(arguments) => {
            let client = arguments.server.client(product)?;
            client.remove_token(&arguments.id).await.map_err(problem::failed)?;
            streams::tell("The token works no more.");
        }
    }
    Ok(0)
}

/// The id of a user by its name or id; without one, of whoever asks.
async fn find(client: &Client, name: Option<&str>) -> Result<String, Failed> {
    let Some(name) = name else {
        return client.me().await.map(|me| me.user.id).map_err(problem::failed);
    };
    let users = client.users().await.map_err(problem::failed)?.users;
    let found = users.into_iter().find(|user| user.name == name || user.id == name);
    found.map(|user| user.id).ok_or_else(|| (problem::no_user(name), exit::USAGE))
}
