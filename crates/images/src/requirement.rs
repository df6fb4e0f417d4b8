//! Names of packages, as people and files of tasks write them. Only what is a name, a version and
//! a condition passes; options, addresses, files and anything a shell would like do not.

/// A requirement of Python's, in one spelling: the same requirement gives the same text.
///
/// It knows what PEP 508 has, but for addresses.
pub(crate) fn requirement(text: &str) -> Result<String, &'static str> {
    if text.starts_with('-') {
        return Err("is an option of pip; only names, versions and conditions are taken");
    }
    let mut rest = Rest(text.trim());
    let name = rest.take(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    if !ends(name.as_bytes().first()) || !ends(name.as_bytes().last()) {
        return Err("has no name of a package");
    }
    // PEP 503: case and separators make no difference.
    let parts = name.split(['.', '_', '-']).filter(|part| !part.is_empty());
    let mut written = parts.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    rest.skip();
    if rest.eat("[") {
        let mut extras = Vec::new();
        loop {
            rest.skip();
            let extra = rest.take(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            if !ends(extra.as_bytes().first()) || !ends(extra.as_bytes().last()) {
                return Err("has no name in its brackets");
            }
            extras.push(extra.to_ascii_lowercase());
            rest.skip();
            if rest.eat("]") {
                break;
            }
            if !rest.eat(",") {
                return Err("has a bracket that does not end");
            }
        }
        extras.sort_unstable();
        extras.dedup();
        written = format!("{written}[{}]", extras.join(","));
        rest.skip();
    }
    if rest.starts("@") {
        return Err("comes from an address; only packages of the registry are taken");
    }
    let brackets = rest.eat("(");
    let versions = versions(&mut rest)?;
    if brackets && !rest.eat(")") {
        return Err("has a bracket that does not end");
    }
    written.push_str(&versions);
    rest.skip();
    if rest.eat(";") {
        written = format!("{written}; {}", condition(&mut rest)?);
    }
    if rest.0.is_empty() { Ok(written) } else { Err("is no package by name and version") }
}

/// `>=1,<2`, in any order.
fn versions(rest: &mut Rest<'_>) -> Result<String, &'static str> {
    const SIGNS: [&str; 8] = ["===", "==", "!=", "<=", ">=", "~=", "<", ">"];
    let mut versions = Vec::new();
    loop {
        rest.skip();
        let Some(sign) = SIGNS.iter().find(|sign| rest.eat(sign)) else {
            // A comma has something behind it.
            return if versions.is_empty() { Ok(String::new()) } else { Err("ends with a comma") };
        };
        rest.skip();
        let version = rest.take(|byte| byte.is_ascii_alphanumeric() || b".*+!_-".contains(&byte));
        if !version.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return Err("has a sign without a version");
        }
        versions.push(format!("{sign}{version}"));
        rest.skip();
        if !rest.eat(",") {
            break;
        }
    }
    versions.sort_unstable();
    Ok(versions.join(","))
}

/// `python_version < "3.12" and sys_platform == "linux"`.
fn condition(rest: &mut Rest<'_>) -> Result<String, &'static str> {
    const NAMES: [&str; 16] = [
        "and",
        "extra",
        "implementation_name",
        "implementation_version",
        "in",
        "not",
        "or",
        "os_name",
        "platform_machine",
        "platform_python_implementation",
        "platform_release",
        "platform_system",
        "platform_version",
        "python_full_version",
        "python_version",
        "sys_platform",
    ];
    const SIGNS: [&str; 10] = ["===", "==", "!=", "<=", ">=", "~=", "<", ">", "(", ")"];
    let mut words = Vec::new();
    loop {
        rest.skip();
        if rest.0.is_empty() {
            break;
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.eat(sign)) {
            words.push((*sign).to_owned());
        } else if rest.starts("'") || rest.starts("\"") {
            words.push(format!("'{}'", text(rest)?));
        } else {
            let name = rest.take(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if !NAMES.contains(&name) {
                return Err("has a condition that is none");
            }
            words.push(name.to_owned());
        }
    }
    if words.is_empty() {
        return Err("has a condition that is none");
    }
    Ok(words.join(" "))
}

/// A text in quotes.
fn text<'a>(rest: &mut Rest<'a>) -> Result<&'a str, &'static str> {
    let quote = if rest.eat("'") { "'" } else { "\"" };
    if quote == "\"" && !rest.eat(quote) {
        return Err("has a text that does not begin");
    }
    let inner = rest.take(|byte| byte.is_ascii_alphanumeric() || b"._-+*, ".contains(&byte));
    if rest.eat(quote) { Ok(inner) } else { Err("has a text that does not end, or an odd one") }
}

/// What is left of a text.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn starts(&self, what: &str) -> bool {
        self.0.starts_with(what)
    }

    fn eat(&mut self, what: &str) -> bool {
        let rest = self.0.strip_prefix(what);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Bytes of ASCII that belong together.
    fn take(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let end = self.0.bytes().position(|byte| !belongs(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at_checked(end).unwrap_or((self.0, ""));
        self.0 = rest;
        taken
    }
}

/// A package of Debian's: `name` or `name=version`.
pub(crate) fn debian_package(text: &str) -> Result<String, &'static str> {
    if text.starts_with('-') {
        return Err("is an option of apt; only names and versions are taken");
    }
    let (name, version) = text.split_once('=').unwrap_or((text, "0"));
    let of_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+.-".contains(&byte);
    let of_version = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-:~".contains(&byte);
    let sound = name.len() > 1
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name.bytes().all(of_name)
        // A trailing sign would remove the package.
        && !name.ends_with('-')
        && version.starts_with(|first: char| first.is_ascii_alphanumeric())
        && version.bytes().all(of_version);
    if sound { Ok(text.to_owned()) } else { Err("is no package of Debian by name and version") }
}

/// A version of Python: `3.12`, or `3.12.4`, of which the last number is Python's own affair.
pub(crate) fn python_version(text: &str) -> Result<String, &'static str> {
    let mut numbers = text.split('.');
    let mut number = || {
        let digits = numbers.next()?;
        let sound = !digits.is_empty() && digits.len() <= 3;
        (sound && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
    };
    let (major, minor, last) = (number(), number(), number());
    match (major, minor, numbers.next()) {
        (Some("3"), Some(minor), None) if last.is_some() || text.matches('.').count() == 1 => {
            let minor: u16 = minor.parse().map_err(|_| "is no version of Python")?;
            Ok(format!("3.{minor}"))
        }
        _ => Err("is no version of Python, such as 3.11"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::Definition;

    #[test]
    fn requirements_have_one_spelling() {
        for (text, written) in [
            ("numpy", "numpy"),
            ("Flask_SQLAlchemy", "flask-sqlalchemy"),
            ("zope.interface == 5.0", "zope-interface==5.0"),
            ("a >= 1 , < 2", "a<2,>=1"),
            ("a<2,>=1", "a<2,>=1"),
            ("a (~=1.4.2)", "a~=1.4.2"),
            ("uvicorn[Standard, b]>=0.1", "uvicorn[b,standard]>=0.1"),
            ("a==1.*", "a==1.*"),
            ("a==1!2.0+local.1", "a==1!2.0+local.1"),
            ("a;python_version<\"3.12\"", "a; python_version < '3.12'"),
            (
                "a>1; (os_name == 'nt' or sys_platform not in \"a, b\")",
                "a>1; ( os_name == 'nt' or sys_platform not in 'a, b' )",
            ),
        ] {
            assert_eq!(requirement(text).as_deref(), Ok(written), "{text}");
            assert_eq!(requirement(written).as_deref(), Ok(written), "again: {written}");
        }
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for text in [
            "",
            "-r other.txt",
            "--index-url=x",
            "-e .",
            ".",
            "./a",
            "/a",
            "../a",
            "a/b",
            "a b",
            "a --hash=sha256:0",
            "a==1 --global-option=x",
            "a @ file:///x",
            "a@git+x",
            "git+ssh://x",
            "a; rm -rf /",
            "a; import os",
            "a; 'x",
            "a; 'x$(id)'",
            "a;",
            "a[",
            "a[]",
            "a[b",
            "a[-b]",
            "a==",
            "a=1",
            "a==1,",
            "a==-1",
            "(a)",
            "a (>=1",
            "a\n-r b",
            "a==1\nb",
            "a#b",
            "$(id)",
            "a`id`",
            "a&b",
            "ä",
            "a==1\u{2028}b",
            "a\\",
            "_a",
            "a-",
        ] {
            let taken = requirement(text);
            assert!(taken.is_err(), "{text:?} is taken as {taken:?}");
        }
    }

    #[test]
    fn packages_of_debian_and_versions_of_python_are_what_they_should_be() {
        for text in ["git", "g++", "libstdc++-12-dev", "git=1:2.39.5-0+deb12u2", "0ad"] {
            assert_eq!(debian_package(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "a",
            "-y",
            "--reinstall",
            "git-",
            "git curl",
            "git;id",
            "git\n",
            "./x.deb",
            "git=",
            "git=-1",
            "git=1 -y",
            "Git",
            "git/stable",
            "git:i386",
            "g*",
            "^task",
            "git,curl",
        ] {
            assert!(debian_package(text).is_err(), "{text:?}");
        }
        for (text, version) in [("3.11", "3.11"), ("3.12.4", "3.12"), ("3.09", "3.9")] {
            assert_eq!(python_version(text).as_deref(), Ok(version), "{text}");
        }
        for text in
            ["", "3", "3.", "3.x", "3.1.", "3.1.2.3", "2.7", "pypy3.9", "3.11\n", "-3.1", "3.99999"]
        {
            assert!(python_version(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_here_passes_everywhere(text in "[a-z0-9=<>!~,;\\[\\]()'\" ._+*@/\\-\\\\$`\n#]{1,24}") {
            if let Ok(written) = requirement(&text) {
                prop_assert!(written.starts_with(|first: char| first.is_ascii_alphanumeric()));
                prop_assert!(!written.contains(['\n', '$', '`', '\\', '/', '#', '@', '"']));
                let again = requirement(&written);
                prop_assert_eq!(again.as_deref(), Ok(written.as_str()));
                let mut definition = Definition::agent().unwrap();
                definition.pip = vec![written];
                prop_assert!(definition.check().is_ok());
            }
        }
    }
}
