//! What a definition may say, and what makes a difference to its key.

use super::*;

fn small() -> Definition {
    Definition::parse("name = \"small\"\nsuite = \"bookworm\"\napt = [\"git\", \"curl\"]").unwrap()
}

#[test]
fn the_agents_definition_is_sound_and_says_not_where_packages_come_from() {
    let agent = Definition::agent().unwrap();
    assert_eq!((agent.name.as_str(), agent.parts.len()), ("agent", 2));
    assert!(!AGENT.contains("://"), "{AGENT}");
    // As it is kept beside an image, it can be read again.
    let text = serde_json::to_string(&agent).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), agent);
}

#[test]
fn words_that_are_no_names_are_refused() {
    let refused = |change: &dyn Fn(&mut Definition)| {
        let mut changed = small();
        change(&mut changed);
        changed.check().is_err()
    };
    for name in ["", "A", "a/b", "../x", ".x", "a b", "-x"] {
        assert!(refused(&|image| image.name = name.to_owned()), "{name:?}");
    }
    for word in
        ["", "-y", "git curl", "git;id", "git-", "./x.deb", "git=", "git=1 -y", "git=-1", "Git"]
    {
        assert!(refused(&|image| image.apt = vec![word.to_owned()]), "{word:?}");
    }
    for word in
        ["", "-r x", "--index-url=x", "a @ b://c", "../x", "a\n-r b", "$(id)", "a`id`", "a; x"]
    {
        assert!(refused(&|image| image.pip = vec![word.to_owned()]), "{word:?}");
    }
    for word in ["", "-g", "@x", "@x/", "a@", "a@file:b", "git+a", "a/b", "./a", "a b"] {
        assert!(refused(&|image| image.npm = vec![word.to_owned()]), "{word:?}");
    }
    for version in ["", "3", "3.x", "3.11.2", "-3.1", "3.11\n", "3.09", "2.7"] {
        assert!(refused(&|image| image.python = Some(version.to_owned())), "{version:?}");
    }
    for suite in ["", "-x", "a b", "../x", "Bookworm"] {
        assert!(refused(&|image| image.suite = suite.to_owned()), "{suite:?}");
    }
    for (name, value) in [("", "x"), ("1A", "x"), ("A B", "x"), ("A", "x\ny"), ("A=B", "x")] {
        let entry = || (name.to_owned(), value.to_owned());
        assert!(refused(&|image| image.env.extend([entry()])), "{name:?}");
    }
    assert!(refused(&|image| image.apt = vec!["git".to_owned(); MOST + 1]));
    assert!(Definition::parse("name = \"x\"\nsuite = \"y\"\nrun = \"id\"").is_err());
}

#[test]
fn words_that_are_names_are_taken() {
    let mut image = small();
    image.apt = ["g++", "libstdc++-12-dev", "git=1:2.39.5-0+deb12u2"].map(str::to_owned).to_vec();
    image.pip =
        ["numpy", "numpy==2.4.6", "a[b,c]>=1,<2; python_version < '3.12'", "zope.interface"]
            .map(str::to_owned)
            .to_vec();
    image.npm = ["tsx", "tsx@4.19.2", "@types/node", "@types/node@^22"].map(str::to_owned).to_vec();
    image.python = Some("3.11".to_owned());
    image.check().unwrap();
}

#[test]
fn the_key_is_that_of_the_content() {
    let key = |image: &Definition| image.key("one 1").unwrap();
    let first = key(&small());
    assert_eq!(Key::named(first.as_str()), Some(first.clone()));
    let same = Definition {
        name: "other".to_owned(),
        apt: ["curl", "git", "git"].map(str::to_owned).to_vec(),
        ..small()
    };
    assert_eq!(key(&same), first);
    assert_ne!(small().key("one 2").unwrap(), first);
    let others = [
        Definition { suite: "trixie".to_owned(), ..small() },
        Definition { python: Some("3.11".to_owned()), ..small() },
        Definition { parts: vec![Kit::Python], ..small() },
        Definition { apt: vec!["git".to_owned()], ..small() },
        Definition { pip: vec!["git".to_owned()], ..small() },
        Definition { npm: vec!["git".to_owned()], ..small() },
        Definition { env: BTreeMap::from([("A".to_owned(), "b".to_owned())]), ..small() },
    ];
    let keys: BTreeSet<Key> = others.iter().map(key).collect();
    assert_eq!(keys.len(), others.len());
    assert!(!keys.contains(&first));
}
