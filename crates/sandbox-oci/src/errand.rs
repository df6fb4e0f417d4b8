//! Asking an engine something by its command line, with an end to every wait.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long an engine may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How much of an answer is read.
const LONGEST: u64 = 1 << 20;

/// How much of a complaint is told.
const TOLD: usize = 600;

/// Why an engine did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Its program cannot be run.
    #[error("{0} cannot be run: {1}")]
    NotRun(String, io::Error),
    /// It said no, and why.
    #[error("{0}")]
    Said(String),
    /// It said nothing for too long.
    #[error("{0} did not answer within {1} s")]
    Silent(String, u64),
}

/// Runs a program of an engine's and returns what it printed.
#[expect(clippy::disallowed_methods, reason = "an engine is a program of the host's")]
pub(crate) fn ask<Word: AsRef<OsStr>>(
    program: &Path,
    words: impl IntoIterator<Item = Word>,
    environment: &[(String, String)],
    input: Option<&[u8]>,
) -> Result<String, Refusal> {
    let name = program.display().to_string();
    let not_run = |error| Refusal::NotRun(name.clone(), error);
    let mut child = Command::new(program)
        .args(words)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_run)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // One that does not read it says why by itself.
            scope.spawn(move || stdin.write_all(input).ok());
        }
        let stdout = scope.spawn(|| stdout.map(read).unwrap_or_default());
        let stderr = scope.spawn(|| stderr.map(read).unwrap_or_default());
        let ended = wait(&mut child);
        let [stdout, stderr] = [stdout, stderr].map(|pipe| pipe.join().unwrap_or_default());
        match ended.map_err(not_run)? {
            Some(true) => Ok(stdout),
            Some(false) => Err(Refusal::Said(shorten(&stderr))),
            None => Err(Refusal::Silent(name.clone(), PATIENCE.as_secs())),
        }
    })
}

/// Whether it succeeded, or `None` if it had to be ended.
fn wait(child: &mut Child) -> io::Result<Option<bool>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn read(pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What came until it broke is what there is.
    pipe.take(LONGEST).read_to_end(&mut bytes).ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One line, not too long; engines put what matters last.
fn shorten(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.is_empty() {
        return "it did not say why".to_owned();
    }
    let skipped = line.chars().count().saturating_sub(TOLD);
    line.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, input: Option<&[u8]>) -> Result<String, Refusal> {
        ask(Path::new("/bin/sh"), ["-c", script], &[], input)
    }

    #[test]
    fn an_answer_is_what_was_printed_and_a_refusal_what_was_complained() {
        assert_eq!(sh("cat; echo no >&2", Some(b"in")).unwrap(), "in");
        let refused = sh("echo no; echo 'so  it\nis' >&2; exit 3", None).unwrap_err();
        assert_eq!(refused.to_string(), "so it is");
        assert_eq!(sh("exit 1", None).unwrap_err().to_string(), "it did not say why");
        let missing = ask(Path::new("/nonexistent"), [""; 0], &[], None).unwrap_err();
        assert!(matches!(missing, Refusal::NotRun(..)), "{missing}");
    }

    #[test]
    fn the_environment_is_what_is_given() {
        let environment = [("GIVEN".to_owned(), "yes".to_owned())];
        let script = "echo \"$GIVEN,$HOME\"";
        let answer = ask(Path::new("/bin/sh"), ["-c", script], &environment, None).unwrap();
        assert_eq!(answer, "yes,\n");
    }
}
