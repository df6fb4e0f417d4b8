//! The product's configuration: layers of texts and variables in, one complete
//! and checked [`Settings`] out.
//!
//! Kept true, whatever the layers say:
//! - A key goes only to an address that is at least as trusted as the key. What
//!   lies in the workspace (`.env`, `.cofferdam/config.toml`) is trusted least.
//! - Nothing in the workspace can widen policy, stop the product, or be used
//!   without being told: it may only fail with a warning.
//! - Nothing switches the sandbox off.
//!
//! [`check`] is pure; [`load`] reads the files and calls it.

mod origin;

mod dotenv;
mod quantity;
mod url;

mod known;
mod project_file;
mod user_file;

mod layers;
mod provider;
mod sayings;

mod choice;

mod error;
mod settings;

mod amounts;
mod check;
mod load;

pub use check::check;
pub use error::ConfigError;
pub use known::{BUILT_IN_MODELS, DEFAULT_ANTHROPIC_MODEL, DEFAULT_OPENAI_MODEL, LocalServer};
pub use layers::{Flags, Layers, SandboxFlags, Text};
pub use load::{Sources, load};
pub use origin::Trust;
pub use provider::Provider;
pub use settings::{ContextWindows, Embedder, EndpointSettings, SandboxSettings, Settings};
pub use url::{BaseUrl, UrlError};
