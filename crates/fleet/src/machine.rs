//! What this machine has room for.

/// Memory that one running job is taken to need besides what its commands use.
const JOB: u64 = 96 << 20;

/// Jobs for each CPU: most of the time a job waits for a model.
const JOBS_PER_CPU: u64 = 64;

/// Of all memory, what stays free: one part in this many.
const SPARE: u64 = 16;

/// How many jobs may run here at once, if nobody says otherwise.
#[must_use]
pub fn capacity() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let memory = read().map_or(u64::MAX, |memory| memory.total / JOB);
    u32::try_from((cpus * JOBS_PER_CPU).min(memory).max(1)).unwrap_or(u32::MAX)
}

/// Whether there is memory for one more job. A machine that does not say is
/// believed to have it.
pub(crate) fn has_memory() -> bool {
    read().is_none_or(|memory| memory.available > memory.total / SPARE)
}

struct Memory {
    total: u64,
    available: u64,
}

fn read() -> Option<Memory> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(text: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let number: u64 = line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse().ok()?;
        Some(number << 10)
    };
    Some(Memory { total: field("MemTotal")?, available: field("MemAvailable")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read() {
        let memory = parse("MemTotal:  16 kB\nMemFree: 1 kB\nMemAvailable:   4 kB\n").unwrap();
        assert_eq!((memory.total, memory.available), (16 << 10, 4 << 10));
        assert!(parse("MemTotal: much\n").is_none());
        assert!(read().is_some_and(|memory| memory.available <= memory.total));
    }
}
