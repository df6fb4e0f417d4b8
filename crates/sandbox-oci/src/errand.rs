//! Asking an engine something by its command line, with an end to every wait.
//!
//! What it is given and what it says are files in memory. Pipes would have to be read to
//! their end, which may never come: a program that was left behind holds them too.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// How long an engine may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How much of an answer is read.
const LONGEST: usize = 1 << 20;

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
    let memory = || memory().map_err(not_run);
    let (stdout, stderr) = (memory()?, memory()?);
    let stdin = match input {
        Some(input) => {
            let mut file = memory()?;
            file.write_all(input).and_then(|()| file.rewind()).map_err(not_run)?;
            Stdio::from(file)
        }
        None => Stdio::null(),
    };
    let mut child = Command::new(program)
        .args(words)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(stdout.try_clone().map_err(not_run)?)
        .stderr(stderr.try_clone().map_err(not_run)?)
        .process_group(0)
        .spawn()
        .map_err(not_run)?;
    match wait(&mut child).map_err(not_run)? {
        Some(true) => Ok(read(&stdout)),
        Some(false) => Err(Refusal::Said(shorten(&read(&stderr)))),
        None => Err(Refusal::Silent(name.clone(), PATIENCE.as_secs())),
    }
}

/// Whether it succeeded, or `None` if it had to be ended, with all that it started.
fn wait(child: &mut Child) -> io::Result<Option<bool>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() >= deadline {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // Not yet waited for, so nobody else can have its number.
            group.map(|group| kill_process_group(group, Signal::KILL)).transpose()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create("engine", MemfdFlags::CLOEXEC)?))
}

fn read(said: &File) -> String {
    let mut bytes = vec![0; LONGEST];
    // What can be read is what there is.
    let read = said.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(read);
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
    fn nobody_waits_for_what_a_program_left_behind() {
        let begun = Instant::now();
        assert_eq!(sh("sleep 30 & echo said", None).unwrap(), "said\n");
        assert!(begun.elapsed() < PATIENCE, "it was waited for");
    }

    #[test]
    fn the_environment_is_what_is_given() {
        let environment = [("GIVEN".to_owned(), "yes".to_owned())];
        let script = "echo \"$GIVEN,$HOME\"";
        let answer = ask(Path::new("/bin/sh"), ["-c", script], &environment, None).unwrap();
        assert_eq!(answer, "yes,\n");
    }
}
