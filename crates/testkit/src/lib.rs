//! For tests and measurements only: a scripted model server, a real database
//! server, a real browser, and fixtures.
//!
//! [`ScriptedServer`] stands in for every provider. It speaks the three wire
//! formats with plain sockets and an HTTP of its own, so that each [`Fault`] is
//! made byte by byte: nothing between the script and the socket tidies it up.
//!
//! [`EmbeddingServer`] stands in for one that makes vectors of texts, and [`minilm()`]
//! is a real model that does.
//!
//! [`Postgres`] is a real database server, and [`Browser`] a real browser, started for
//! a test and removed after it.
//!
//! [`marathon`] is a model for jobs that are longer than its window.
//!
//! [`needles`] makes logs of jobs with facts hidden in them.
//!
//! [`DockerDaemon`] is a real one, and [`podman_environment`] a place for Podman's containers.
//! [`Deployment`] is what `docker compose` needs where nothing can be pulled.
//!
//! [`OrdinaryUser`] runs tests of root's again.
//!
//! [`Picture`] is what a PNG shows.
//!
//! [`SetUp`] is what `cofferdam setup` installs, and [`AgentImage`] what `cofferdam image build` builds.
//!
//! [`CrashSuite`] kills servers of the product in every state of a job.

mod script;

mod render;

mod performance;

mod http;
mod server;

mod embeddings;
mod minilm;

mod conversation;

mod agent_image;
mod browser;
mod deployment;
mod engines;
mod ordinary_user;
mod picture;
mod postgres;
mod set_up;

mod crash;

pub mod marathon;
pub mod needles;

pub use agent_image::AgentImage;
pub use browser::{Browser, CTRL_ENTER};
pub use conversation::Conversation;
pub use crash::{CrashSuite, Tally, Violation};
pub use deployment::Deployment;
pub use embeddings::{Embedded, EmbeddingServer, Embeddings};
pub use engines::{DockerDaemon, engine, plain_environment, podman_environment};
pub use minilm::minilm;
pub use ordinary_user::OrdinaryUser;
pub use picture::Picture;
pub use postgres::Postgres;
pub use script::{Dialect, Fault, ScriptedAnswer, Turn};
pub use server::{Recorded, ScriptedServer};
pub use set_up::SetUp;
