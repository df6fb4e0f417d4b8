//! What is left of a sandbox on the host once its processes are gone: changes
//! that belong into the workspace's directory, and everything else, which is
//! removed.

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cofferdam_types::Kept;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::claim::{self, Claim};
use crate::doubt;
use crate::failure::{Failure, Step, ignore};
use crate::tree;
use crate::wire::{Plan, VERSION, WorkspacePlan};

/// The name of the file in a sandbox's directory that holds its plan, where the
/// plan is needed after the supervisor's death.
pub const PLAN: &str = "plan";

/// The same until it is whole.
const NEW_PLAN: &str = "plan.new";

/// The file that holds the name which files have on their way into the workspace's directory.
const PASSING: &str = "passing";

/// The audit trail, where it is long.
pub const TRAIL: &str = "audit";

/// The supervisor's socket.
pub const CONTROL: &str = "control.sock";

/// Applies the changes that are kept in `store` to the workspace's directory.
/// The sandbox is dead. A directory that is not the claimed one, because none is
/// or because another one is there now, is claimed first.
///
/// # Errors
/// When they cannot all be applied; those that remain stay where they are.
pub fn apply_changes(
    plan: &Plan,
    store: BorrowedFd<'_>,
    claim: Option<&Claim>,
) -> Result<(), Failure> {
    let WorkspacePlan::Directory(path, _) = &plan.workspace else { return Ok(()) };
    let directory = claim::open(path).step_with(|| {
        format!(
            "open {} again (the changes are kept in {} until it is back)",
            path.display(),
            plan.state.display()
        )
    })?;
    let stat = rustix::fs::fstat(&directory).step_with(|| format!("look at {}", path.display()))?;
    let claimed = match claim {
        Some(claim) => claim.is_on(&stat).step("look at the claimed directory")?,
        None => false,
    };
    // Held until all is applied.
    let directory = if claimed {
        directory
    } else {
        let claim = Claim::of(directory).step_with(|| format!("lock {}", path.display()))?;
        let claim = claim.ok_or_else(|| {
            Failure::new(format!(
                "another sandbox works on {} (the changes are kept in {} until it has ended)",
                path.display(),
                plan.state.display()
            ))
        })?;
        claim.into()
    };
    let passing = passing_name(&plan.state).step("think of a name")?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for number in 0u32.. {
        // The workspace's own directory may have been closed to its owner.
        let layer = rustix::fs::openat(store, number.to_string(), flags, Mode::empty())
            .and_then(|parent| tree::enter(parent.as_fd(), c"u"));
        let layer = match layer {
            Ok(layer) => layer,
            Err(rustix::io::Errno::NOENT) => break,
            Err(error) => return Err(error).step("open the changes"),
        };
        let written_by = rustix::fs::fstat(&layer).step("look at the changes")?.st_uid;
        // What root's sandbox wrote belongs to an id nobody has; it is given to
        // the directory's owner.
        let root = rustix::process::geteuid().is_root();
        let owner = (root && written_by != 0).then(|| {
            (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid))
        });
        tree::lay_over(layer.as_fd(), directory.as_fd(), owner, &passing).map_err(|failure| {
            Failure {
                step: format!(
                    "apply the sandbox's changes to {} (what is left of them is kept in {}): {}",
                    path.display(),
                    plan.state.display(),
                    failure.step
                ),
                errno: failure.errno,
            }
        })?;
    }
    // What was durable inside is to be so here, before it is removed there.
    if plan.workspace.kept() == Kept::OnDisk {
        rustix::fs::syncfs(&directory).step_with(|| {
            format!(
                "have the sandbox's changes to {} written to disk (they are kept in {}, too)",
                path.display(),
                plan.state.display()
            )
        })?;
    }
    Ok(())
}

/// The name that files have on their way into the workspace's directory: at each try the same,
/// so that what a try left that was cut short is known to be that. It is thought of when the
/// sandbox is dead, so nothing that was made in there has it.
fn passing_name(state: &Path) -> rustix::io::Result<CString> {
    let path = state.join(PASSING);
    if let Ok(kept) = fs::read_to_string(&path)
        && tree::is_passing_name(&kept)
    {
        return CString::new(kept).map_err(|_| Errno::INVAL);
    }
    let name = tree::passing_name()?;
    // On a full disk, say; changes that make room are applied all the same.
    ignore(fs::write(path, name.as_bytes()));
    Ok(name)
}

/// Removes a sandbox's directory; one that is not there is fine. Whoever finds it
/// meanwhile knows by its lock that somebody is at it.
///
/// # Errors
/// When something in it cannot be removed.
pub fn remove_state(state: &Path) -> Result<(), Failure> {
    let (Some(parent), Some(name)) = (state.parent(), state.file_name()) else {
        return Err(Failure::new("a sandbox's directory has a parent and a name"));
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty()).step("open the state directory")?;
    let name = CString::new(name.as_bytes())
        .map_err(|_| Failure::new("a sandbox's name has a NUL byte"))?;
    match tree::remove(parent.as_fd(), &name) {
        Err(Errno::NOENT) => Ok(()),
        other => other.step_with(|| format!("remove {}", state.display())),
    }
}

/// Takes the lock of a sandbox's directory, which is one on the directory itself;
/// `None` while somebody has it: the host that makes the sandbox, then its supervisor,
/// for as long as it lives.
///
/// # Errors
/// When the lock cannot be tried; `ENOENT` when the directory is gone.
pub fn take_lock(state: &Path) -> Result<Option<OwnedFd>, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = rustix::fs::open(state, flags, Mode::empty()).step("open the sandbox's lock")?;
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    match rustix::fs::flock(&lock, exclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error).step("take the sandbox's lock"),
    }
    // It may have been removed between our two steps, by its owner's end.
    let links = rustix::fs::fstat(&lock).step("look at the sandbox's lock")?.st_nlink;
    if links == 0 {
        return Err(Errno::NOENT).step("take the sandbox's lock");
    }
    Ok(Some(lock))
}

/// Keeps the plan for whoever has to clean up or attach later: the whole of it or nothing,
/// whenever this process dies, and the machine too where changes depend on it.
///
/// # Errors
/// When it cannot be written.
pub fn keep_plan(plan: &Plan) -> Result<(), Failure> {
    let bytes = postcard::to_extend(plan, vec![VERSION])
        .map_err(|error| Failure::new(format!("write down the plan: {error}")))?;
    let (new, path) = (plan.state.join(NEW_PLAN), plan.state.join(PLAN));
    let write = || {
        if matches!(plan.workspace, WorkspacePlan::Directory(..)) {
            doubt::note_boot(&plan.state)?;
        }
        let mut file = fs::File::create(&new)?;
        file.write_all(&bytes)?;
        let durable = plan.workspace.kept() == Kept::OnDisk;
        if durable {
            file.sync_data()?;
        }
        fs::rename(&new, &path)?;
        // Changes that are there without a plan are nobody's.
        if durable { fs::File::open(&plan.state)?.sync_all() } else { Ok(()) }
    };
    write().step("write down the plan")
}

/// The plan of a sandbox, if its supervisor kept one.
///
/// # Errors
/// When there is one that this release cannot read: what belongs to it must then
/// be left alone.
pub fn kept_plan(state: &Path) -> Result<Option<Plan>, Failure> {
    let bytes = match fs::read(state.join(PLAN)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.step("read a sandbox's plan")?,
    };
    let plan = match bytes.split_first() {
        Some((&VERSION, plan)) => postcard::from_bytes(plan).ok(),
        _ => None,
    };
    plan.map(Some).ok_or_else(|| {
        Failure::new(format!(
            "the plan in {} was written by another release: use that one to finish it",
            state.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use cofferdam_types::{Limits, Network};

    use super::*;
    use crate::dying;
    use crate::wire::{FirstPlan, NetworkPlan, RootPlan};

    fn plan_of(state: &Path) -> Plan {
        Plan {
            id: "test".to_owned(),
            state: state.to_owned(),
            mount_point: "/mount-point".into(),
            limits: Limits::default(),
            reach: Network::None,
            network: NetworkPlan::None,
            workspace: WorkspacePlan::Scratch,
            root: RootPlan::Host(Vec::new()),
            first: FirstPlan::Cloned,
            linger_ms: None,
            audit: true,
            without_filter: false,
        }
    }

    #[test]
    fn a_plan_is_whole_or_not_there() {
        const TEST: &str = "remains::tests::a_plan_is_whole_or_not_there";
        if let Some(paths) = dying::paths() {
            dying::at_files_over(0);
            drop(keep_plan(&plan_of(&paths[0])));
            return;
        }
        let state = tempfile::tempdir().unwrap();
        dying::run(TEST, &[state.path()]);
        assert_eq!(kept_plan(state.path()).unwrap(), None);
        // What the death left is in nobody's way.
        let plan = plan_of(state.path());
        keep_plan(&plan).unwrap();
        assert_eq!(kept_plan(state.path()).unwrap(), Some(plan));
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_plan_is_kept_and_one_of_another_release_is_not_guessed_at() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(kept_plan(state.path()).unwrap(), None);
        let plan = plan_of(state.path());
        keep_plan(&plan).unwrap();
        assert_eq!(kept_plan(state.path()).unwrap(), Some(plan));
        let path = state.path().join(PLAN);
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] += 1;
        fs::write(&path, bytes).unwrap();
        assert!(kept_plan(state.path()).unwrap_err().step.contains("another release"));
        fs::write(&path, [VERSION]).unwrap();
        assert!(kept_plan(state.path()).is_err(), "half a plan is no plan");
    }

    #[test]
    fn files_on_their_way_have_the_same_name_at_each_try() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let name = passing_name(one.path()).unwrap();
        assert_eq!(passing_name(one.path()).unwrap(), name);
        assert_ne!(passing_name(other.path()).unwrap(), name);
        fs::write(one.path().join(PASSING), "../half").unwrap();
        assert!(tree::is_passing_name(passing_name(one.path()).unwrap().to_str().unwrap()));
    }

    #[test]
    fn a_directory_is_one_owners_until_it_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        let owner = take_lock(&state).unwrap();
        assert!(owner.is_some() && take_lock(&state).unwrap().is_none());
        drop(owner);
        assert!(take_lock(&state).unwrap().is_some());
        fs::write(state.join(PLAN), "").unwrap();
        remove_state(&state).unwrap();
        assert!(!state.exists());
        let missing = take_lock(&state).unwrap_err();
        assert_eq!(missing.errno, Errno::NOENT.raw_os_error());
        remove_state(&state).unwrap();
    }
}
