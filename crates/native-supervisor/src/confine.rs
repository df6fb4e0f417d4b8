//! What the first process gives up before it becomes the guest. From the moment
//! this is done, nothing in the sandbox can gain a right.

use std::fs;
use std::os::fd::OwnedFd;

use cofferdam_types::Kept;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet};

use crate::failure::{Failure, Step, ignore};
use crate::filter::{self, Options};
use crate::identity::{AGENT, Identity};
use crate::procfs;
use crate::sentry;
use crate::sys;
use crate::wire::Plan;

/// File systems in memory have sizes of whole pages.
const PAGE: u64 = 4096;

/// What a sandbox may have of things that the kernel counts for its user outside, too: who used
/// them up here would keep the user's own programs from them. Ways to be told of changes to
/// files, with the files in them; and signals that wait, of which every timer is one.
const WATCHERS: u32 = 32;
const WATCHED_FILES: u32 = 65_536;
const WAITING_SIGNALS: u64 = 1024;

/// Limits what a new user namespace may watch. Where the host's own settings cannot be
/// reached, as in some containers, the user's limit is all there is.
pub fn limit_watching() {
    for (name, most) in [("instances", WATCHERS), ("watches", WATCHED_FILES)] {
        ignore(fs::write(format!("/proc/sys/user/max_inotify_{name}"), most.to_string()));
    }
}

/// Limits of single processes: all of them where no control group holds the
/// sandbox as a whole, the rest in any case.
///
/// # Errors
/// When the kernel refuses one.
pub fn limit_processes(plan: &Plan, groups_hold: [bool; 3], users: Users) -> Result<(), Failure> {
    let limits = &plan.limits;
    let [memory_held, cpu_held, pids_held] = groups_hold;
    lower(Resource::Core, 0)?;
    lower(Resource::Nofile, u64::from(limits.open_files))?;
    // These two are counted per user namespace, so other processes of the same user, in
    // this or other sandboxes, do not use them up, unless they share one.
    // gVisor's kernel counts for itself, and has no limit of the former that could be set.
    if users == Users::Own && sentry::of(plan).is_none() {
        lower(Resource::Sigpending, WAITING_SIGNALS)?;
    }
    if !pids_held || users == Users::Own {
        lower(Resource::Nproc, u64::from(limits.pids))?;
    }
    lower(Resource::Fsize, largest_file(plan))?;
    if !memory_held {
        // Private writable memory. The address space as a whole would be the
        // wrong measure: run-times reserve far more of it than they use.
        lower(Resource::Data, limits.memory)?;
    }
    if !cpu_held {
        pin(limits.milli_cpus)?;
    }
    Ok(())
}

/// How large a single file may be. In memory that is a page more than the workspace can hold:
/// whoever fills it is told that it is full, and not killed for a file that is too large.
fn largest_file(plan: &Plan) -> u64 {
    match plan.workspace.kept() {
        Kept::OnDisk => plan.limits.disk,
        Kept::InMemory => plan.limits.disk.saturating_add(PAGE),
    }
}

/// Whether a sandbox's users are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// They are those of a user namespace of its own.
    Own,
    /// They may be those of other sandboxes too.
    Shared,
}

/// Lowers a limit; a lower one that is in force already stays.
fn lower(resource: Resource, value: u64) -> Result<(), Failure> {
    let now = getrlimit(resource);
    let value = now.maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
        .step_with(|| format!("set the limit of {resource:?}"))
}

/// Keeps the sandbox to as many CPUs as it may use: the limit that is left
/// where there is no control group.
fn pin(milli_cpus: u32) -> Result<(), Failure> {
    let allowed = rustix::thread::sched_getaffinity(None).step("read the CPU affinity")?;
    let wanted = milli_cpus.div_ceil(1000).max(1);
    let mut chosen = CpuSet::new();
    let usable = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    for cpu in usable.take(wanted as usize) {
        chosen.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &chosen).step("set the CPU affinity")
}

/// Makes a process and all it will start the first to go when the whole machine
/// runs out of memory.
pub fn volunteer_for_oom(pid: u32) {
    // Raising it needs no right; where /proc is unusual the default stands.
    ignore(fs::write(format!("/proc/{pid}/oom_score_adj"), "500"));
}

/// Becomes `agent`, without a capability in any set and with no way to get one.
///
/// # Errors
/// When the kernel refuses.
pub fn drop_privileges(identity: Identity) -> Result<(), Failure> {
    bound_to_no_capability()?;
    rustix::thread::clear_ambient_capability_set().step("clear the ambient capabilities")?;
    if identity.is_roots() {
        rustix::thread::set_thread_groups(&[]).step("leave all groups")?;
    }
    let agent = identity.agent();
    let (uid, gid) = (rustix::thread::Uid::from_raw(agent), rustix::thread::Gid::from_raw(agent));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("become the group agent")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("become the user agent")?;
    drop_capabilities()?;
    rustix::thread::set_no_new_privs(true).step("refuse new privileges")
}

fn bound_to_no_capability() -> Result<(), Failure> {
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // A capability this kernel does not have.
            Err(rustix::io::Errno::INVAL) => {}
            other => other.step("drop a capability for ever")?,
        }
    }
    Ok(())
}

fn drop_capabilities() -> Result<(), Failure> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none).step("drop all capabilities")
}

/// Leaves the users of a kernel that is the sandbox's own for a namespace in which there is
/// nobody but `agent`, who this process is already. A right that somebody came by there
/// would be one over nothing.
///
/// # Errors
/// When the kernel refuses.
pub fn leave_users() -> Result<(), Failure> {
    sys::own_users().step("have users of its own")?;
    // Where the kernel has it, groups can only be mapped by whoever gives up changing them.
    ignore(fs::write("/proc/self/setgroups", "deny"));
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/self/{map}"), format!("{AGENT} {AGENT} 1\n"))
            .step_with(|| format!("write {map}"))?;
    }
    // Whoever makes a namespace has every right in it.
    bound_to_no_capability()?;
    drop_capabilities()
}

/// The same in a container, where the engine has dropped everything: trusted, but looked at.
///
/// # Errors
/// When something was left.
pub fn refuse_privileges() -> Result<(), Failure> {
    let status = procfs::read("/proc/self/status").step("read what rights there are")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|rest| rest.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
    };
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let set = field(name);
        // Whatever is ambient is permitted: not every kernel tells of it apart.
        if set.is_empty() && name != "CapAmb" || set.bytes().any(|digit| digit != b'0') {
            return Err(Failure::new(format!("the engine left capabilities: {name} is {set}")));
        }
    }
    if field("Uid").split_ascii_whitespace().any(|id| id == "0") {
        return Err(Failure::new("the engine left this process user 0"));
    }
    rustix::thread::set_no_new_privs(true).step("refuse new privileges")
}

/// Adds Landlock's part where the kernel has it, and returns its version.
///
/// The file system's rules are the mounts'. Landlock's rules hang on inodes, and
/// a snapshot puts a new mount at the workspace, so a rule for it would not
/// survive; what Landlock adds is what mounts cannot say: no device nodes
/// anywhere, no device controls outside `/dev`, no abstract Unix sockets and no
/// signals beyond the sandbox (both matter where it shares the host's network).
///
/// # Errors
/// When the kernel has Landlock and refuses the rules.
pub fn landlock() -> Result<u32, Failure> {
    let version = sys::landlock_version();
    if version == 0 {
        return Ok(0);
    }
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("apply Landlock: {error}"));
    // Moving files between directories is refused unless it is handled and
    // allowed; the rule on the root covers every mount below it.
    let handled = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev | AccessFs::Refer;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)
        .map_err(|error| failed(&error))?
        .scope(Scope::from_all(ABI::V6))
        .map_err(|error| failed(&error))?
        .create()
        .map_err(|error| failed(&error))?;
    for (path, access) in [("/", AccessFs::Refer), ("/dev", AccessFs::IoctlDev)] {
        let place = PathFd::new(path).map_err(|error| failed(&error))?;
        ruleset =
            ruleset.add_rule(PathBeneath::new(place, access)).map_err(|error| failed(&error))?;
    }
    let status = ruleset.restrict_self().map_err(|error| failed(&error))?;
    Ok(if status.ruleset == RulesetStatus::NotEnforced { 0 } else { version })
}

/// Installs the system-call filter; returns where reported calls arrive.
///
/// # Errors
/// When the kernel refuses.
pub fn filter(
    audit: bool,
    served: bool,
    groups_hold: [bool; 3],
) -> Result<Option<OwnedFd>, Failure> {
    let [_, cpu_held, _] = groups_hold;
    let audit = audit && !served;
    let program = filter::program(Options { audit, served, pin_cpus: !cpu_held });
    sys::install_filter(&program, audit).step("install the system-call filter")
}
