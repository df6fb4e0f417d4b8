//! The reference holds every key and every variable.

use cofferdam_config::BUILT_IN_MODELS;

use crate::harness::Case;

const REFERENCE: &str = include_str!("../../../../docs/configuration.md");

#[test]
fn the_reference_names_every_provider_with_its_variables() {
    for (name, provider) in &Case::new().check().providers {
        assert!(REFERENCE.contains(&format!("| `{name}` |")), "{name}");
        assert!(REFERENCE.contains(&format!("`{}`", provider.url_variable())), "{name}");
        if provider.is_ready() {
            continue;
        }
        assert!(REFERENCE.contains(&format!("`{}`", provider.key_variable())), "{name}");
    }
    for name in BUILT_IN_MODELS {
        assert!(REFERENCE.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_example_of_the_reference_is_a_configuration() {
    let (_, rest) = REFERENCE.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let settings = Case::new().user(example).check();
    assert!(settings.model.is_some());
    assert!(settings.warnings.is_empty());
}
