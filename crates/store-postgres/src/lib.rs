//! The store for several servers on one database: PostgreSQL.
//!
//! Everything is in the schema `cofferdam`. What keeps it right:
//! - A lease is a number that only grows, and a time by the clock of the database.
//!   Every append locks the job's row and compares that number.
//! - A commit whose answer was lost is never repeated blindly: the next attempt
//!   looks whether it happened.
//! - Nothing waits for ever; a call that got no answer in time fails as unavailable.

mod address;
mod database;
mod failure;
mod schema;

mod rows;

mod append;
mod files;
mod jobs;
mod leases;
mod orders;
mod submit;
mod users;

mod news;

mod store;

pub use database::Settings;
pub use store::PostgresStore;
