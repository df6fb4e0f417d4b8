//! Which server is asked, and with which token.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use cofferdam_client::{Address, Client, Patience};
use cofferdam_types::Redacted;
use rustix::fs::{FlockOperation, flock};

use super::{Failed, problem};
use crate::problem::Problem;
use crate::{Product, exit};

/// Where `cofferdam serve` listens unless it is told otherwise.
const USUAL: &str = "http://127.0.0.1:8000";

/// Bytes that a file with a token may have.
const LONGEST_TOKEN: u64 = 4096;

/// The options of every verb that asks a server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerOptions {
    /// The server [default: COFFERDAM_SERVER, else http://127.0.0.1:8000]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A file with the token [default: COFFERDAM_TOKEN; for a server on this machine
    /// also the token that `cofferdam serve` keeps]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Send the token to another machine without TLS: anybody on the way can read it
    #[arg(long)]
    insecure: bool,
}

/// Who has said which server is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The command line.
    Named,
    /// The environment.
    Set,
    /// Nobody.
    Usual,
}

impl ServerOptions {
    /// Who has said which server is meant.
    pub(crate) fn place(&self) -> Place {
        let set = std::env::var_os("COFFERDAM_SERVER").is_some_and(|url| !url.is_empty());
        match (&self.server, set) {
            (Some(_), _) => Place::Named,
            (None, true) => Place::Set,
            (None, false) => Place::Usual,
        }
    }

    /// The client that these options ask for.
    pub(crate) fn client(&self, product: &Product) -> Result<Client, Failed> {
        self.make(&product.home, |name| std::env::var_os(name))
            .map_err(|problem| (problem, exit::USAGE))
    }

    fn make(
        &self,
        home: &Path,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Client, Problem> {
        let set = |name: &str| -> Result<Option<String>, Problem> {
            match variable(name).map(OsString::into_string) {
                None => Ok(None),
                Some(Ok(text)) if text.trim().is_empty() => Ok(None),
                Some(Ok(text)) => Ok(Some(text)),
                Some(Err(_)) => Err(Problem::option(format!("{name} is not text"))),
            }
        };
        let url = match &self.server {
            Some(url) => url.clone(),
            None => set("COFFERDAM_SERVER")?.unwrap_or_else(|| USUAL.to_owned()),
        };
        let address: Address = url
            .parse()
            .map_err(|error| Problem::option(format!("--server or COFFERDAM_SERVER: {error}")))?;
        let token = match (&self.token_file, set("COFFERDAM_TOKEN")?) {
            (Some(path), _) => Some(read(path)?),
            (None, Some(token)) => Some(Redacted::new(token.trim().to_owned())),
            // That one is for the server of this home and for no other: anybody can
            // listen where it was.
            (None, None) if address.is_loopback() => {
                let path = home.join("token");
                let here = path.exists() && serves(home, &address);
                if here { Some(read(&path)?) } else { None }
            }
            (None, None) => return Err(problem::no_token(&address.to_string())),
        };
        let made = if self.insecure {
            Client::insecure(address, token, Patience::default())
        } else {
            Client::new(address, token)
        };
        made.map_err(|error| problem::client(&error))
    }
}

/// Whether the server of this home is alive, and listens there.
fn serves(home: &Path, address: &Address) -> bool {
    let Ok(lock) = File::open(home.join("server.lock")) else { return false };
    // It holds its lock as long as it lives.
    let dead = flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
    let listens = std::fs::read_to_string(home.join("address")).unwrap_or_default();
    let port = |text: &str| text.trim().rsplit(':').next().map(ToOwned::to_owned);
    !dead && port(&listens) == port(&address.to_string())
}

fn read(path: &Path) -> Result<Redacted<String>, Problem> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_TOKEN).read_to_string(&mut text))
        .map_err(|error| problem::token_file(path, &error.to_string()))?;
    match text.trim() {
        "" => Err(problem::token_file(path, "it is empty")),
        token => Ok(Redacted::new(token.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Holder {
        #[command(flatten)]
        server: ServerOptions,
    }

    /// What becomes of options and variables: the client's debug form tells where it
    /// goes, and that there is a token.
    fn made(words: &[&str], variables: &[(&str, &str)], home: &Path) -> Result<String, Problem> {
        let words = std::iter::once(&"test").chain(words);
        let holder = Holder::try_parse_from(words).unwrap();
        let client = holder.server.make(home, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })?;
        let token =
            if format!("{client:?}").contains("authorization") { "with" } else { "without" };
        Ok(format!("{} {token}", client.address()))
    }

    #[test]
    fn the_server_of_this_machine_is_the_usual_one() {
        let home = tempfile::tempdir().unwrap();
        let made = |words: &[&str], variables: &[(&str, &str)]| made(words, variables, home.path());
        assert_eq!(made(&[], &[]).unwrap(), "http://127.0.0.1:8000 without");
        std::fs::write(home.path().join("token"), "t\n").unwrap();
        // Nobody serves here, whoever may listen.
        assert_eq!(made(&[], &[]).unwrap(), "http://127.0.0.1:8000 without");
        let lock = File::create(home.path().join("server.lock")).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        std::fs::write(home.path().join("address"), "http://127.0.0.1:8000\n").unwrap();
        assert_eq!(made(&[], &[]).unwrap(), "http://127.0.0.1:8000 with");
        let there = ("COFFERDAM_SERVER", "https://build.example.com");
        let token = ("COFFERDAM_TOKEN", "t");
        assert_eq!(made(&[], &[there, token]).unwrap(), "https://build.example.com with");
        let words = ["--server", "http://localhost:8000"];
        assert_eq!(made(&words, &[there]).unwrap(), "http://localhost:8000 with");
        let words = ["--server", "http://localhost:9"];
        assert_eq!(made(&words, &[there]).unwrap(), "http://localhost:9 without");
    }

    #[test]
    fn a_token_goes_only_where_it_belongs() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "t\n").unwrap();
        let made = |words: &[&str], variables: &[(&str, &str)]| made(words, variables, home.path());
        // This machine's token is not for others.
        let words = ["--server", "https://build.example.com"];
        assert_eq!(made(&words, &[]).unwrap_err().code, "REM-005");
        // Nor is any to be read on the way.
        let words = ["--server", "http://build.example.com"];
        let token = ("COFFERDAM_TOKEN", "t");
        assert_eq!(made(&words, &[token]).unwrap_err().code, "REM-006");
        let words = ["--server", "http://build.example.com", "--insecure"];
        assert_eq!(made(&words, &[token]).unwrap(), "http://build.example.com with");
    }

    #[test]
    fn a_token_that_is_none_is_told_without_showing_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("other");
        let words = ["--token-file", file.to_str().unwrap()];
        assert_eq!(made(&words, &[], home.path()).unwrap_err().code, "REM-005");
        std::fs::write(&file, " \n").unwrap();
        assert!(made(&words, &[], home.path()).unwrap_err().cause.contains("empty"));
        std::fs::write(&file, "geheim\nsecond line").unwrap();
        let told = made(&words, &[], home.path()).unwrap_err();
        assert_eq!(told.code, "REM-005");
        assert!(!told.to_string().contains("geheim"));
    }

    #[test]
    fn a_server_that_is_none_is_wrong_usage() {
        let home = tempfile::tempdir().unwrap();
        for url in ["", "localhost:8000", "http://me:geheim@host"] {
            let told = made(&["--server", url], &[], home.path()).unwrap_err();
            assert_eq!(told.code, "CLI-003");
            assert!(!told.to_string().contains("geheim"));
        }
    }
}
