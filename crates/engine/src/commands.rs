//! Shell commands that surely change nothing, so that several can run side by
//! side. What is not understood for sure counts as a change: the price of a
//! mistake in that direction is a little time.

/// Programs that only read, whatever their arguments.
const READERS: &[&str] = &[
    "basename",
    "cat",
    "cmp",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "file",
    "grep",
    "head",
    "id",
    "ls",
    "md5sum",
    "nl",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sha1sum",
    "sha256sum",
    "sleep",
    "stat",
    "tail",
    "test",
    "tr",
    "true",
    "uname",
    "wc",
    "which",
    "whoami",
];

/// What `git` only reads for.
const GIT_READERS: &[&str] =
    &["blame", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"];

/// Arguments by which a reader writes or runs something after all.
const WRITING_ARGUMENTS: &[(&str, &str)] = &[
    ("rg", "--pre"),
    ("git", "--output"),
    ("git", "--ext-diff"),
    ("date", "-s"),
    ("date", "--s"),
    ("file", "-C"),
    ("file", "--comp"),
];

/// Whether a command surely changes nothing: simple commands of known readers,
/// joined by `|`, `&&`, `||`, `;` or new lines, with nothing to be expanded and
/// no output redirected but to nowhere.
pub(crate) fn only_reads(command: &str) -> bool {
    split(command)
        .is_some_and(|commands| !commands.is_empty() && commands.iter().all(|words| reads(words)))
}

fn reads(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let writes = WRITING_ARGUMENTS.iter().any(|(name, argument)| {
        name == program && arguments.iter().any(|given| given.starts_with(argument))
    });
    if writes {
        return false;
    }
    match program.as_str() {
        "git" => arguments.first().is_some_and(|verb| GIT_READERS.contains(&verb.as_str())),
        "find" => !arguments.iter().any(|argument| {
            ["-exec", "-ok", "-delete", "-fprint", "-fls"]
                .iter()
                .any(|action| argument.starts_with(action))
        }),
        "sort" => !arguments.iter().any(|argument| {
            argument.starts_with("--o") || argument.starts_with("--comp") || bundled(argument, 'o')
        }),
        name => READERS.contains(&name),
    }
}

/// Whether a short option is among those bundled in an argument.
fn bundled(argument: &str, option: char) -> bool {
    argument.starts_with('-') && !argument.starts_with("--") && argument.contains(option)
}

/// The words of each simple command; `None` when there is anything but words.
fn split(command: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        // Being sent nowhere, or where the rest goes, changes nothing.
        let rest: String = characters.clone().take(LONGEST_REDIRECTION).collect();
        if character == '2'
            && word.is_none()
            && let Some(length) = harmless(&rest)
        {
            characters.nth(length - 1);
            continue;
        }
        match character {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        inside => word.push(inside),
                    }
                }
            }
            ' ' | '\t' => end_word(&mut commands, &mut word),
            ';' | '\n' | '|' => {
                end_word(&mut commands, &mut word);
                characters.next_if_eq(&'|');
                commands.push(Vec::new());
            }
            '&' => {
                // One alone sends a command to the background.
                characters.next_if_eq(&'&')?;
                end_word(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            '$' | '`' | '\\' | '<' | '>' | '(' | ')' | '{' | '}' | '#' | '!' => return None,
            // An assignment before a command, or a pattern, is no plain word.
            '=' if word.as_deref().is_some_and(|word| !word.starts_with('-')) => return None,
            other => word.get_or_insert_default().push(other),
        }
    }
    end_word(&mut commands, &mut word);
    commands.retain(|words: &Vec<String>| !words.is_empty());
    Some(commands)
}

/// How long the redirection of errors is that these characters begin with, if it
/// is one that changes nothing.
fn harmless(rest: &str) -> Option<usize> {
    [">/dev/null", ">&1"].into_iter().find_map(|redirection| {
        let after = rest.strip_prefix(redirection)?.chars().next();
        let ends = after.is_none_or(|next| " \t\n;|&".contains(next));
        ends.then(|| redirection.chars().count())
    })
}

/// The longest of those, and what follows.
const LONGEST_REDIRECTION: usize = 11;

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(command), Some(word)) = (commands.last_mut(), word.take()) {
        command.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_known() {
        for command in [
            "sleep 1",
            "ls -la src | head -5",
            "cat 'a b' && grep -n \"x y\" *.rs; wc -l f",
            "git status --short",
            "find . -name '*.py' 2>/dev/null",
            "sort -u names",
            "pwd\nls",
            "ls 2>&1 | grep x 2>/dev/null; cat f",
            "rg --files -g '*.rs' | sort | uniq -c",
        ] {
            let uniq = command.contains("uniq");
            assert_eq!(only_reads(command), !uniq, "{command}");
        }
    }

    #[test]
    fn whatever_may_change_something_does() {
        for command in [
            "",
            "  ",
            "rm -rf x",
            "cat a > b",
            "cat a >> b",
            "echo $(rm x)",
            "echo `rm x`",
            "echo \"$(rm x)\"",
            "ls; rm x",
            "ls & rm x",
            "ls | tee x",
            "git commit -m x",
            "git -c core.pager=x status",
            "git diff --output=x",
            "ls 2>/dev/nullx",
            "ls 2>&1x",
            "date --set=now",
            "file -C -m magic",
            "find . -delete",
            "find . -exec rm {} +",
            "find . -fprintf x y",
            "sort -o x x",
            "sort -uo x x",
            "sort --output=x x",
            "A=1 ls",
            "cd src",
            "export A=1",
            "(ls)",
            "cat <<E\nrm\nE",
            "rg --pre=sh x",
            "uniq a b",
            "date -s now",
            "sleep 1 &",
            "cat 'unclosed",
        ] {
            assert!(!only_reads(command), "{command}");
        }
    }
}
