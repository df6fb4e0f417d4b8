//! Tables: what the checks of files look for, and the exceptions.
//!
//! Words that tidy looks for are spelled in two halves, so that this file does
//! not match itself.

/// Where `unsafe` is accepted, with the reason. A path that ends in `/` stands
/// for every file beneath it.
pub(super) const UNSAFE: &[(&str, &str)] = &[
    ("crates/guest/src/sys.rs", "system calls the first process needs and no safe crate wraps"),
    ("crates/native-supervisor/src/sys.rs", "system calls that build a sandbox"),
    ("crates/cofferdam/tests/it/terminal.rs", "a test's program gets a controlling terminal"),
    ("crates/guest/tests/it/watches.rs", "a test's guest has a kernel that refuses to watch"),
];

/// Macros of unfinished work.
pub(super) const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

/// Marks of unfinished work.
pub(super) const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// The directories of people's homes, and the one home the product makes.
pub(super) const ROOT_HOME: &str = concat!("/ro", "ot/");
/// See [`ROOT_HOME`].
pub(super) const HOMES: &str = concat!("/ho", "me/");
/// See [`ROOT_HOME`].
pub(super) const AGENT: &str = "agent";

/// Hosts of package registries: builds use the names of packages, and each
/// machine's own configuration says where they come from.
pub(super) const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
    concat!("arti", "factory"),
];

/// Lines a file may have, its tests aside.
pub(super) const LONGEST: usize = 600;
