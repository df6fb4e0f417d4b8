//! Rust files: each says what it is for, stays short, is finished, and holds
//! `unsafe` only where the table expects it.

use super::repository::TextFile;
use super::source::{code_only, has_word, word_positions};
use super::tables::{LONGEST, UNFINISHED};
use super::violation::Violation;

/// Checks one file; `accepted` says where `unsafe` may be.
pub(super) fn check(file: &TextFile, accepted: &[(&str, &str)]) -> Vec<Violation> {
    let code = code_only(&file.text);
    let mut violations = Vec::new();
    violations.extend(opening(&file.path, &file.text));
    violations.extend(length(&file.path, &file.text));
    violations.extend(unfinished(&file.path, &code));
    violations.extend(ignored_tests(&file.path, &code));
    violations.extend(examples(&file.path, &file.text));
    violations.extend(unexpected_unsafe(&file.path, &code, accepted));
    violations
}

fn opening(path: &str, text: &str) -> Option<Violation> {
    let first = text.lines().next().unwrap_or_default();
    let purpose = first.strip_prefix("//!").map(str::trim);
    if purpose.is_some_and(|purpose| !purpose.is_empty()) {
        return None;
    }
    Some(Violation::new(
        path,
        1,
        "the file does not open with its purpose",
        "make the first line `//! …`: what the file is for and what it keeps true",
    ))
}

fn length(path: &str, text: &str) -> Option<Violation> {
    if path.ends_with("_tests.rs") {
        return None;
    }
    let lines = lines_without_tests(text);
    (lines > LONGEST).then(|| {
        Violation::new(
            path,
            LONGEST + 1,
            format!("the file has {lines} lines, its tests aside; the most is {LONGEST}"),
            "look for the second idea in it and give that a file of its own",
        )
    })
}

/// Counts lines, leaving out modules `#[cfg(test)] mod … { … }` at the margin.
fn lines_without_tests(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        count += 1;
        if line != "#[cfg(test)]" {
            continue;
        }
        let mut attributes = 1;
        while lines.next_if(|line| line.starts_with("#[")).is_some() {
            attributes += 1;
            count += 1;
        }
        if lines.next_if(|line| line.starts_with("mod ") && line.ends_with('{')).is_some() {
            count -= attributes;
            while lines.next().is_some_and(|line| line != "}") {}
        }
    }
    count
}

fn unfinished(path: &str, code: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for name in UNFINISHED {
            let called = word_positions(line, name)
                .any(|start| line.get(start + name.len()..).is_some_and(|t| t.starts_with('!')));
            if called {
                violations.push(Violation::new(
                    path,
                    index + 1,
                    format!("`{name}!` is a mark of unfinished work"),
                    "finish it, or leave it out until it can be finished",
                ));
            }
        }
    }
    violations
}

/// Finds `#[ignore]`, with or without a reason, also inside `cfg_attr`.
fn ignored_tests(path: &str, code: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let attribute = line.trim_start().strip_prefix("#[").map(str::trim_start);
        let ignores = attribute.is_some_and(|attribute| {
            let name = attribute.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            match name {
                Some("ignore") => true,
                Some("cfg_attr") => has_word(attribute, "ignore"),
                _ => false,
            }
        });
        if ignores {
            violations.push(Violation::new(
                path,
                index + 1,
                "a test is ignored",
                "repair it or remove it; where a machine lacks something, the test finds that \
                 out and says so",
            ));
        }
    }
    violations
}

/// Finds blocks of code in documentation that read as if they were run. There is no run of
/// those: for a handful of examples it would go through every crate.
fn examples(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let words = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        let Some(kind) = words.and_then(|words| words.trim_start().strip_prefix("```")) else {
            inside &= words.is_some();
            continue;
        };
        inside = !inside;
        let would_run = |kind: &str| {
            ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&kind)
                || kind.starts_with("edition")
        };
        if inside && kind.split(',').all(|kind| would_run(kind.trim())) {
            violations.push(Violation::new(
                path,
                index + 1,
                "an example in documentation that nothing runs",
                "make it a test; what is only to be read is marked `ignore` or `text`",
            ));
        }
    }
    violations
}

/// Finds `unsafe` in a file the table does not expect it in: its first place.
fn unexpected_unsafe(path: &str, code: &str, accepted: &[(&str, &str)]) -> Option<Violation> {
    let listed = accepted.iter().any(|(place, _)| match place.strip_suffix('/') {
        Some(directory) => path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')),
        None => path == *place,
    });
    let index = code.lines().position(|line| has_word(line, "unsafe"))?;
    (!listed).then(|| {
        Violation::new(
            path,
            index + 1,
            "`unsafe` in a file where none is expected",
            "use a safe crate; if there is none, add the file and the reason to UNSAFE in \
             xtask/src/tidy/tables.rs",
        )
    })
}

#[cfg(test)]
#[path = "rust_files_tests.rs"]
mod tests;
