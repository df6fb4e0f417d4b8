//! Where control groups are, and where this process may make some.
//!
//! They are made below the one this process is in (or the nearest one above it where it may
//! make some), so that whatever limits the host process also limits its sandboxes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup::PREFIX;
use crate::procfs;

/// A controller of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Cpu,
    Pids,
    Freezer,
}

impl Controller {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::Pids, Self::Freezer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }
}

/// Where groups may be made: found once, without making any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// A version 2 directory, and whether its children get memory, CPU and processes limited.
    pub(crate) unified: Option<(PathBuf, [bool; 3])>,
    /// A version 1 directory a controller.
    pub(crate) legacy: Vec<(String, PathBuf)>,
}

impl Places {
    /// Looks at this process's groups and the mounted hierarchies.
    #[must_use]
    pub fn find() -> Self {
        let mounts = procfs::read("/proc/self/mountinfo").unwrap_or_default();
        let groups = procfs::read("/proc/self/cgroup").unwrap_or_default();
        let (unified, legacy) = hierarchies(&mounts, &groups);
        let unified = unified.and_then(|(mount, own)| {
            let above = own.ancestors().take_while(|directory| directory.starts_with(&mount));
            most_giving(above.filter_map(|directory| Some((directory, given_in(directory)?))))
        });
        let legacy: Vec<_> = legacy
            .into_iter()
            .filter(|(controller, _)| Controller::ALL.iter().any(|c| c.name() == controller))
            .collect();
        // What version 2 lacks on such a machine, version 1 has.
        let unified = unified.filter(|(_, gives)| legacy.is_empty() || !gives.contains(&false));
        Self { unified, legacy }
    }

    /// Whether a process has to be born into its groups rather than join them.
    #[must_use]
    pub fn need_birthplace(&self) -> bool {
        self.unified.is_some()
    }

    /// Those of groups that a process can join after its birth.
    #[must_use]
    pub fn to_join(self) -> Self {
        Self { unified: None, ..self }
    }

    /// The controllers whose groups this process may make.
    #[must_use]
    pub fn usable(&self) -> Vec<String> {
        if let Some((_, gives)) = &self.unified {
            let given = UNIFIED.iter().zip(gives).filter(|(_, gives)| **gives);
            return given.map(|(name, _)| (*name).to_owned()).collect();
        }
        let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        let usable = self.legacy.iter().filter(|(_, path)| writable(path));
        usable.map(|(controller, _)| controller.clone()).collect()
    }

    /// Every directory where groups of this product may be.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        let legacy = self.legacy.iter().map(|(_, path)| path.clone());
        self.unified.iter().map(|(path, _)| path.clone()).chain(legacy).collect()
    }
}

/// Whether the machine has groups of version 2 alone, where it is usual to have
/// them.
#[must_use]
pub fn is_unified() -> bool {
    const CGROUP2: i64 = 0x6367_7270;
    rustix::fs::statfs("/sys/fs/cgroup").is_ok_and(|found| found.f_type == CGROUP2)
}

/// The controllers of version 2, in the order of the limits they hold.
const UNIFIED: [&str; 3] = ["memory", "cpu", "pids"];

/// Which controllers groups in this directory get, if this process may make some there that
/// others can be born into.
fn given_in(directory: &Path) -> Option<String> {
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let may = writable(directory) && writable(&directory.join("cgroup.procs"));
    may.then(|| procfs::read(directory.join("cgroup.subtree_control")).ok()).flatten()
}

/// The directory whose groups get the most of the controllers, and the nearest of those. It
/// need not be all: systemd gives services memory and processes, and the CPU only where
/// somebody asks for it.
fn most_giving<'a>(
    nearest_first: impl Iterator<Item = (&'a Path, String)>,
) -> Option<(PathBuf, [bool; 3])> {
    nearest_first
        .map(|(directory, given)| {
            let gives = |name| given.split_ascii_whitespace().any(|word| word == name);
            (directory.to_path_buf(), UNIFIED.map(gives))
        })
        .min_by_key(|(_, gives)| gives.iter().filter(|gives| !**gives).count())
        .filter(|(_, gives)| gives.contains(&true))
}

/// The mount point of version 2 and a place in it.
pub(crate) type Unified = Option<(PathBuf, PathBuf)>;
/// A place for each controller of version 1.
pub(crate) type Legacy = Vec<(String, PathBuf)>;

/// Mount points of the hierarchies joined with this process's place in them,
/// from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(crate) fn hierarchies(mountinfo: &str, cgroup: &str) -> (Unified, Legacy) {
    let own = |wanted: &str| {
        cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            let matches = if wanted.is_empty() {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == wanted)
            };
            matches.then_some(path)
        })
    };
    let mut unified = None;
    let mut legacy = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let mut left = left.split(' ').skip(3);
        let (Some(root), Some(point)) = (left.next(), left.next()) else { continue };
        let mut right = right.split(' ');
        let (Some(kind), Some(options)) = (right.next(), right.nth(1)) else { continue };
        let place = |path: &str| {
            let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
            Path::new(point).join(below.trim_start_matches('/'))
        };
        match kind {
            "cgroup2" => {
                if let Some(path) = own("") {
                    unified = Some((PathBuf::from(point), place(path)));
                }
            }
            "cgroup" => {
                for controller in options.split(',') {
                    let known = Controller::ALL.iter().any(|c| c.name() == controller);
                    if let (true, Some(path)) = (known, own(controller)) {
                        legacy.push((controller.to_owned(), place(path)));
                    }
                }
            }
            _ => {}
        }
    }
    (unified, legacy)
}

/// The groups of a dead sandbox, wherever they are: its maker may have been in another session
/// or service than whoever looks for them.
#[must_use]
pub fn remains_of(id: &str) -> Vec<PathBuf> {
    let mounts = procfs::read("/proc/self/mountinfo").unwrap_or_default();
    named(&format!("{PREFIX}{id}"), mount_points(&mounts))
}

/// The directories of this name below these.
fn named(name: &str, mut ahead: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let list = if entry.file_name() == name { &mut found } else { &mut ahead };
                list.push(entry.path());
            }
        }
    }
    found
}

/// Where hierarchies of either version are mounted.
fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    let point = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let is_one = matches!(right.split(' ').next()?, "cgroup" | "cgroup2");
        is_one.then(|| left.split(' ').nth(4).map(PathBuf::from)).flatten()
    };
    mountinfo.lines().filter_map(point).collect()
}

/// Those places that are not also the others', nor around them.
pub(crate) fn apart(
    (unified, legacy): (Unified, Legacy),
    (other_unified, other_legacy): &(Unified, Legacy),
) -> (Unified, Legacy) {
    let unified = unified.filter(|(_, path)| {
        !other_unified.as_ref().is_some_and(|(_, other)| other.starts_with(path))
    });
    let legacy = legacy.into_iter().filter(|(controller, path)| {
        !other_legacy.iter().any(|(known, other)| known == controller && other.starts_with(path))
    });
    (unified, legacy.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
34 30 0:30 /outer /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
";
    const CGROUP: &str = "\
9:memory:/service/one
8:cpu,cpuacct:/
7:pids:/outer/inner
0::/user.slice
";

    #[test]
    fn a_process_finds_its_own_groups_in_every_hierarchy() {
        let (unified, legacy) = hierarchies(MOUNTINFO, CGROUP);
        assert_eq!(
            unified,
            Some(("/sys/fs/cgroup/unified".into(), "/sys/fs/cgroup/unified/user.slice".into()))
        );
        assert_eq!(
            legacy,
            vec![
                ("cpu".to_owned(), PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")),
                ("memory".to_owned(), "/sys/fs/cgroup/memory/service/one".into()),
                ("pids".to_owned(), "/sys/fs/cgroup/pids/inner".into()),
            ]
        );
    }

    #[test]
    fn a_group_that_is_also_its_supervisors_is_no_containers() {
        let of = |cgroup| hierarchies(MOUNTINFO, cgroup);
        // An engine that may make none leaves the container in its maker's.
        assert_eq!(apart(of(CGROUP), &of(CGROUP)), (None, Vec::new()));
        let (unified, legacy) =
            apart(of("9:memory:/service/one/c\n8:cpu,cpuacct:/\n0::/user.slice/c\n"), &of(CGROUP));
        assert!(unified.is_some_and(|(_, path)| path.ends_with("user.slice/c")));
        let memory = PathBuf::from("/sys/fs/cgroup/memory/service/one/c");
        assert_eq!(legacy, [("memory".to_owned(), memory)]);
        assert_eq!(apart(of("0::/\n"), &of(CGROUP)).0, None, "nor is one around it");
    }

    #[test]
    fn remains_are_found_wherever_their_maker_was() {
        let points = mount_points(MOUNTINFO);
        let names: Vec<_> = points.iter().filter_map(|point| point.file_name()).collect();
        assert_eq!(names, ["cpu,cpuacct", "memory", "unified", "pids"]);
        let mount = tempfile::tempdir().unwrap();
        let group = mount.path().join("user.slice/user-1000.slice/cofferdam-x");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(mount.path().join("system.slice/cofferdam-xy")).unwrap();
        assert_eq!(named("cofferdam-x", vec![mount.path().to_owned()]), [group]);
    }

    #[test]
    fn nobody_joins_a_group_that_one_has_to_be_born_into() {
        let legacy = vec![("memory".to_owned(), PathBuf::from("/m"))];
        let places = Places { unified: Some(("/u".into(), [true; 3])), legacy };
        assert!(places.need_birthplace());
        assert_eq!(places.to_join().directories(), [PathBuf::from("/m")]);
    }

    fn chosen(nearest_first: &[(&str, &str)]) -> Option<(PathBuf, [bool; 3])> {
        let given = nearest_first.iter();
        most_giving(given.map(|(path, gives)| (Path::new(*path), (*gives).to_owned())))
    }

    #[test]
    fn groups_are_made_where_they_get_the_most_and_then_as_near_as_can_be() {
        // Of a login as root, and of a service while somebody is logged in.
        let login = [("/u/s", ""), ("/u", "cpu memory pids\n"), ("/", "cpu memory pids\n")];
        assert_eq!(chosen(&login), Some(("/u".into(), [true; 3])));
        let service = [("/s/x", ""), ("/s", "memory pids\n"), ("/", "cpu memory pids\n")];
        assert_eq!(chosen(&service), Some(("/".into(), [true; 3])));
    }

    #[test]
    fn a_machine_that_gives_some_limits_is_taken_at_that() {
        // Of a service while nobody is logged in: nobody has asked for the CPU.
        let service = [("/s/x", "\n"), ("/s", "memory pids\n"), ("/", "memory pids\n")];
        let places = Places { unified: chosen(&service), ..Places::default() };
        assert_eq!(places.unified, Some(("/s".into(), [true, false, true])));
        assert_eq!(places.usable(), ["memory", "pids"]);
        assert_eq!(chosen(&[("/s", ""), ("/", "io hugetlb\n")]), None);
    }
}
