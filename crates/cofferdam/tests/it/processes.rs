//! The machine's processes, as `/proc` tells them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The numbers of all processes.
pub(crate) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a process calls itself.
pub(crate) fn name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The living processes that have `mark` in their arguments.
pub(crate) fn with_argument(mark: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    all().into_iter().filter(has).collect()
}

/// Whether a process has a handler for a signal.
pub(crate) fn catches(pid: i32, signal: rustix::process::Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Whether a process is in `directory`, or has something of it open.
pub(crate) fn touches(pid: i32, directory: &Path) -> bool {
    let within = |link: &Path| fs::read_link(link).is_ok_and(|path| path.starts_with(directory));
    let own = Path::new("/proc").join(pid.to_string());
    let open = fs::read_dir(own.join("fd")).into_iter().flatten().flatten();
    within(&own.join("cwd")) || open.into_iter().any(|entry| within(&entry.path()))
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let parent = |pid: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    all().into_iter().filter(|child| parent(*child) == Some(pid)).collect()
}

/// Whether a process has `text` in memory of its own.
pub(crate) fn remembers(pid: i32, text: &str) -> bool {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let held = |line: &str| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        if !words.next()?.starts_with("rw") {
            return None;
        }
        let start = u64::from_str_radix(start, 16).ok()?;
        let length = u64::from_str_radix(end, 16).ok()? - start;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        memory.read_exact_at(&mut bytes, start).ok()?;
        Some(bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    let found: Vec<bool> = maps.lines().filter_map(held).collect();
    assert!(!found.is_empty(), "nothing of the memory of {pid} could be read");
    found.contains(&true)
}

/// A number of bytes that `/proc/PID/status` tells.
pub(crate) fn status_bytes(pid: i32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
