//! What this machine lends to an engine's build: files that the steps of a Dockerfile see as
//! secrets.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::dockerfile::{FOR_ALL, FOR_APT, FOR_NPM, FOR_PIP, LENT};
use crate::error::ImageError;
use crate::machine::{Machine, write_private};

/// What engines take as one secret.
const LARGEST: u64 = 500_000;

/// Files of npm's settings for everybody.
const FOR_EVERYBODY: [&str; 3] = ["/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc"];

/// Settings of pip, as variables, that are about where packages come from.
const OF_PIP: [&str; 8] = [
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_RETRIES",
    "PIP_TIMEOUT",
    "PIP_TRUSTED_HOST",
];

/// Settings of npm that are about where packages come from.
const OF_NPM: [&str; 6] = ["registry", "proxy", "https-proxy", "noproxy", "strict-ssl", "ca"];

/// What is lent: names of secrets, and their files.
pub(crate) struct Lent {
    pub(crate) files: Vec<(String, PathBuf)>,
    /// What is not, and why.
    pub(crate) without: Vec<String>,
}

/// Where apt gets packages and how, if the machine knows.
pub(crate) struct Apt {
    pub(crate) settings: String,
    pub(crate) sources: Option<String>,
}

/// Writes what is lent into a directory.
pub(crate) fn lend(
    place: &Path,
    apt: &Apt,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Lent, ImageError> {
    Machine::of(variable, &[]).lend(place)?;
    let trusted = place.join(FOR_ALL);
    let mut settings = apt.settings.clone();
    if trusted.exists() {
        writeln!(settings, "Acquire::https::CAInfo \"{LENT}/{FOR_ALL}\";").ok();
    }
    if let Some(sources) = &apt.sources {
        writeln!(settings, "Dir::Etc::sourcelist \"{LENT}/debian.sources\";").ok();
        writeln!(settings, "Dir::Etc::sourceparts \"-\";").ok();
        write(&place.join("debian.sources"), sources)?;
    }
    write(&place.join("apt.conf"), &settings)?;
    write(&place.join("pip.conf"), &pip(variable))?;
    write(&place.join("npmrc"), &npm(variable))?;
    let mut lent = Lent { files: Vec::new(), without: Vec::new() };
    let names = FOR_APT.iter().chain(&FOR_PIP).chain(&FOR_NPM).chain([&FOR_ALL]);
    for name in names {
        let path = place.join(name);
        let size = path.metadata().map(|file| file.len()).unwrap_or_default();
        if size > LARGEST {
            lent.without.push(format!("{name} has {size} bytes; an engine takes {LARGEST}"));
        } else if size > 0 {
            lent.files.push((name.replace('/', "-"), path));
        }
    }
    Ok(lent)
}

fn write(path: &Path, text: &str) -> Result<(), ImageError> {
    write_private(path, text.as_bytes())
}

/// Variables of pip's as a file of its settings.
fn pip(variable: &dyn Fn(&str) -> Option<OsString>) -> String {
    let mut text = String::new();
    for name in OF_PIP {
        let value = variable(name).and_then(|value| value.into_string().ok());
        let key = name.trim_start_matches("PIP_").to_ascii_lowercase().replace('_', "-");
        if let Some(value) = value.filter(|value| !value.contains(char::is_control)) {
            if text.is_empty() {
                text.push_str("[global]\n");
            }
            writeln!(text, "{key} = {value}").ok();
        }
    }
    text
}

/// All of npm's settings about registries, the stronger last.
fn npm(variable: &dyn Fn(&str) -> Option<OsString>) -> String {
    let path = |name: &str| variable(name).map(PathBuf::from);
    let own = path("NPM_CONFIG_USERCONFIG").or_else(|| path("npm_config_userconfig"));
    let own = own.or_else(|| path("HOME").map(|home| home.join(".npmrc")));
    let mut text = String::new();
    for file in FOR_EVERYBODY.iter().map(PathBuf::from).chain(own) {
        let small = file.metadata().is_ok_and(|file| file.is_file() && file.len() <= LARGEST);
        let lines = small.then(|| fs::read_to_string(&file).ok()).flatten().unwrap_or_default();
        for line in lines.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if is_about_registries(key) {
                writeln!(text, "{key}={}", expanded(value, variable)).ok();
            }
        }
    }
    for key in OF_NPM {
        let name = key.replace('-', "_");
        let value = variable(&format!("npm_config_{name}"))
            .or_else(|| variable(&format!("NPM_CONFIG_{}", name.to_ascii_uppercase())));
        let value = value.and_then(|value| value.into_string().ok());
        if let Some(value) = value.filter(|value| !value.contains(char::is_control)) {
            writeln!(text, "{key}={value}").ok();
        }
    }
    text
}

/// Also the logins of registries, and registries of a scope.
fn is_about_registries(key: &str) -> bool {
    OF_NPM.contains(&key)
        || key.starts_with("//")
        || key.starts_with('@') && key.ends_with(":registry")
        || key.starts_with("fetch-")
}

/// npm replaces `${NAME}` by the variable, which the build does not have.
fn expanded(value: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        text.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            rest = after;
            break;
        };
        let known = variable(name).and_then(|value| value.into_string().ok()).unwrap_or_default();
        text.push_str(&known);
        rest = after;
    }
    text.push_str(rest);
    text.replace(char::is_control, "")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_about_registries_is_lent_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        let text = "registry=r\ncafile=/x\n//r/:_authToken=${TOKEN}\nprefix=/y\n@a:registry = s\n";
        fs::write(home.path().join(".npmrc"), text).unwrap();
        fs::write(home.path().join("own.crt"), "certificates").unwrap();
        let variable = |name: &str| match name {
            "HOME" => Some(home.path().as_os_str().to_owned()),
            "SSL_CERT_FILE" => Some(home.path().join("own.crt").into()),
            "TOKEN" => Some("secret".into()),
            "PIP_INDEX_URL" => Some("i".into()),
            "PIP_TARGET" | "PIP_EXTRA_INDEX_URL" => Some("a\nb".into()),
            "npm_config_https_proxy" => Some("p".into()),
            _ => None,
        };
        let settings = "Acquire::Retries \"3\";\n".to_owned();
        let apt = Apt { settings, sources: Some("Types: deb\n".to_owned()) };
        let lent = lend(place.path(), &apt, &variable).unwrap();
        let of = |wanted: &str| {
            let (_, path) = lent.files.iter().find(|(name, _)| name == wanted).unwrap();
            fs::read_to_string(path).unwrap()
        };
        // What the machine has for everybody may come first.
        assert!(
            of("npmrc")
                .ends_with("registry=r\n//r/:_authToken=secret\n@a:registry=s\nhttps-proxy=p\n")
        );
        assert!(!of("npmrc").contains("/x") && !of("npmrc").contains("/y"));
        assert_eq!(of("pip.conf"), "[global]\nindex-url = i\n");
        assert_eq!(of("trusted.crt"), "certificates");
        assert_eq!(
            of("apt.conf"),
            "Acquire::Retries \"3\";\nAcquire::https::CAInfo \"/run/cofferdam/trusted.crt\";\n\
             Dir::Etc::sourcelist \"/run/cofferdam/debian.sources\";\nDir::Etc::sourceparts \"-\";\n"
        );
        assert!(lent.files.iter().all(|(name, _)| name != "home-.netrc"));
        assert_eq!(lent.without, [""; 0]);
        for (name, path) in &lent.files {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{name}");
        }
    }

    #[test]
    fn what_engines_would_refuse_is_told() {
        let home = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        let certificates = home.path().join("many.crt");
        fs::write(&certificates, vec![b'x'; 600_000]).unwrap();
        let variable = |name: &str| (name == "SSL_CERT_FILE").then(|| certificates.clone().into());
        let apt = Apt { settings: String::new(), sources: None };
        let lent = lend(place.path(), &apt, &variable).unwrap();
        assert!(lent.without[0].contains("600000 bytes"), "{:?}", lent.without);
        assert!(lent.files.iter().all(|(name, _)| name != "trusted.crt"));
    }
}
