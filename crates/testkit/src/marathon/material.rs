//! What the model of a long job writes, and what it reads: text as jobs have it, the
//! same for the same number.

use std::fmt::Write as _;

const BIRDS: [&str; 12] = [
    "kestrel",
    "plover",
    "curlew",
    "dunlin",
    "gannet",
    "osprey",
    "petrel",
    "siskin",
    "turnstone",
    "wagtail",
    "whimbrel",
    "avocet",
];

const PARTS: [&str; 16] = [
    "ledger", "queue", "session", "shard", "index", "lease", "cursor", "buffer", "schema",
    "router", "parser", "socket", "worker", "cache", "bundle", "signal",
];

const VERBS: [&str; 12] = [
    "merge", "drain", "verify", "rotate", "flush", "split", "replay", "encode", "resolve", "retry",
    "compact", "release",
];

/// A word that names a number among its neighbours.
pub(super) fn bird(number: u32) -> &'static str {
    pick(&BIRDS, number)
}

fn pick(words: &[&'static str], number: u32) -> &'static str {
    words.get(number as usize % words.len().max(1)).copied().unwrap_or_default()
}

/// Words about a step, about so many bytes.
#[must_use]
pub fn prose(step: u32, bytes: usize) -> String {
    let mut text = format!("Step {step}: what I found, and what I make of it.\n");
    let mut number = step.wrapping_mul(101);
    while text.len() < bytes {
        number = number.wrapping_add(7);
        let (part, verb) = (pick(&PARTS, number / 3), pick(&VERBS, number));
        let (other, count) = (pick(&PARTS, number / 7 + 5), number % 907);
        writeln!(
            text,
            "- `{verb}_{part}` is called {count} times from the {other}; when it fails, the {part} \
             stays as it was and the {other} tries again after {} ms.",
            count * 3 + 10
        )
        .ok();
    }
    text
}

/// A source file of a step, about so many bytes.
#[must_use]
pub fn code(step: u32, bytes: usize) -> String {
    let mut text = format!("//! Notes of step {step}, as code.\n\n");
    let mut number = step.wrapping_mul(61);
    while text.len() < bytes {
        number = number.wrapping_add(5);
        let (part, verb) = (pick(&PARTS, number), pick(&VERBS, number / 2));
        writeln!(
            text,
            "fn {verb}_{part}_{number}(input: &[u8]) -> Result<usize, Error> {{\n    let mut taken = \
             {};\n    for byte in input {{\n        taken += usize::from(*byte) % {};\n    }}\n    \
             if taken == 0 {{ return Err(Error::Empty(\"{part}\")); }}\n    Ok(taken)\n}}\n",
            number % 13,
            number % 31 + 2
        )
        .ok();
    }
    text
}

/// A shell script that makes the files to be read, from a number to another: of so many
/// lines, one of which hides something.
pub(super) fn generator(lines: u32) -> String {
    let words = |words: &[&str]| words.join(" ");
    format!(
        r#"set -e
mkdir -p data
awk -v first="$1" -v last="$2" -v lines={lines} 'BEGIN {{
    birds = split("{}", bird, " "); parts = split("{}", part, " "); verbs = split("{}", verb, " ");
    for (file = first; file <= last; file++) {{
        name = sprintf("data/%04d.log", file); state = file * 7919;
        for (line = 1; line <= lines; line++) {{
            state = (state * 1103 + 12345) % 1000003;
            if (line == int(lines / 2)) {{
                printf("%05d WARN vault: the seal of vault %s-%04d is %d\n", line,
                    bird[file % birds + 1], file, 100000 + (file * 7919) % 99991) > name;
                continue;
            }}
            printf("%05d %s %s::%s request=%06x took=%dus %s of %s %d left, node-%02d\n", line,
                state % 9 ? "INFO" : "WARN", part[state % parts + 1], verb[line % verbs + 1],
                state, state % 9973, verb[state % verbs + 1], part[line % parts + 1],
                state % 501, state % 24) > name;
        }}
        close(name);
    }}
}}' </dev/null
"#,
        words(&BIRDS),
        words(&PARTS),
        words(&VERBS)
    )
}
