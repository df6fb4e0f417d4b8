//! Where an answer of a program in a sandbox leads: `Location`, as it has to be read
//! outside.

/// The path that this leads to on the program's own origin; none where it stays as it is.
/// The program believes to be at `localhost`, or at the authority that it was told of.
pub(crate) fn within(location: &str, port: u16, authority: &str) -> Option<String> {
    let (named, path) = absolute(location)?;
    let own = is_inside(named, port) || named.eq_ignore_ascii_case(authority);
    own.then(|| match path {
        // Two slashes would name a host.
        path if path.starts_with("//") => format!("/{}", path.trim_start_matches('/')),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    })
}

/// The path inside that an answer to the request of `base` leads to: none where it leads
/// to anybody else, however that is written. What follows it with our token must not be
/// led to us.
pub(crate) fn below(location: &str, base: &str, port: u16) -> Option<String> {
    // Browsers take the one for a slash and drop the others.
    if location.contains('\\') || location.chars().any(char::is_control) {
        return None;
    }
    if let Some((named, path)) = absolute(location) {
        return is_inside(named, port).then(|| plain(path));
    }
    if location.starts_with("//") || has_scheme(location) {
        return None;
    }
    if location.starts_with('/') {
        return Some(plain(location));
    }
    let (base, _) = base.split_once(['?', '#']).unwrap_or((base, ""));
    if location.is_empty() || location.starts_with(['?', '#']) {
        return Some(plain(&format!("{base}{location}")));
    }
    let directory = base.rsplit_once('/').map_or("", |(directory, _)| directory);
    Some(plain(&format!("{directory}/{location}")))
}

/// The authority and the rest of an absolute address.
fn absolute(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    rest.split_at_checked(end)
}

fn is_inside(authority: &str, port: u16) -> bool {
    let Some((name, named)) = crate::hosts::split(authority) else { return false };
    let name = name.to_ascii_lowercase();
    named.unwrap_or(80) == port
        && ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"].contains(&name.as_str())
}

fn has_scheme(location: &str) -> bool {
    let end = location.find(['/', '?', '#']).unwrap_or(location.len());
    location.get(..end).is_some_and(|first| first.contains(':'))
}

/// A path without steps up or aside, which starts with exactly one slash.
fn plain(location: &str) -> String {
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let (path, rest) = location.split_at_checked(end).unwrap_or((location, ""));
    let mut kept: Vec<&str> = Vec::new();
    let last = path.split('/').count().saturating_sub(1);
    for (at, part) in path.split('/').enumerate() {
        let step = part.to_ascii_lowercase().replace("%2e", ".");
        match step.as_str() {
            ".." => drop(kept.pop()),
            "." => {}
            _ => {
                // What stands before the first slash is nothing.
                if at > 0 {
                    kept.push(part);
                }
                continue;
            }
        }
        if at == last {
            kept.push("");
        }
    }
    let path = format!("/{}", kept.join("/"));
    format!("/{}{rest}", path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_its_own_origin_what_names_itself_becomes_a_path() {
        let led = |location| within(location, 3000, "x.localhost:8000");
        for (location, path) in [
            ("http://localhost:3000/a?b#c", "/a?b#c"),
            ("http://127.0.0.1:3000", "/"),
            ("http://[::1]:3000/a", "/a"),
            ("https://x.localhost:8000/a", "/a"),
            ("http://localhost:3000?b", "/?b"),
            ("HTTP://LocalHost:3000//evil.example/", "/evil.example/"),
        ] {
            assert_eq!(led(location).as_deref(), Some(path), "{location}");
        }
        for location in [
            "/a",
            "a",
            "https://other.example/a",
            "http://localhost:3001/",
            "http://localhost/",
            "http://localhost:3000@evil.example/",
            "ftp://localhost:3000/",
            "//localhost:3000/",
        ] {
            assert_eq!(led(location), None, "{location}");
        }
        assert_eq!(within("http://localhost/a", 80, "x").as_deref(), Some("/a"));
    }

    #[test]
    fn on_our_origin_everything_stays_below_the_prefix() {
        let led = |location| below(location, "/a/b?q=1", 3000);
        for (location, path) in [
            ("/x", "/x"),
            ("x", "/a/x"),
            ("./x", "/a/x"),
            ("", "/a/b"),
            ("?z", "/a/b?z"),
            ("http://localhost:3000/x?y", "/x?y"),
            ("../x", "/x"),
            ("../../../../api/v1/jobs", "/api/v1/jobs"),
            ("/../../api/v1/jobs", "/api/v1/jobs"),
            ("/%2e%2E/.%2e/api", "/api"),
            ("/x/..", "/"),
            ("/x/y/.", "/x/y/"),
            ("http://127.0.0.1:3000/../../api", "/api"),
            ("http://localhost:3000", "/"),
            ("x/../../..//y", "/y"),
        ] {
            assert_eq!(led(location).as_deref(), Some(path), "{location}");
        }
        for location in [
            "//evil.example/",
            "http://127.0.0.1:8000/api/v1/jobs",
            "https://other.example",
            "javascript:alert(1)",
            "mailto:x",
            "/\\evil.example",
            "\\\\evil.example",
            "/a\tb",
        ] {
            assert_eq!(led(location), None, "{location}");
        }
    }
}
