//! The host's own list of names and addresses.
//!
//! It is read here because the host's resolver does not find a name in it that is written with a
//! dot at its end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::IpAddr;
use std::path::Path;

/// The addresses of a name in this file, in its order; none where there is no such file.
pub(crate) fn listed(file: &Path, name: &str) -> io::Result<Vec<IpAddr>> {
    match File::open(file) {
        Ok(file) => find(BufReader::new(file), name),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => Ok(Vec::new()),
            _ => Err(error),
        },
    }
}

fn find(lines: impl BufRead, name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for line in lines.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let told = line.split('#').next().unwrap_or_default();
        let mut words = told.split_ascii_whitespace();
        // An address that only means something on one interface is none that a proxy dials.
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else {
            continue;
        };
        if words.any(|word| word.eq_ignore_ascii_case(name)) && !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], name: &str, wanted: &[&str]) {
        let found: Vec<String> =
            find(text, name).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted, "{name}");
    }

    #[test]
    fn a_name_has_the_addresses_of_all_its_lines() {
        let text = b"# comment\n127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\r\n\n\
            192.0.2.1 Build.Test build # old.test\n  192.0.2.2 build\n192.0.2.1 build\n\
            fe80::1%lo0 build\n\xff\xfe build\nnonsense\n192.0.2.3 \xff last";
        check(text, "localhost", &["127.0.0.1", "::1"]);
        check(text, "ip6-localhost", &["::1"]);
        check(text, "build", &["192.0.2.1", "192.0.2.2"]);
        check(text, "build.test", &["192.0.2.1"]);
        check(text, "last", &["192.0.2.3"]);
        for no_name in ["old.test", "test", "buil", "192.0.2.1", "comment", "", "nonsense"] {
            check(text, no_name, &[]);
        }
    }

    #[test]
    fn without_a_file_nothing_is_listed() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(listed(&place.path().join("hosts"), "localhost").unwrap(), [] as [IpAddr; 0]);
        // What is there and cannot be read is not passed over: the DNS may lead elsewhere.
        assert!(listed(place.path(), "localhost").is_err());
    }
}
