//! The server: what is asked over HTTP is passed on to the fleet, and what the
//! fleet answers is passed back.
//!
//! Everything is closed unless it is opened: an endpoint needs a token unless its
//! row in the table of routes says otherwise, a `Host` that is not known is
//! refused, and so is a change that another site's page asks for. No cookie is
//! ever set or read, but on the names of previews, where it opens nothing else.

mod about;
mod accounts;
mod app;
mod body;
mod channel;
mod connection;
mod credentials;
mod desktop;
mod disposition;
mod events;
mod exec;
mod files;
mod gate;
mod headers;
mod hosts;
mod jobs;
mod listen;
mod meters;
mod moment;
mod notebooks;
mod orders;
mod origin;
mod outputs;
mod page;
mod preview;
mod problem;
mod query;
mod recording;
mod request;
mod routes;
mod screen;
mod sessions;
mod setup;
mod show;
mod simple;
mod terminal;
mod throttle;
mod tls;
mod uploads;
mod users;
mod viewer;
mod websocket;
mod wish;

pub use accounts::{AccountError, add_token, add_user, first_admin};
pub use listen::{Server, bind};
pub use setup::{Limits, ServeError, ServerSetup, TlsFiles, Viewer};
