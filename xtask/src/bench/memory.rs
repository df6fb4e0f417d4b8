//! Memory of sandboxes that have nothing to do: their processes', the kernel's
//! for them, and that of the process which holds them.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;

use super::Setting;
use super::report::{Table, kibibytes};
use super::{host, process_table};

/// What the kernel has for processes, files, mounts and namespaces.
const KERNEL: [&str; 3] = ["Slab", "PageTables", "KernelStack"];

/// What it has once a CPU, mostly for control groups and networks.
const EACH_CPU: [&str; 1] = ["Percpu"];

/// How long sandboxes have had nothing to do when they are measured.
const IDLE: Duration = Duration::from_secs(3);

/// Memory at one moment, in bytes.
struct Moment {
    processes: HashSet<i32>,
    own: f64,
    kernel: f64,
    each_cpu: f64,
}

/// Memory of sandboxes, in bytes for each.
struct Share {
    supervisor: f64,
    guest: f64,
    own: f64,
    kernel: f64,
    each_cpu: f64,
    processes: usize,
}

impl Moment {
    fn now() -> anyhow::Result<Self> {
        let own = process_table::own();
        let below = process_table::below(own, &process_table::all());
        Ok(Self {
            processes: below.iter().map(|entry| entry.process).collect(),
            own: process_table::memory(own).context("read this process's own memory")?,
            kernel: host::meminfo(&KERNEL),
            each_cpu: host::meminfo(&EACH_CPU),
        })
    }

    /// What has been added since, by this many sandboxes.
    fn share(&self, sandboxes: usize) -> anyhow::Result<Share> {
        let own = process_table::own();
        let below = process_table::below(own, &process_table::all());
        let new = below.iter().filter(|entry| !self.processes.contains(&entry.process));
        let (mut supervisor, mut guest, mut processes) = (0.0, 0.0, 0);
        for entry in new.filter(|entry| !entry.ended) {
            let memory = process_table::memory(entry.process)
                .with_context(|| format!("read the memory of process {}", entry.process))?;
            *if entry.parent == own { &mut supervisor } else { &mut guest } += memory;
            processes += 1;
        }
        let now = Self::now()?;
        let each = |bytes: f64| bytes / f64::from(u32::try_from(sandboxes).unwrap_or(u32::MAX));
        Ok(Share {
            supervisor: each(supervisor),
            guest: each(guest),
            own: each(now.own - self.own),
            kernel: each(now.kernel - self.kernel),
            each_cpu: each(now.each_cpu - self.each_cpu),
            processes,
        })
    }
}

/// Measures and tells.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Table> {
    let columns = [
        "KiB for each sandbox",
        "processes",
        "supervisor",
        "guest",
        "both",
        "holder",
        "kernel",
        "per CPU",
    ];
    let mut table = Table::new("3. Idle memory", &columns);
    for count in [1, setting.scale.crowd] {
        let share = alive(setting, count)?;
        let delta = |bytes: f64| if count == 1 { "-".to_owned() } else { kibibytes(bytes) };
        table.row([
            format!("{count} alive"),
            share.processes.to_string(),
            kibibytes(share.supervisor),
            kibibytes(share.guest),
            kibibytes(share.supervisor + share.guest),
            delta(share.own),
            delta(share.kernel),
            delta(share.each_cpu),
        ]);
    }
    table.note(
        "supervisor, guest, holder (the process that made them): PSS by smaps_rollup, after three \
         seconds of idleness",
    );
    table.note(
        "kernel: growth of Slab, PageTables and KernelStack; per CPU: of Percpu, all CPUs together. \
         Other programs of the machine disturb both",
    );
    Ok(table)
}

fn alive(setting: &Setting, count: usize) -> anyhow::Result<Share> {
    let library = &setting.library;
    let before = Moment::now()?;
    let sandboxes = library.open_many(count)?;
    std::thread::sleep(IDLE);
    let share = before.share(count);
    library.close_all(sandboxes)?;
    share
}
