//! Which links may be in an archive: those that lead to somewhere in it, whoever
//! follows them and whatever other links they pass.

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

/// How many directories a path is below the top.
pub(crate) fn depth(path: &[u8]) -> usize {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
