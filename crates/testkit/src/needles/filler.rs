//! Turns of nothing in particular: code, logs, lists, and what is said about them.

use serde_json::{Value, json};

use super::vocabulary::{ENDINGS, Name, Pool, Random};

/// A turn.
pub(super) struct Filler {
    pub(super) said: String,
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) output: String,
}

/// Any turn.
pub(super) fn turn(random: &mut Random) -> Filler {
    let name = Name::any(random);
    let pool = &Pool::around(&name, random);
    let ending = random.pick(ENDINGS);
    let file = name.file(ending);
    let said = said(random, pool, &name, ending);
    let lines = random.up_to(70) + 10;
    let (tool, arguments, output) = match random.up_to(6) {
        0 | 1 => ("read_file", json!({"path": file}), code(random, pool, ending, lines)),
        2 => (
            "bash",
            json!({"command": format!("make test-{}", name.noun)}),
            log(random, pool, lines),
        ),
        3 => ("search_files", json!({"pattern": name.noun}), matches(random, pool, lines / 2)),
        4 => {
            let command = format!("git log --oneline -{lines} {file}");
            ("bash", json!({"command": command}), commits(random, pool, lines))
        }
        _ => {
            let patch = format!(
                "*** Begin Patch\n*** Update File: {file}\n@@\n{}+{}{}*** End Patch",
                context(random, pool, 4),
                code_line(random, pool, ending),
                context(random, pool, 4)
            );
            ("apply_patch", json!({"input": patch}), format!("M {file}\n"))
        }
    };
    Filler { said, tool, arguments, output }
}

fn said(random: &mut Random, pool: &Pool, name: &Name, ending: &str) -> String {
    let other = pool.any(random);
    let (this, that) = (name.in_language(ending), other.in_language(ending));
    match random.up_to(8) {
        0 => format!("Next I look at how `{this}` treats an empty {}.", other.noun),
        1 => format!("The test of `{this}` passes now. `{that}` is next."),
        2 => format!("`{this}` calls `{that}` with the wrong {}, so I change that.", other.thing),
        3 => format!("I decided to leave `{this}` alone until `{that}` is done."),
        4 => format!("Which {} does `{this}` use? I search for it.", name.thing),
        5 => format!("The limit in `{this}` is too low for the {} {}.", other.noun, other.thing),
        6 => format!("Why did the {} of the {} fail? The log will tell.", name.thing, name.noun),
        _ => format!("I run the tests of the {} again, because `{that}` has changed.", name.noun),
    }
}

/// Lines of a program.
fn code(random: &mut Random, pool: &Pool, ending: &str, lines: u64) -> String {
    (0..lines).map(|_| code_line(random, pool, ending)).collect()
}

fn code_line(random: &mut Random, pool: &Pool, ending: &str) -> String {
    let (one, two) = (pool.any(random), pool.any(random));
    let (this, that) = (one.in_language(ending), two.in_language(ending));
    let number = random.up_to(5000);
    match (random.up_to(6), ending) {
        (0, "py") => format!("def {this}({}, {}=None):\n", two.noun, two.thing),
        (0, "ts") => format!("export function {this}({}: {}) {{\n", two.noun, two.pascal()),
        (0, _) => {
            format!("pub fn {this}({}: &{}) -> Result<(), Error> {{\n", two.noun, two.pascal())
        }
        (1, "py") => format!("    if {}.{} is None:\n", one.noun, one.thing),
        (1, _) => format!("    if {}.{}.is_empty() {{\n", one.noun, one.thing),
        (2, _) => format!("    {} = {this}({}, {number})\n", one.thing, two.noun),
        (3, _) => format!("    // The {} of a {} may be missing.\n", one.thing, two.noun),
        (4, _) => format!("    return {that}({}.{})\n", one.noun, two.thing),
        _ => format!("    {}_{} += {number}\n", one.noun, two.thing),
    }
}

/// Lines of a patch that do not change.
pub(super) fn context(random: &mut Random, pool: &Pool, lines: u64) -> String {
    (0..lines).map(|_| format!(" {}", code_line(random, pool, "ts"))).collect()
}

/// Lines of a log.
pub(super) fn log(random: &mut Random, pool: &Pool, lines: u64) -> String {
    (0..lines)
        .map(|_| {
            let name = pool.any(random);
            let number = random.up_to(5000);
            match random.up_to(6) {
                0 => format!("INFO worker-{} {}: {number} rows\n", number % 16, name.snake()),
                1 => format!("test {}::{} ... ok\n", name.noun, name.snake()),
                2 => format!("WARN {} took {number} ms, index {}\n", name.camel(), number % 50),
                3 => format!("   Compiling {}-{} v0.{}.0\n", name.noun, name.thing, number % 40),
                4 => format!("DEBUG {} not found in {}, retrying\n", name.noun, name.thing),
                _ => format!("ERROR {}: expected {}, found none\n", name.file("rs"), name.thing),
            }
        })
        .collect()
}

/// Lines of settings.
pub(super) fn settings(random: &mut Random, pool: &Pool, lines: u64) -> String {
    (0..lines)
        .map(|_| {
            let name = pool.any(random);
            let number = random.up_to(9000);
            match random.up_to(3) {
                0 => format!("{}_LIMIT={number}\n", name.screaming()),
                1 => format!("feature.{}.enabled = true\n", name.kebab()),
                _ => format!("{}.{}.timeout = {number}\n", name.noun, name.thing),
            }
        })
        .collect()
}

/// Lines of a history.
pub(super) fn commits(random: &mut Random, pool: &Pool, lines: u64) -> String {
    (0..lines)
        .map(|_| {
            let (name, hash) = (pool.any(random), random.up_to(1 << 28));
            let other = pool.any(random);
            match random.up_to(4) {
                0 => format!("{hash:07x} {}: fewer writes to the {}\n", name.noun, name.thing),
                1 => format!("{hash:07x} Rename {} to {}\n", name.snake(), other.snake()),
                2 => format!("{hash:07x} Test {} under load\n", name.camel()),
                _ => format!("{hash:07x} {} the {} {}\n", name.verb, name.noun, name.thing),
            }
        })
        .collect()
}

/// Lines of a search.
fn matches(random: &mut Random, pool: &Pool, lines: u64) -> String {
    (0..lines)
        .map(|_| {
            let (name, ending) = (pool.any(random), random.pick(ENDINGS));
            let number = random.up_to(900);
            format!("{}:{number}: {}", name.file(ending), code_line(random, pool, ending))
        })
        .collect()
}
