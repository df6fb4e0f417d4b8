//! The host: what machine this is and how busy, as the kernel tells it.

use std::collections::BTreeSet;
use std::fs;

/// One line that says where the numbers are from.
pub(super) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let processor = read("/proc/cpuinfo");
    let processor = processor.lines().find(|line| line.starts_with("model name"));
    let processor = processor.and_then(|line| line.split_once(':'));
    let processor = processor.map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = meminfo(&["MemTotal"]) / f64::from(1 << 30);
    let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    format!(
        "Linux {}, {cores} cores ({processor}), {memory:.0} GiB of memory, as {user}; load average \
         {} at the start",
        kernel.trim(),
        load(&read("/proc/loadavg")),
    )
}

fn load(loadavg: &str) -> String {
    loadavg.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Whether anything runs at this instant besides this process.
pub(super) fn is_busy() -> bool {
    running(&fs::read_to_string("/proc/stat").unwrap_or_default()).is_some_and(|count| count > 1)
}

fn running(stat: &str) -> Option<u64> {
    keyed(stat, "procs_running ")
}

/// Bytes of memory in these uses together.
pub(super) fn meminfo(uses: &[&str]) -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    uses.iter().map(|name| kibibytes(&text, name)).sum::<f64>() * 1024.0
}

/// A value of `/proc/meminfo`, `/proc/PID/status` or `/proc/PID/smaps_rollup`.
pub(super) fn kibibytes(text: &str, name: &str) -> f64 {
    keyed(text, &format!("{name}:")).map_or(0.0, |count: u32| f64::from(count))
}

fn keyed<Number: std::str::FromStr>(text: &str, key: &str) -> Option<Number> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// The mounts that this process sees: the kind of each and where it is.
pub(super) fn mounts() -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once(" - ")?;
    let place = left.split(' ').nth(4)?;
    let kind = right.split(' ').next()?;
    Some((kind.to_owned(), place.to_owned()))
}

/// The network namespaces of the processes that this one may look at.
pub(super) fn network_namespaces() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let links = processes.filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "MemTotal:  24681472 kB\nSlab:        120 kB\nSReclaimable:  7 kB\n";
        assert_eq!(kibibytes(text, "Slab"), 120.0);
        assert_eq!(kibibytes(text, "Absent"), 0.0);
        assert_eq!(running("cpu 1 2\nprocs_running 3\nprocs_blocked 0\n"), Some(3));
        assert_eq!(load("3.14 2.39 1.63 4/161 22671\n"), "3.14 2.39 1.63");
    }

    #[test]
    fn a_mount_has_a_kind_and_a_place() {
        let line = "32 30 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory";
        assert_eq!(mount(line), Some(("cgroup".into(), "/sys/fs/cgroup/memory".into())));
        assert_eq!(mount(""), None);
    }
}
