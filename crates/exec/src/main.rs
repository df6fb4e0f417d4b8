//! `cofferdam exec` as a program of its own, for whoever starts many.
//!
//! It is the same in a fifth of the size. What a server, model wires and databases bring along has to
//! be mapped, corrected and given back at every start of the whole product, which takes a tenth of the
//! time that `exec` takes. `cargo xtask exec` builds it as a static program, which saves as much again.

use std::process::ExitCode;

use cofferdam_backends::{Ground, heed_children, open_files};

fn main() -> ExitCode {
    // Whoever starts us may ignore what becomes of children; we do not. It cannot fail, and
    // whoever waits in vain is told.
    heed_children().ok();
    let ground = Ground::find();
    if let Ok(ground) = &ground {
        ground.hurry();
    }
    cofferdam_cli::exec(|| {
        // What does without more is done without.
        open_files::raise().ok();
        let ground = ground?;
        Ok((ground.backends(), ground.home))
    })
}
