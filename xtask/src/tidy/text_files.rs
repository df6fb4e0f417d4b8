//! Text files: no marks of unfinished work, and nothing of the machine a file
//! was written on.

use super::repository::TextFile;
use super::source::has_word;
use super::tables::{AGENT, HOMES, MARKS, REGISTRY_HOSTS, ROOT_HOME};
use super::violation::Violation;

/// Checks one file.
pub(super) fn check(file: &TextFile) -> Vec<Violation> {
    let mut violations = Vec::new();
    if ["rs", "sh", "md"].iter().any(|extension| file.has_extension(extension)) || file.is_script()
    {
        violations.extend(marks(&file.path, &file.text));
    }
    violations.extend(machine_paths(&file.path, &file.text));
    violations.extend(registry_hosts(&file.path, &file.text));
    violations
}

fn marks(path: &str, text: &str) -> Vec<Violation> {
    each_line(text, |number, line| {
        let mark = MARKS.iter().find(|mark| has_word(line, mark))?;
        Some(Violation::new(
            path,
            number,
            format!("{mark} is a mark of unfinished work"),
            "do it, or open an issue and remove the mark",
        ))
    })
}

fn machine_paths(path: &str, text: &str) -> Vec<Violation> {
    each_line(text, |number, line| {
        let home = home_in(line)?;
        Some(Violation::new(
            path,
            number,
            format!("{home} is a home directory of one machine"),
            "take the path from the environment, or make a temporary directory",
        ))
    })
}

/// The first home directory a line names, except the sandbox's own.
fn home_in(line: &str) -> Option<String> {
    if absolute_positions(line, ROOT_HOME).next().is_some() {
        return Some(ROOT_HOME.to_owned());
    }
    absolute_positions(line, HOMES).find_map(|start| {
        let rest = line.get(start + HOMES.len()..)?;
        let (name, _) = rest.split_once('/')?;
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        (is_name && name != AGENT).then(|| format!("{HOMES}{name}/"))
    })
}

/// Where a line holds this path as the beginning of an absolute path: not
/// `/proc/self/root/etc`, nor `{dir}/root/`.
fn absolute_positions<'a>(line: &'a str, path: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(path).map(|(start, _)| start).filter(move |start| {
        let before = line.get(..*start).and_then(|head| head.chars().next_back());
        !before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '~' | '*' | '/')
        })
    })
}

fn registry_hosts(path: &str, text: &str) -> Vec<Violation> {
    each_line(text, |number, line| {
        let lower = line.to_ascii_lowercase();
        let host = REGISTRY_HOSTS.iter().find(|host| lower.contains(**host))?;
        Some(Violation::new(
            path,
            number,
            format!("{host} is a host of a package registry"),
            "name the package; where it comes from is each machine's configuration",
        ))
    })
}

fn each_line(text: &str, check: impl Fn(usize, &str) -> Option<Violation>) -> Vec<Violation> {
    text.lines().enumerate().filter_map(|(index, line)| check(index + 1, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        let found = check(&file);
        found.into_iter().map(|found| format!("{} {}", found.line, found.cause)).collect()
    }

    const FINE: [&str; 0] = [];

    #[test]
    fn marks_are_found_in_code_scripts_and_prose() {
        for mark in MARKS {
            let text = format!("fine\n# {mark}: later\n");
            let expected = [format!("2 {mark} is a mark of unfinished work")];
            for path in ["a.rs", "a.sh", "a.md", "test", ".ci/run"] {
                assert_eq!(causes(path, &text), expected, "{path}");
            }
            assert_eq!(causes("a.toml", &text), FINE);
        }
    }

    #[test]
    fn a_mark_within_a_longer_word_is_none() {
        let mark = MARKS.last().unwrap();
        assert_eq!(causes("a.sh", &format!("mktemp /tmp/a.{mark}{mark}\n")), FINE);
    }

    #[test]
    fn home_directories_are_found_except_the_sandbox_user_s() {
        let root = format!("\"{ROOT_HOME}.cargo\"");
        assert_eq!(
            causes("a.toml", &root),
            [format!("1 {ROOT_HOME} is a home directory of one machine")]
        );
        let anna = format!("see {HOMES}anna/src");
        assert_eq!(
            causes("a.yml", &anna),
            [format!("1 {HOMES}anna/ is a home directory of one machine")]
        );
        for fine in ["agent/x", "$USER/x", "<name>/x", "x"] {
            assert_eq!(causes("a.md", &format!("{HOMES}{fine}")), FINE, "{fine}");
        }
        let second = format!("{HOMES}agent/x and {HOMES}anna/x");
        assert_eq!(causes("a.md", &second).len(), 1);
    }

    #[test]
    fn a_directory_of_such_a_name_elsewhere_is_no_home() {
        for before in ["/proc/self", "{dir}", "target", ".."] {
            assert_eq!(causes("a.rs", &format!("{before}{ROOT_HOME}etc")), FINE, "{before}");
        }
    }

    #[test]
    fn registry_hosts_are_found_in_any_case() {
        for host in REGISTRY_HOSTS {
            let text = format!("https://{}/simple", host.to_ascii_uppercase());
            assert_eq!(
                causes("a.toml", &text),
                [format!("1 {host} is a host of a package registry")]
            );
        }
        assert_eq!(causes("a.md", "published on crates.io"), FINE);
    }
}
