//! Why a sandbox could not be made, with what would mend it.

use std::fs;
use std::io;
use std::path::Path;

use cofferdam_native_supervisor::failure::Failure;
use cofferdam_native_supervisor::procfs;
use cofferdam_native_supervisor::wire::{FirstPlan, Plan};
use cofferdam_sandbox::OpenError;
use rustix::io::Errno;

/// Settings of the host that keep ordinary users from making namespaces.
pub(crate) struct Restrictions {
    /// Ubuntu's: an unconfined program gets a user namespace without rights.
    pub(crate) apparmor: bool,
    /// Debian's of old: ordinary users get none.
    pub(crate) disabled: bool,
    /// No user namespaces at all.
    pub(crate) none_allowed: bool,
}

impl Restrictions {
    /// Reads the host's settings.
    pub(crate) fn read() -> Self {
        let setting = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
            text.trim().parse::<i64>().ok()
        };
        Self {
            apparmor: setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            disabled: setting("kernel/unprivileged_userns_clone") == Some(0),
            none_allowed: setting("user/max_user_namespaces") == Some(0),
        }
    }

    /// What would lift the restriction that is in force, if one is.
    pub(crate) fn remedy(&self) -> Option<String> {
        if self.none_allowed {
            return Some(
                "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000".to_owned(),
            );
        }
        if self.disabled {
            return Some(
                "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1"
                    .to_owned(),
            );
        }
        self.apparmor.then(apparmor_profile)
    }
}

/// The exact repair for Ubuntu's restriction: a profile for this program.
pub(crate) fn apparmor_profile() -> String {
    let program = std::env::current_exe()
        .map_or_else(|_| "/usr/local/bin/cofferdam".to_owned(), |path| path.display().to_string());
    format!(
        "allow this program user namespaces with an AppArmor profile:\n  \
         printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile cofferdam {program} \
         flags=(unconfined) {{\\n  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/cofferdam\n  \
         sudo apparmor_parser -r /etc/apparmor.d/cofferdam\n\
         or for all programs: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )
}

/// A supervisor's failure, explained.
pub(crate) fn failure(failure: &Failure, plan: &Plan) -> OpenError {
    explain(failure, plan, &Restrictions::read())
}

fn explain(failure: &Failure, plan: &Plan, restrictions: &Restrictions) -> OpenError {
    let step = failure.step.as_str();
    let engine = match &plan.first {
        FirstPlan::Hired(hire) => Some(hire.engine.as_str()),
        FirstPlan::Served(_) => Some("runsc"),
        FirstPlan::Cloned => None,
    };
    if engine.is_some_and(|engine| step.starts_with(engine)) {
        return OpenError::Unusable {
            cause: failure.to_string(),
            remedy: "run `cofferdam doctor`, or use --sandbox native".to_owned(),
        };
    }
    let denied = [Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::USERS]
        .iter()
        .any(|errno| errno.raw_os_error() == failure.errno);
    let unusable = |remedy: String| OpenError::Unusable { cause: failure.to_string(), remedy };
    if failure.errno == Errno::NOSYS.raw_os_error() {
        return unusable(
            "the kernel lacks a system call this needs (Linux 5.12 has them all), or a container \
             around this process forbids it: run it with seccomp=unconfined"
                .to_owned(),
        );
    }
    if step.contains("network of its own") && failure.errno == Errno::NOSPC.raw_os_error() {
        return unusable(
            "allow more network namespaces: sudo sysctl -w user.max_net_namespaces=15000"
                .to_owned(),
        );
    }
    let about_namespaces = step.contains("namespaces of its own")
        || step.contains("network of its own")
        || step.contains("user namespace")
        || step.contains("uid_map")
        || step.contains("loopback")
        || step.contains("make all mounts private");
    if about_namespaces && denied {
        return unusable(restrictions.remedy().unwrap_or_else(|| {
            "this process may not make user namespaces: if it runs in a container, start that with \
             seccomp=unconfined and apparmor=unconfined; else ask the administrator"
                .to_owned()
        }));
    }
    if denied && (step.contains("a proc") || step.contains("mount proc")) {
        return unusable(
            "a container around this process hides parts of /proc, so no new one may be mounted: \
             start it with systempaths=unconfined"
                .to_owned(),
        );
    }
    if step.contains("layers at") && failure.errno == Errno::INVAL.raw_os_error() {
        let mounts = procfs::read("/proc/self/mountinfo").unwrap_or_default();
        if let Some(directory) = plan.workspace.base()
            && let Some(mounted) = mounted_in(directory, &mounts)
        {
            return unusable(format!(
                "something is mounted at {mounted}, and a directory with a mount in it can only be \
                 shown by root: unmount that, use another directory, or run this as root"
            ));
        }
        return unusable(format!(
            "the file system of {} cannot hold changes to another (it is an overlay itself, as in \
             a container): set COFFERDAM_HOME to a directory on a real disk or volume",
            plan.state.display()
        ));
    }
    if step.contains("map the owners") && failure.errno == Errno::INVAL.raw_os_error() {
        let directory = plan.workspace.base().unwrap_or(&plan.state);
        return unusable(format!(
            "the file system of {} cannot show its files as another user's (overlayfs and ramfs, \
             among others, cannot), which root needs: use a directory on another one (ext4, xfs \
             and btrfs can), or run as the ordinary user who owns the directory",
            directory.display()
        ));
    }
    self::step(failure)
}

/// The first place in a directory where something is mounted, from the text of
/// `/proc/self/mountinfo`, in which white space and backslashes are octal numbers.
fn mounted_in(directory: &Path, mountinfo: &str) -> Option<String> {
    const ESCAPES: [(&str, &str); 4] =
        [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let places = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let mut places = places.map(|place| {
        ESCAPES.iter().fold(place.to_owned(), |place, (code, plain)| place.replace(code, plain))
    });
    places.find(|place| Path::new(place) != directory && Path::new(place).starts_with(directory))
}

/// A failure that needs no explanation.
pub(crate) fn step(failure: &Failure) -> OpenError {
    OpenError::Step {
        step: failure.step.clone(),
        source: match failure.errno {
            0 => io::Error::other("see `cofferdam doctor`"),
            errno => io::Error::from_raw_os_error(errno),
        },
    }
}

/// Names the step that an error belongs to.
pub(crate) fn in_step(step: &str) -> impl FnOnce(io::Error) -> OpenError {
    let step = step.to_owned();
    move |source| OpenError::Step { step, source }
}

#[cfg(test)]
mod tests {
    use cofferdam_native_supervisor::wire::{NetworkPlan, RootPlan, WorkspacePlan};
    use cofferdam_types::{Limits, Network};

    use super::*;

    const FREE: Restrictions =
        Restrictions { apparmor: false, disabled: false, none_allowed: false };

    fn remedy(step: &str, errno: Errno, restrictions: &Restrictions) -> String {
        remedy_in(WorkspacePlan::Scratch, step, errno, restrictions)
    }

    fn remedy_in(
        workspace: WorkspacePlan,
        step: &str,
        errno: Errno,
        restrictions: &Restrictions,
    ) -> String {
        let plan = Plan {
            id: "test".to_owned(),
            state: "/state".into(),
            mount_point: "/mount-point".into(),
            limits: Limits::default(),
            reach: Network::None,
            network: NetworkPlan::None,
            workspace,
            root: RootPlan::Host(Vec::new()),
            first: FirstPlan::Cloned,
            linger_ms: None,
            audit: true,
            without_filter: false,
        };
        let failure = Failure { step: step.to_owned(), errno: errno.raw_os_error() };
        match explain(&failure, &plan, restrictions) {
            OpenError::Unusable { remedy, .. } => remedy,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_restriction_has_its_repair() {
        let step = "make a process with namespaces of its own";
        let apparmor = Restrictions { apparmor: true, ..FREE };
        assert!(remedy("write uid_map", Errno::PERM, &apparmor).contains("/etc/apparmor.d/"));
        let disabled = Restrictions { disabled: true, ..FREE };
        assert!(remedy(step, Errno::PERM, &disabled).contains("unprivileged_userns_clone=1"));
        let none = Restrictions { none_allowed: true, ..FREE };
        assert!(remedy(step, Errno::NOSPC, &none).contains("max_user_namespaces"));
        assert!(remedy(step, Errno::PERM, &FREE).contains("seccomp=unconfined"));
        let network = "make a network of its own";
        assert!(remedy(network, Errno::NOSPC, &FREE).contains("max_net_namespaces"));
        assert!(remedy(network, Errno::PERM, &FREE).contains("seccomp=unconfined"));
        let entry = "enter the sandbox's user namespace";
        assert!(remedy(entry, Errno::PERM, &apparmor).contains("/etc/apparmor.d/"));
        assert!(remedy(step, Errno::NOSYS, &FREE).contains("Linux 5.12"));
    }

    #[test]
    fn a_container_around_is_recognised_by_what_it_hides() {
        assert!(remedy("mount proc", Errno::PERM, &FREE).contains("systempaths"));
        assert!(
            remedy("stack 2 layers at /workspace", Errno::INVAL, &FREE).contains("COFFERDAM_HOME")
        );
    }

    #[test]
    fn what_is_mounted_in_a_directory_is_found() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      40 22 0:5 / /srv/me/my\\040work rw - tmpfs none rw\n\
                      41 40 0:6 / /srv/me/my\\040work/deep/er rw - tmpfs none rw\n";
        let found = |directory: &str| mounted_in(Path::new(directory), mounts);
        assert_eq!(found("/srv/me").as_deref(), Some("/srv/me/my work"));
        assert_eq!(found("/srv/me/my work").as_deref(), Some("/srv/me/my work/deep/er"));
        assert_eq!(found("/srv/me/my work/deep/er"), None);
        assert_eq!(found("/srv/me/my"), None);
    }

    #[test]
    fn a_directory_whose_owners_cannot_be_mapped_is_named_with_what_can_be_done() {
        let step = "map the owners of the workspace's files";
        let view = WorkspacePlan::View("/on/an/overlay".into());
        let told = remedy_in(view, step, Errno::INVAL, &FREE);
        for word in ["/on/an/overlay", "another one", "who owns the directory"] {
            assert!(told.contains(word), "{word} is not in: {told}");
        }
    }
}
