//! Links the unwinder into the program.
//!
//! As a library of its own it is one more to load, and asks the processor what it is
//! once more, which a virtual one takes its time to say: a sixth of a millisecond at every
//! start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}"));
    if target("OS").as_deref() == Ok("linux") && target("ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-lib=static:-bundle,+verbatim=libgcc_eh.a");
    }
}
