//! Where this machine gets Debian packages from: its sources of apt, for the release that is wanted.
//!
//! Whoever runs a machine has said there which mirrors are to be used and whose signatures count, so
//! an image takes its packages from the same places, and no address is the product's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::ImageError;

/// A file of sources is not longer.
const LONGEST: u64 = 1 << 20;

/// What a release's suites are called besides its code name.
const KINDS: [&str; 3] = ["", "-updates", "-security"];

/// Some suites of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// `Signed-By` and the like, as deb822 calls them.
    options: BTreeMap<String, String>,
}

/// The machine's sources for a release, as a file in the format of deb822.
///
/// # Errors
/// When the machine has none.
pub(crate) fn for_suite(etc: &Path, suite: &str) -> Result<String, ImageError> {
    let files = files(&etc.join("apt"));
    let mut sources = Vec::new();
    for path in &files {
        let small = path.metadata().is_ok_and(|file| file.len() <= LONGEST);
        let Some(text) = small.then(|| fs::read_to_string(path).ok()).flatten() else { continue };
        match path.extension().is_some_and(|extension| extension == "sources") {
            true => sources.extend(stanzas(&text)),
            false => sources.extend(text.lines().filter_map(one_line)),
        }
    }
    let own = fs::read_to_string(etc.join("os-release")).unwrap_or_default();
    let found = choose(&sources, suite, code_name(&own));
    if found.is_empty() {
        let looked = match files.is_empty() {
            true => etc.join("apt").display().to_string(),
            false => {
                files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            }
        };
        return Err(ImageError::Missing {
            what: format!(
                "this machine has no source of packages for Debian's {suite} in {looked}"
            ),
            help: format!(
                "name one in /etc/apt/sources.list.d, or let a container engine build the image: \
                 --with docker (wanted: the suite {suite})"
            ),
        });
    }
    Ok(found.iter().map(Source::stanza).collect::<Vec<_>>().join("\n"))
}

/// The files that apt would read, in its order.
fn files(apt: &Path) -> Vec<PathBuf> {
    let entries = apt.join("sources.list.d").read_dir().into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "list" || end == "sources"))
        .collect();
    files.sort();
    let first = apt.join("sources.list");
    if first.is_file() {
        files.insert(0, first);
    }
    files
}

/// The code name of the machine's own release, if it is a Debian.
fn code_name(os_release: &str) -> Option<&str> {
    let value = |name: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"'))
    };
    (value("ID") == Some("debian")).then(|| value("VERSION_CODENAME")).flatten()
}

/// The sources that have a release; else those of the machine's own one, of which a mirror that has
/// one release of Debian has the others too.
fn choose(sources: &[Source], suite: &str, own: Option<&str>) -> Vec<Source> {
    let with = |base: &str| -> Vec<Source> {
        let matching = sources.iter().filter_map(|source| {
            let kinds = source.suites.iter().filter_map(|name| name.strip_prefix(base));
            let suites = kinds.filter(|kind| KINDS.contains(kind));
            let suites: Vec<String> = suites.map(|kind| format!("{suite}{kind}")).collect();
            (!suites.is_empty()).then(|| Source { suites, ..source.clone() })
        });
        matching.collect()
    };
    let found = with(suite);
    match own {
        Some(own) if found.is_empty() => with(own),
        _ => found,
    }
}

impl Source {
    fn stanza(&self) -> String {
        let mut text = "Types: deb\n".to_owned();
        let lists =
            [("URIs", &self.uris), ("Suites", &self.suites), ("Components", &self.components)];
        for (name, words) in lists {
            // Writing to a string does not fail.
            writeln!(text, "{name}: {}", words.join(" ")).ok();
        }
        for (name, value) in &self.options {
            writeln!(text, "{name}: {value}").ok();
        }
        text
    }
}

/// Options that are kept: those about whom to trust and how to fetch.
fn kept(name: &str) -> Option<&'static str> {
    let known = ["Signed-By", "Trusted", "Check-Valid-Until", "By-Hash", "Date-Max-Future"];
    known.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `deb [OPTIONS] URI SUITE COMPONENT…`
fn one_line(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let mut rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
    let mut options = BTreeMap::new();
    if let Some(bracket) = rest.strip_prefix('[') {
        let (inside, after) = bracket.split_once(']')?;
        for option in inside.split_whitespace() {
            let (name, value) = option.split_once('=')?;
            if let Some(name) = kept(name) {
                options.insert(name.to_owned(), value.replace(',', " "));
            }
        }
        rest = after.trim_start();
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    Some(Source { uris: vec![uri], suites: vec![suite], components: words.collect(), options })
}

/// Every stanza of a file in the format of deb822 that is enabled and names binary packages.
fn stanzas(text: &str) -> Vec<Source> {
    let mut stanzas = vec![BTreeMap::<String, String>::new()];
    let mut last = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            stanzas.push(BTreeMap::new());
            last = None;
            continue;
        }
        let Some(stanza) = stanzas.last_mut() else { continue };
        if line.starts_with([' ', '\t']) {
            // A key may be written out over many lines; they are kept as they are.
            if let Some(value) = last.as_ref().and_then(|name: &String| stanza.get_mut(name)) {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            let name = name.trim().to_ascii_lowercase();
            stanza.insert(name.clone(), value.trim().to_owned());
            last = Some(name);
        }
    }
    stanzas.iter().filter_map(source).collect()
}

fn source(stanza: &BTreeMap<String, String>) -> Option<Source> {
    let field = |name: &str| stanza.get(name).map(|value| words(value));
    let off = field("enabled").is_some_and(|words| words.iter().any(|word| is_no(word)));
    if off || !field("types")?.iter().any(|kind| kind == "deb") {
        return None;
    }
    let options = stanza.iter().filter_map(|(name, value)| Some((kept(name)?, value.clone())));
    let options = options.map(|(name, value)| (name.to_owned(), value)).collect();
    let components = field("components").unwrap_or_default();
    Some(Source { uris: field("uris")?, suites: field("suites")?, components, options })
}

fn is_no(word: &str) -> bool {
    ["no", "false", "0", "off", "without", "disable"].iter().any(|no| no.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: &str = "# comment\nTypes: deb deb-src\nURIs: m:/debian\nSuites: bookworm \
        bookworm-updates bookworm-backports\nComponents: main contrib\nSigned-By: /k.gpg\n\n\
        Types: deb\nURIs: m:/security\nSuites: bookworm-security\nComponents: main\nSigned-By:\n \
        -----BEGIN\n .\n =abc\n\nTypes: deb-src\nURIs: m:/x\nSuites: bookworm\n\n\
        Enabled: no\nTypes: deb\nURIs: m:/y\nSuites: bookworm\nComponents: main\n";
    const OLD: &str = "deb [signed-by=/a.gpg,/b.gpg arch=amd64] m:/debian bookworm main # x\n\
        deb-src m:/debian bookworm main\n# deb m:/z bookworm main\ndeb m:/other nodistro main\n\
        debian x y\n";

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir_all(etc.path().join("apt/sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(etc.path().join(name), text).unwrap();
        }
        etc
    }

    #[test]
    fn sources_of_either_form_are_those_of_the_release() {
        let etc = machine(&[("apt/sources.list.d/debian.sources", MODERN)]);
        let found = for_suite(etc.path(), "bookworm").unwrap();
        assert_eq!(
            found,
            "Types: deb\nURIs: m:/debian\nSuites: bookworm bookworm-updates\nComponents: main \
             contrib\nSigned-By: /k.gpg\n\nTypes: deb\nURIs: m:/security\nSuites: \
             bookworm-security\nComponents: main\nSigned-By: \n -----BEGIN\n .\n =abc\n"
        );
        // What was made can be read again.
        let etc = machine(&[("apt/sources.list.d/again.sources", found.as_str())]);
        assert_eq!(for_suite(etc.path(), "bookworm").unwrap(), found);
        let etc = machine(&[("apt/sources.list", OLD)]);
        assert_eq!(
            for_suite(etc.path(), "bookworm").unwrap(),
            "Types: deb\nURIs: m:/debian\nSuites: bookworm\nComponents: main\nSigned-By: /a.gpg /b.gpg\n"
        );
    }

    #[test]
    fn another_release_comes_from_the_same_mirror_and_only_of_a_debian() {
        let release = "ID=debian\nVERSION_CODENAME=bookworm\n";
        let etc = machine(&[("apt/sources.list", OLD), ("os-release", release)]);
        let found = for_suite(etc.path(), "trixie").unwrap();
        assert!(found.contains("URIs: m:/debian\nSuites: trixie\n"), "{found}");
        let ubuntu = "ID=ubuntu\nVERSION_CODENAME=bookworm\n";
        let etc = machine(&[("apt/sources.list", OLD), ("os-release", ubuntu)]);
        let error = for_suite(etc.path(), "trixie").unwrap_err();
        assert!(error.to_string().contains("sources.list"), "{error}");
        assert!(error.help().unwrap().contains("trixie"));
        assert!(for_suite(machine(&[]).path(), "bookworm").is_err());
    }
}
