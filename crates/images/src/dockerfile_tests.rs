//! What engines are told to do.

use super::*;

fn small() -> Definition {
    Definition::parse("name = \"small\"\nsuite = \"bookworm\"\napt = [\"git\", \"curl\"]").unwrap()
}

fn render(definition: &Definition) -> String {
    dockerfile(definition, &usual_base(definition)).unwrap()
}

#[test]
fn the_text_is_the_same_for_the_same_definition() {
    let same = Definition { apt: vec!["curl".to_owned(), "git".to_owned()], ..small() };
    assert_eq!(render(&small()), render(&same));
    let text = render(&small());
    let expected = "# The image \"small\", as `cofferdam image build` has an engine make it.\n\
        ARG BASE=debian:bookworm-slim\n\
        FROM ${BASE} AS system\n\
        RUN --mount=type=secret,id=apt.conf,target=/run/cofferdam/apt.conf,mode=0444 \\\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("--no-install-recommends \\\n        'curl' \\\n        'git'; \\\n"));
    // The name of an image makes no step anew.
    let named = Definition { name: "other".to_owned(), ..small() };
    assert_eq!(render(&named).replace("other", "small"), text);
}

#[test]
fn what_changes_seldom_comes_first() {
    let mut definition = Definition::agent().unwrap();
    definition.pip = vec!["zzz[a]>=1,<2; python_version < '3.12'".to_owned()];
    definition.npm = vec!["tool@1".to_owned()];
    definition.env.insert("A".to_owned(), "$HOME \"and\" \\more".to_owned());
    let text = render(&definition);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in {text}"));
    assert!(at("'chromium'") < at("npm ci"));
    assert!(at("'chromium'") < at("-m pip install") && at("-m pip install") < at("COPY --from"));
    assert!(at("COPY --from") < at("ENV A="));
    assert!(text.contains("ENV A=\"\\$HOME \\\"and\\\" \\\\more\"\n"), "{text}");
    assert!(text.contains("'zzz[a]>=1,<2; python_version < '\\''3.12'\\'''"), "{text}");
    // No line of it would be taken for something else: every one but the last of a step goes on.
    for line in text.lines() {
        let begins = ["#", "ARG ", "FROM ", "RUN ", "COPY ", "ENV ", "    "];
        assert!(line.is_empty() || begins.iter().any(|begin| line.starts_with(begin)), "{line}");
        assert!(!line.trim_start().starts_with('#') || line.starts_with("# The image"), "{line}");
    }
    assert!(!text.contains("://"), "{text}");
}

#[test]
fn pip_is_given_the_version_that_is_asked_for_and_no_other() {
    let pip = vec!["matplotlib==3.8.4".to_owned()];
    let text = render(&Definition { pip, ..Definition::agent().unwrap() });
    let about = text.lines().filter(|line| line.trim_start().starts_with("'matplotlib="));
    assert_eq!(about.count(), 1, "{text}");
    assert!(text.contains("'matplotlib==3.8.4'") && text.contains("'numpy=="), "{text}");
}

#[test]
fn another_python_is_another_base_and_not_debians_beside_it() {
    let with = |python: &str| Definition {
        python: Some(python.to_owned()),
        pip: vec!["six".to_owned()],
        ..small()
    };
    assert_eq!(usual_base(&with("3.11")), "debian:bookworm-slim");
    assert!(render(&with("3.11")).contains("'python3-pip'"));
    assert_eq!(usual_base(&with("3.12")), "python:3.12-slim-bookworm");
    let text = render(&with("3.12"));
    assert!(!text.contains("'python3") && text.contains("python3 -m pip install"), "{text}");
}

#[test]
fn bases_are_names_and_renderers_differ_by_them() {
    for base in ["debian:bookworm-slim", "registry.local:5000/a/b@sha256:00", "localhost/x"] {
        dockerfile(&small(), base).unwrap();
    }
    for base in ["", "-x", "a b", "a\nRUN id", "$(id)", "a\\", "--from=x", "${X}"] {
        assert!(dockerfile(&small(), base).is_err(), "{base:?}");
    }
    let key = |base: &str| small().key(&renderer(base)).unwrap();
    assert_ne!(key("debian:bookworm-slim"), key("debian:trixie-slim"));
}
