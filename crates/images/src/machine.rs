//! How this machine gets packages: what its owner has told apt and pip, handed to programs that
//! install into an image. Nothing of it stays there: it lies in a directory that goes with the end.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::ImageError;

/// Where, seen in the image, what a build needs lies.
pub(crate) const INSIDE: &str = "/tmp/cofferdam";

/// A file of settings is not longer, nor are all certificates together.
const LONGEST: u64 = 16 << 20;

/// Variables that programs which fetch something go by.
pub(crate) const PROXIES: [&str; 10] = [
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Settings of pip that would have it install something else, or elsewhere, or that name places of
/// this machine.
const NOT_FOR_PIP: [&str; 16] = [
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_CONSTRAINT",
    "PIP_DRY_RUN",
    "PIP_FIND_LINKS",
    "PIP_LOG",
    "PIP_NO_BINARY",
    "PIP_NO_DEPS",
    "PIP_PREFIX",
    "PIP_REPORT",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
];

/// Variables that name a file with the certificates to be trusted.
const CERTIFICATES: [&str; 4] =
    ["PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"];

/// Where systems keep those that they trust.
const TRUSTED: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The surroundings of this process, as far as package managers go by them.
pub(crate) struct Machine<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    names: Vec<OsString>,
}

impl<'a> Machine<'a> {
    /// This process's own surroundings.
    pub(crate) fn here() -> Machine<'static> {
        Machine {
            variable: &|name| std::env::var_os(name).filter(|value| !value.is_empty()),
            names: std::env::vars_os().map(|(name, _)| name).collect(),
        }
    }

    /// Surroundings with these variables.
    pub(crate) fn of(
        variable: &'a dyn Fn(&str) -> Option<OsString>,
        names: &[&str],
    ) -> Machine<'a> {
        Machine { variable, names: names.iter().map(OsString::from).collect() }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The environment of a program that makes an image: what it has to know, and nothing else of
    /// ours.
    pub(crate) fn variables(
        &self,
        path: &[PathBuf],
    ) -> io::Result<Vec<(OsString, Option<OsString>)>> {
        let mut variables: Vec<(OsString, Option<OsString>)> = Vec::new();
        for name in &self.names {
            let text = name.to_str().unwrap_or_default();
            let pips = text.starts_with("PIP_") && !NOT_FOR_PIP.contains(&text);
            if !pips && !PROXIES.contains(&text) {
                variables.push((name.clone(), None));
            }
        }
        let certificates = format!("{INSIDE}/trusted.crt");
        let mut set = |name: &str, value: OsString| variables.push((name.into(), Some(value)));
        CERTIFICATES.iter().for_each(|name| set(name, certificates.clone().into()));
        set("PATH", std::env::join_paths(path).map_err(io::Error::other)?);
        set("LC_ALL", "C.UTF-8".into());
        set("HOME", "/".into());
        Ok(variables)
    }

    /// Puts into `work` what pip has to read in the image: settings, logins, certificates.
    pub(crate) fn lend(&self, work: &Path) -> Result<(), ImageError> {
        let home = self.path("HOME");
        let at_home = |below: &str| home.as_ref().map(|home| home.join(below));
        let user = self.path("XDG_CONFIG_HOME").map(|place| place.join("pip/pip.conf"));
        let own = [user, at_home(".config/pip/pip.conf"), at_home(".pip/pip.conf")];
        let certificates = CERTIFICATES.iter().map(|name| self.path(name));
        let trusted = TRUSTED.iter().map(|path| Some(PathBuf::from(path)));
        let named = self.path("PIP_CONFIG_FILE");
        let lent = [
            (vec![named, Some("/etc/pip.conf".into())], "etc/pip/pip.conf"),
            (own.to_vec(), "home/.config/pip/pip.conf"),
            (vec![self.path("NETRC"), at_home(".netrc")], "home/.netrc"),
            (certificates.chain(trusted).collect(), "trusted.crt"),
        ];
        for (sources, name) in lent {
            let path = work.join(name);
            if let Some(above) = path.parent() {
                fs::create_dir_all(above).map_err(ImageError::system("make", above))?;
            }
            let first = sources.into_iter().flatten().find_map(|source| read(&source));
            if let Some(text) = first {
                write_private(&path, &text)?;
            }
        }
        Ok(())
    }
}

/// Writes a file that nobody else reads: there may be a login in it.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> Result<(), ImageError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text)).map_err(ImageError::system("write", path))
}

/// A file of somebody's settings, if it is one and can be read.
fn read(path: &Path) -> Option<Vec<u8>> {
    let about = path.metadata().ok()?;
    (about.is_file() && about.len() <= LONGEST).then(|| fs::read(path).ok()).flatten()
}

/// What of apt's settings is about fetching: proxies, certificates, time-outs.
pub(crate) fn about_fetching(dump: &[String]) -> String {
    let wanted = ["Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::ForceIPv"];
    let lines = dump.iter().filter(|line| wanted.iter().any(|start| line.starts_with(start)));
    // A name without a value says nothing.
    let lines = lines.filter(|line| !line.ends_with(" \"\";"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_get_what_they_fetch_with_and_nothing_else() {
        let variable = |name: &str| Some(OsString::from(format!("value of {name}")));
        let names =
            ["HOME", "SECRET", "https_proxy", "PIP_INDEX_URL", "PIP_TARGET", "PIP_CERT", "PATH"];
        let machine = Machine::of(&variable, &names);
        let variables = machine.variables(&[PathBuf::from("/bin")]).unwrap();
        let last = |name: &str| {
            let of = variables.iter().rev().find(|(other, _)| other == name);
            of.map(|(_, value)| value.clone().map(|value| value.into_string().unwrap()))
        };
        // Not named: as it is.
        assert_eq!((last("https_proxy"), last("PIP_INDEX_URL")), (None, None));
        assert_eq!((last("SECRET"), last("PIP_TARGET")), (Some(None), Some(None)));
        assert_eq!(last("PATH"), Some(Some("/bin".to_owned())));
        assert_eq!(last("PIP_CERT"), Some(Some("/tmp/cofferdam/trusted.crt".to_owned())));
    }

    #[test]
    fn settings_are_lent_where_they_will_be_looked_for() {
        let home = tempfile::tempdir().unwrap();
        let work = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/pip")).unwrap();
        fs::write(home.path().join(".config/pip/pip.conf"), "[global]").unwrap();
        fs::write(home.path().join("own.crt"), "certificates").unwrap();
        let variable = |name: &str| match name {
            "HOME" => Some(home.path().as_os_str().to_owned()),
            "SSL_CERT_FILE" => Some(home.path().join("own.crt").into()),
            _ => None,
        };
        Machine::of(&variable, &[]).lend(work.path()).unwrap();
        let lent = |name: &str| fs::read_to_string(work.path().join(name)).ok();
        assert_eq!(lent("home/.config/pip/pip.conf").as_deref(), Some("[global]"));
        assert_eq!(lent("trusted.crt").as_deref(), Some("certificates"));
        assert_eq!(lent("home/.netrc"), None);
        for name in ["home/.config/pip/pip.conf", "trusted.crt"] {
            let about = work.path().join(name).metadata().unwrap();
            assert_eq!(about.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn of_apts_settings_only_those_about_fetching_count() {
        let dump = [
            "APT::Architecture \"amd64\";",
            "Acquire::http \"\";",
            "Acquire::http::Proxy \"p:1\";",
            "DPkg::Post-Invoke:: \"rm -rf /\";",
        ];
        let dump = dump.map(str::to_owned);
        assert_eq!(about_fetching(&dump), "Acquire::http::Proxy \"p:1\";\n");
    }
}
