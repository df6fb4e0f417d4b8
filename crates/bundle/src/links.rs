//! Which links may be in an archive: those that lead to somewhere in it, whoever
//! follows them and whatever other links they pass.

use std::collections::HashMap;

use crate::component;
use crate::names::LONGEST_PATH;

/// The target of a link to be stored, or why it is not. `depth` is how many
/// directories the link is below the top.
///
/// Going up is allowed only at the beginning, where the directories are known to
/// be real ones: behind another link, `..` would be above that link's target.
pub(crate) fn target(target: &[u8], depth: usize) -> Result<&str, &'static str> {
    let Ok(target) = std::str::from_utf8(target) else {
        return Err("a link to a name that is not UTF-8");
    };
    if target.is_empty() || target.len() > LONGEST_PATH {
        return Err("a link to no possible name");
    }
    if target.starts_with('/') {
        return Err("a link to an absolute path");
    }
    let mut parts = target.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
    let mut up = 0;
    while parts.next_if_eq(&"..").is_some() {
        up += 1;
    }
    if up > depth {
        return Err("a link that leads out of the workspace");
    }
    for part in parts {
        if part == ".." {
            return Err("a link that goes up again on its way");
        }
        if component::safe(part.as_bytes()) != part {
            return Err("a link to a name that is not the same in the archive");
        }
    }
    Ok(target)
}

/// How many links may be passed on the way to something.
const MOST_HOPS: usize = 40;

/// Whether a link leads to no end, by these links. All of them stay inside by
/// themselves.
pub(crate) fn circles(links: &HashMap<&[u8], &[u8]>, path: &[u8]) -> bool {
    let mut place: Vec<Vec<u8>> = parts(path).map(<[u8]>::to_vec).collect();
    for _ in 0..MOST_HOPS {
        // The first link on the way, and what comes after it.
        let Some(end) = (1..=place.len()).find(|end| {
            place.get(..*end).is_some_and(|way| links.contains_key(way.join(&b'/').as_slice()))
        }) else {
            return false;
        };
        let after = place.split_off(end);
        let target = links.get(place.join(&b'/').as_slice()).copied().unwrap_or_default();
        place.pop();
        for part in parts(target) {
            match part {
                b".." => drop(place.pop()),
                part => place.push(part.to_vec()),
            }
        }
        place.extend(after);
        if place.len() > LONGEST_PATH {
            return true;
        }
    }
    true
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// How many directories a path is below the top.
pub(crate) fn depth(path: &[u8]) -> usize {
    parts(path).count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_without_an_end_are_known() {
        let links: HashMap<&[u8], &[u8]> = HashMap::from([
            (&b"self"[..], &b"self"[..]),
            (b"one", b"./two"),
            (b"two", b"one"),
            (b"grows", b"grows/x"),
            (b"a/up", b".."),
            (b"fine", b"dir/x"),
            (b"chain", b"fine"),
            (b"through", b"a/up/fine"),
        ]);
        let found: Vec<&[u8]> =
            [&b"self"[..], b"one", b"two", b"grows", b"a/up", b"fine", b"chain", b"through"]
                .into_iter()
                .filter(|path| circles(&links, path))
                .collect();
        assert_eq!(found, [&b"self"[..], b"one", b"two", b"grows"]);
    }

    #[test]
    fn only_links_that_stay_inside_are_kept() {
        for (link, depth) in
            [("file", 0), ("./a/b", 0), ("..", 1), ("../../a", 2), (".././../b", 2), (".", 0)]
        {
            assert_eq!(target(link.as_bytes(), depth), Ok(link));
        }
        for (link, depth) in [
            ("/etc/passwd", 5),
            ("/workspace/file", 0),
            ("..", 0),
            ("../../x", 1),
            ("./../x", 0),
            ("a/../b", 3),
            ("up/../../etc", 3),
            ("..\\..\\x", 2),
            ("C:\\x", 0),
            (".git/config", 0),
            ("a\nb", 0),
            ("", 0),
        ] {
            assert!(target(link.as_bytes(), depth).is_err(), "{link}");
        }
        assert!(target(b"\xff", 0).is_err());
        assert!(target(&[b'a'; 5000], 0).is_err());
    }
}
