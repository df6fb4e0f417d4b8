//! Programs that make images: run to their end within their time, and judged by it.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam_setup::child::{self, End, Order, Ran};
use cofferdam_setup::sounds_unreachable;

use crate::error::ImageError;
use crate::progress::Step;

/// Lines of a program that an error repeats.
const REPEATED: usize = 12;

/// What programs say when the disk is full.
const FULL: [&str; 3] = ["No space left on device", "ENOSPC", "Disk quota exceeded"];

/// What apt says when it cannot reach a mirror.
const UNREACHABLE: [&str; 5] = [
    "Could not connect",
    "Could not resolve",
    "Failed to fetch",
    "Temporary failure resolving",
    "Unable to connect",
];

/// A program to be run.
pub(crate) struct Task<'a> {
    pub(crate) step: Step,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<&'a str>,
    /// What stands for the arguments in messages, where they are long.
    pub(crate) called: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) variables: Vec<(OsString, Option<OsString>)>,
    pub(crate) limit: Duration,
    pub(crate) lock: &'a File,
    /// Where its output goes, if that is no lines.
    pub(crate) output: Option<&'a File>,
}

impl Task<'_> {
    /// Runs it; returns the last lines that it said.
    pub(crate) fn run(
        self,
        stop: &AtomicBool,
        hear: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, ImageError> {
        let Task { step, program, called, directory, limit, .. } = self;
        let order = Order {
            program,
            arguments: self.arguments,
            directory,
            variables: self.variables,
            limit,
            lock: self.lock,
            output: self.output,
        };
        let Ran { end, said } =
            child::run(&order, stop, hear).map_err(ImageError::system("run", program))?;
        let command = called.to_owned();
        let last = || said.get(said.len().saturating_sub(REPEATED)..).unwrap_or_default().to_vec();
        match end {
            End::Exited(status) if status.success() => Ok(said),
            End::Exited(_) if has(&said, &FULL) => {
                Err(ImageError::Full { path: directory.to_owned() })
            }
            End::Exited(status) => {
                let help = help(&said);
                let how = child::how(status);
                Err(ImageError::Failed { step, command, how, said: last(), help })
            }
            End::TooLong => Err(ImageError::TimedOut { step, command, limit, said: last() }),
            End::Stopped => Err(ImageError::Stopped),
        }
    }
}

fn has(said: &[String], words: &[&str]) -> bool {
    said.iter().any(|line| words.iter().any(|word| line.contains(word)))
}

/// What to do about something that a program said.
fn help(said: &[String]) -> Option<String> {
    let missing = said.iter().find_map(|line| line.split_once("Unable to locate package "));
    if let Some((_, package)) = missing {
        return Some(format!("this release of Debian has no package {package}: check its name"));
    }
    if has(said, &["No matching distribution found", "Could not find a version that satisfies"])
        && !has(said, &["(from versions: none)"])
    {
        return Some(
            "no such version is there, as a wheel for this Python and processor".to_owned(),
        );
    }
    if has(said, &["unshare syscall failed", "unshare() failed", "unable to unshare"]) {
        return Some(
            "this process may not make namespaces or mounts, as in most containers: make the image \
             on the machine itself and take it along, or have an engine build it: --with docker"
                .to_owned(),
        );
    }
    if has(said, &["newuidmap", "newgidmap", "/etc/subuid", "/etc/subgid"]) {
        return Some(crate::bootstrap::RANGES.to_owned());
    }
    (has(said, &UNREACHABLE) || sounds_unreachable(said)).then(|| {
        "mirrors and registries have to be reachable for this: try apt-get update, pip download \
         and npm view on this machine; see HTTPS_PROXY if this network needs a proxy"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn run(script: &str, limit: Duration, stop: bool) -> Result<Vec<String>, ImageError> {
        let place = tempfile::tempdir().unwrap();
        let lock = File::create(place.path().join("lock")).unwrap();
        let task = Task {
            step: Step::System,
            program: Path::new("/bin/sh"),
            arguments: vec!["-c", script],
            called: "sh …",
            directory: place.path(),
            variables: Vec::new(),
            limit,
            lock: &lock,
            output: None,
        };
        task.run(&AtomicBool::new(stop), &mut |_| {})
    }

    #[test]
    fn what_went_wrong_is_told_with_what_to_do() {
        let long = Duration::from_secs(60);
        assert_eq!(run("echo a; echo b >&2", long, false).unwrap(), ["a", "b"]);
        let full = run("echo 'tar: x: No space left on device'; exit 2", long, false).unwrap_err();
        assert!(matches!(&full, ImageError::Full { .. }) && full.help().unwrap().contains("prune"));
        for (said, helps) in [
            ("E: Unable to locate package foo", "no package foo"),
            ("E: Failed to fetch x  Could not connect to y", "have to be reachable"),
            ("npm error code ENOTFOUND", "have to be reachable"),
            ("ERROR: No matching distribution found for x==9", "no such version"),
            ("E: unshare syscall failed: Operation not permitted", "as in most containers"),
            ("newuidmap: write failed", "uidmap"),
        ] {
            let failed = run(&format!("echo '{said}'; exit 1"), long, false).unwrap_err();
            assert!(failed.to_string().contains(said), "{failed}");
            assert!(failed.help().unwrap().contains(helps), "{:?}", failed.help());
        }
    }

    #[test]
    fn what_takes_too_long_or_is_to_stop_is_ended() {
        let begun = Instant::now();
        let late = run("sleep 100 & wait", Duration::ZERO, false);
        assert!(matches!(late, Err(ImageError::TimedOut { .. })));
        let stopped = run("sleep 100 & wait", Duration::from_secs(60), true);
        assert!(matches!(stopped, Err(ImageError::Stopped)));
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
