//! The layers: which crate may depend on which. The one table of arrows.
//!
//! Names are those of the packages without `cofferdam-`. A name that ends in `*`
//! stands for every crate whose name begins so; an exact name goes before it.

/// Each crate with what it may depend on.
pub(super) const LAYERS: &[(&str, &[&str])] = &[
    // Pure: no I/O, no clock.
    ("types", &[]),
    ("tokens", &[]),
    ("context", &["tokens", "types"]),
    ("engine", &["context", "types"]),
    ("notebook", &["types"]),
    // Inside the sandbox.
    ("guest-protocol", &[]),
    ("guest", &["guest-protocol"]),
    ("aide-protocol", &["guest-protocol"]),
    ("aide", &["aide-protocol", "guest-protocol"]),
    // Seams.
    ("model", &["types"]),
    ("recall", &["types"]),
    ("sandbox", &["guest-protocol", "types"]),
    ("store", &["types"]),
    // Adapters: their own seam, never each other.
    ("embed-*", &["recall"]),
    ("model-*", &["model", "types"]),
    ("recall-*", &["recall", "types"]),
    ("sandbox-*", &["sandbox", "types"]),
    ("store-*", &["store", "types"]),
    // The native back end and the parts only it is made of. The build script of
    // `embedded` compiles guest and supervisor; it links neither.
    ("native-supervisor", &["guest", "guest-protocol", "types"]),
    ("embedded", &[]),
    ("egress", &["types"]),
    (
        "supervised",
        &["egress", "embedded", "guest-protocol", "native-supervisor", "sandbox", "types"],
    ),
    // Two back ends stand on it: the supervisor makes the first process, or an engine does.
    ("sandbox-native", &["egress", "sandbox", "supervised", "types"]),
    ("sandbox-oci", &["embedded", "native-supervisor", "sandbox", "supervised", "types"]),
    // Shell: where pure meets I/O.
    ("tools", &["aide-protocol", "guest-protocol", "notebook", "sandbox", "types"]),
    (
        "runtime",
        &[
            "context",
            "engine",
            "guest-protocol",
            "model",
            "recall",
            "sandbox",
            "store",
            "tools",
            "types",
        ],
    ),
    ("setup", &[]),
    ("images", &["setup"]),
    ("bundle", &["guest-protocol", "sandbox", "types"]),
    ("fleet", &["bundle", "engine", "model", "runtime", "sandbox", "store", "types"]),
    // Where sandboxes are made: the back ends, wired once for all programs.
    ("backends", &["images", "sandbox", "sandbox-native", "sandbox-oci", "types"]),
    // Edge: what people and programs touch.
    ("api", &["types"]),
    ("client", &["api", "types"]),
    ("server", &["api", "fleet", "guest-protocol", "notebook", "sandbox", "store", "types"]),
    ("config", &["model", "types"]),
    ("view", &["model", "types"]),
    (
        "cli",
        &[
            "api",
            "bundle",
            "client",
            "config",
            "engine",
            "guest-protocol",
            "images",
            "model",
            "notebook",
            "runtime",
            "sandbox",
            "setup",
            "tools",
            "types",
            "view",
        ],
    ),
    ("tui", &["client", "types"]),
    // `exec` as a small program.
    ("exec", &["backends", "cli"]),
    // The binary, which alone knows the adapters.
    (
        "cofferdam",
        &[
            "backends",
            "cli",
            "config",
            "egress",
            "embed-*",
            "embedded",
            "engine",
            "fleet",
            "images",
            "model",
            "model-*",
            "recall",
            "recall-*",
            "runtime",
            "sandbox",
            "sandbox-*",
            "server",
            "setup",
            "store",
            "store-*",
            "tui",
            "types",
        ],
    ),
    // Beside the product.
    (
        "testkit",
        &[
            "context",
            "egress",
            "embedded",
            "engine",
            "guest",
            "guest-protocol",
            "images",
            "model",
            "model-*",
            "native-supervisor",
            "sandbox",
            "sandbox-*",
            "setup",
            "store",
            "store-*",
            "types",
        ],
    ),
    ("xtask", &["*"]),
];

/// What any crate may use in its tests, beyond its row: the fixtures, and the back
/// end with its seam, the programs it carries and the index that every machine has, for what can
/// only be tested with real ones.
pub(super) const FOR_TESTS: &[&str] =
    &["testkit", "embedded", "recall-sqlite", "sandbox", "sandbox-native"];

/// What a crate may depend on; `None` if the table does not know the crate.
pub(super) fn allowed(
    layers: &[(&str, &'static [&'static str])],
    name: &str,
) -> Option<&'static [&'static str]> {
    let exact = layers.iter().find(|(row, _)| *row == name);
    let row = exact.or_else(|| layers.iter().find(|(row, _)| matches(row, name)))?;
    Some(row.1)
}

/// Whether a name is the pattern's, or begins as the pattern does before its `*`.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_exact_row_goes_before_a_pattern() {
        assert_eq!(allowed(LAYERS, "sandbox-kube"), Some(["sandbox", "types"].as_slice()));
        assert!(allowed(LAYERS, "sandbox-native").unwrap().contains(&"supervised"));
        assert_eq!(allowed(LAYERS, "utilities"), None);
    }

    #[test]
    fn no_row_names_a_crate_without_a_row() {
        let rows: HashSet<&str> = LAYERS.iter().map(|(row, _)| *row).collect();
        assert_eq!(rows.len(), LAYERS.len(), "each row once");
        for (row, uses) in LAYERS {
            for used in *uses {
                assert!(*used == "*" || rows.contains(used), "{row} uses {used}");
            }
        }
    }

    #[test]
    fn the_arrows_have_no_circle() {
        // Take away, again and again, the rows that use nothing still there.
        let mut left: Vec<_> = LAYERS.iter().filter(|(row, _)| *row != "xtask").collect();
        for _ in 0..LAYERS.len() {
            let names: Vec<&str> = left.iter().map(|(row, _)| *row).collect();
            left.retain(|(_, uses)| {
                uses.iter().any(|used| names.iter().any(|name| matches(used, name)))
            });
        }
        assert!(left.is_empty(), "in a circle: {left:?}");
    }

    #[test]
    fn no_adapter_may_use_another() {
        let adapter = |name: &str| {
            ["embed-", "model-", "sandbox-", "store-"].iter().any(|start| name.starts_with(start))
        };
        for (row, uses) in LAYERS.iter().filter(|(row, _)| adapter(row)) {
            assert!(!uses.iter().any(|used| adapter(used)), "{row}");
        }
    }
}
