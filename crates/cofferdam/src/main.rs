//! The product as one binary: the adapters, wired to the command line.

mod aide;
mod indexes;
mod models;
mod outfit;
mod serve;
mod task_image;
mod telemetry;

use std::process::ExitCode;
use std::sync::Arc;

use cofferdam_backends::{Ground, heed_children, open_files};
use cofferdam_cli::{ModelMaker, Product};

use crate::indexes::SqliteIndexes;
use crate::models::Adapters;
use crate::serve::Servers;

fn main() -> ExitCode {
    // Whoever starts us may ignore what becomes of children; we do not. It cannot fail, and
    // whoever waits in vain is told.
    heed_children().ok();
    let ground = Ground::find();
    if let Ok(ground) = &ground
        && std::env::args_os().nth(1).is_some_and(|verb| verb == "exec")
    {
        ground.hurry();
    }
    cofferdam_cli::main(|| {
        // What does without more is done without; a server warns of it.
        open_files::raise().ok();
        let ground = ground?;
        let backends = ground.backends();
        let home = ground.home;
        let models: Arc<dyn ModelMaker> = Arc::new(Adapters);
        let server = Box::new(Servers { models: Arc::clone(&models), home: home.clone() });
        let indexes = Arc::new(SqliteIndexes);
        let aide = aide::find;
        Ok(Product { backends, models, indexes, server, aide, home })
    })
}
