//! The only way out of a sandbox whose network is an allow-list.
//!
//! The sandbox has an empty network namespace. A listener made in there is
//! handed to the host's process, which serves it with a [`Proxy`]: HTTP proxy
//! requests, `CONNECT` and SOCKS5, to the hosts of the list and to nothing else.
//! What is kept true:
//!
//! * The name that is checked is the name that is resolved, and the addresses
//!   that are checked are the addresses that are dialled.
//! * A name never leads to a private place of the host's, whatever its DNS says.
//! * Every connection that is accepted leaves one record, refused ones too.
//! * A connection that was broken off never ends like one that is whole.
//! * Every wait has a deadline, every buffer a size.

mod address;
mod policy;
mod target;

mod failure;
mod hosts;
mod resolve;
mod settings;

mod body;
mod head;
mod request;
mod response;

mod attempt;
mod dial;
mod ending;
mod traffic;
mod tunnel;

mod exchange;
mod http;
mod socks;

mod connection;
mod environment;
mod proxy;

pub use environment::{PORT, environment};
pub use policy::{Denied, Policy};
pub use proxy::{Log, Proxy, ServeError, Summary};
pub use resolve::{Resolve, SystemResolver};
pub use settings::Settings;
pub use target::Host;
