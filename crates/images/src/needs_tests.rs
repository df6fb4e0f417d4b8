//! What tasks ask for, and what they must not.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

fn workspace(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(place.path().join(name), text).unwrap();
    }
    place
}

fn refusal(files: &[(&str, &str)]) -> String {
    Needs::of_workspace(workspace(files).path()).unwrap_err().to_string()
}

#[test]
fn a_workspace_says_what_it_needs() {
    let place = workspace(&[
        ("requirements.txt", "# ours\nNumPy==2.4.6  # fast\n\nrequests >=2, \\\n  <3\r\n"),
        ("pyproject.toml", "[project]\nname = 'x'\ndependencies = ['numpy==2.4.6', 'six']\n"),
        ("apt.txt", "# tools\njq\n\ng++ # a compiler\n"),
        (".python-version", "# pyenv\n3.12.4\n3.11\n"),
    ]);
    let needs = Needs::of_workspace(place.path()).unwrap();
    let words = |list: &BTreeSet<String>| list.iter().cloned().collect::<Vec<_>>();
    assert_eq!(words(&needs.pip), ["numpy==2.4.6", "requests<3,>=2", "six"]);
    assert_eq!(words(&needs.apt), ["g++", "jq"]);
    assert_eq!(needs.python.as_deref(), Some("3.12"));
    let options = Needs::new(Some("3.11"), &["jq".to_owned()], &["Six".to_owned()]).unwrap();
    let both = needs.and(options);
    assert_eq!((both.python.as_deref(), both.pip.len(), both.apt.len()), (Some("3.11"), 3, 2));
    assert!(Needs::of_workspace(workspace(&[]).path()).unwrap().is_empty());
    assert!(
        Needs::of_workspace(workspace(&[("pyproject.toml", "[tool.x]\ny = 1")]).path())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_same_needs_are_the_same_image() {
    let one = workspace(&[("requirements.txt", "six\nnumpy==1\n")]);
    let other = workspace(&[("requirements.txt", "NumPy == 1 # x\nSIX\nsix\n")]);
    let [one, other] = [&one, &other].map(|place| Needs::of_workspace(place.path()).unwrap());
    let key = |needs: &Needs| needs.definition().unwrap().key("r").unwrap();
    assert_eq!((&one, key(&one)), (&other, key(&other)));
    assert_eq!(one.definition().unwrap().name, other.definition().unwrap().name);
    let third = one.clone().and(Needs::new(None, &["jq".to_owned()], &[]).unwrap());
    assert_ne!(key(&one), key(&third));
    assert_ne!(one.definition().unwrap().name, third.definition().unwrap().name);
}

#[test]
fn a_definition_has_the_needs_and_the_workspace_on_pythons_path() {
    let needs = Needs::new(Some("3.12"), &["jq".to_owned()], &["six".to_owned()]).unwrap();
    let lean = needs.definition().unwrap();
    assert!(lean.name.starts_with("job-") && lean.apt.contains(&"jq".to_owned()));
    assert_eq!(lean.env.get("PYTHONPATH").map(String::as_str), Some("/workspace"));
    assert_eq!(
        (lean.pip.as_slice(), lean.python.as_deref()),
        (&["six".to_owned()][..], Some("3.12"))
    );
    let agent = Definition::agent().unwrap();
    let rich = needs.extending(agent.clone()).unwrap();
    assert!(agent.apt.iter().all(|package| rich.apt.contains(package)));
    assert_eq!((rich.parts.len(), rich.npm.len()), (agent.parts.len(), agent.npm.len()));
    // Without a word about Python there is Debian's.
    let none = Needs::default().definition().unwrap();
    assert!(none.apt.contains(&"python3".to_owned()));
}

#[test]
fn what_is_no_name_is_refused_with_its_place() {
    for line in ["--index-url=x", "-r other.txt", "-e .", "a @ file:///etc/passwd", "; rm -rf /"] {
        let text = refusal(&[("requirements.txt", &format!("six\n{line}\n"))]);
        assert!(text.starts_with("requirements.txt, line 2: "), "{text}");
    }
    let text = refusal(&[("apt.txt", "\n\n-o APT::Get::AllowUnauthenticated=1")]);
    assert!(text.starts_with("apt.txt, line 3: ") && text.contains("option"), "{text}");
    let text = refusal(&[("pyproject.toml", "[project]\ndependencies = ['a; $(id)']")]);
    assert!(text.starts_with("pyproject.toml: "), "{text}");
    refusal(&[("pyproject.toml", "[project]\ndependencies = 'a'")]);
    refusal(&[("pyproject.toml", "= \u{1b}[2J")]);
    refusal(&[(".python-version", "pypy3.9")]);
    refusal(&[(".python-version", "3.12; id")]);
    assert!(refusal(&[("apt.txt", &"jq\n".repeat(100_000))]).contains("too large"));
    let many: String = (0..2_000).map(|number| format!("a{number}\n")).collect();
    let needs = Needs::of_workspace(workspace(&[("requirements.txt", &many)]).path()).unwrap();
    assert!(needs.definition().is_err());
    for (apt, pip) in [("-y", "six"), ("jq", "--pre"), ("jq;id", "six"), ("jq", "six\n--pre")] {
        let refused = Needs::new(None, &[apt.to_owned()], &[pip.to_owned()]);
        assert!(refused.is_err(), "{apt:?} {pip:?}");
    }
    assert!(Needs::new(Some("3.12 --x"), &[], &[]).is_err());
}

#[test]
fn files_are_read_within_the_workspace_only() {
    let place = workspace(&[("real.txt", "six\n")]);
    let file = place.path().join("requirements.txt");
    symlink("real.txt", &file).unwrap();
    assert_eq!(Needs::of_workspace(place.path()).unwrap().pip.len(), 1);
    for target in ["/etc/passwd", "../../../../etc/passwd", "/proc/self/environ"] {
        fs::remove_file(&file).unwrap();
        symlink(target, &file).unwrap();
        let text = Needs::of_workspace(place.path()).unwrap_err().to_string();
        assert!(text.contains("leads out of the workspace"), "{target}: {text}");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(Needs::of_workspace(place.path()).unwrap_err().to_string().contains("no file"));
    fs::remove_dir(&file).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, &file, fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(Needs::of_workspace(place.path()).unwrap_err().to_string().contains("no file"));
    fs::remove_file(&file).unwrap();
    fs::write(&file, b"\xff\xfe").unwrap();
    assert!(Needs::of_workspace(place.path()).unwrap_err().to_string().contains("no text"));
    // What cannot be opened is told of the task's directory, not of the place for images.
    fs::remove_file(&file).unwrap();
    symlink("requirements.txt", &file).unwrap();
    for place in [place.path(), &place.path().join("missing")] {
        let error = Needs::of_workspace(place).unwrap_err();
        assert!(matches!(error, ImageError::Definition { .. }), "{error:?}");
    }
}

#[test]
fn files_ask_for_the_same_wherever_they_are() {
    let files = [("requirements.txt", "six\n"), ("apt.txt", "jq\n"), ("other.txt", "-y\n")];
    let there = Needs::of_workspace(workspace(&files).path()).unwrap();
    let bytes = |text: &str| text.as_bytes().to_vec();
    let sent = files.map(|(name, text)| (name.to_owned(), bytes(text)));
    assert_eq!(Needs::of_files(&BTreeMap::from(sent)).unwrap(), there);
    let refusal = |bytes: &[u8]| {
        let files = BTreeMap::from([(FILES[0].to_owned(), bytes.to_vec())]);
        Needs::of_files(&files).unwrap_err().to_string()
    };
    assert!(refusal(b"-r x").starts_with("requirements.txt, line 1: "));
    assert!(refusal(b"\xff").contains("no text"));
    let large = usize::try_from(LARGEST).unwrap() + 1;
    assert!(refusal(&b"a".repeat(large)).contains("too large"));
}

#[test]
fn a_task_that_needs_nothing_has_the_agent_image() {
    assert_eq!(Needs::default().on_agent().unwrap(), Definition::agent().unwrap());
    let needs = Needs::new(None, &[], &["six".to_owned()]).unwrap();
    let agent = Definition::agent().unwrap();
    assert_eq!(needs.on_agent().unwrap(), needs.extending(agent).unwrap());
}
