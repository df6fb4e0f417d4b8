//! How much a workspace may grow, and what enforces it.

use cofferdam_sandbox::{
    Backend, Changes, Grade, OutputChunk, Sandbox, SandboxError, Spec, Workspace,
};
use cofferdam_types::Limits;

use crate::home::{Home, block_on};
use crate::ordinary_user;

fn small() -> Limits {
    Limits { disk: 16 << 20, inodes: 200, ..Limits::default() }
}

/// Fills a workspace and returns how many bytes and how many files it took.
async fn fill(sandbox: &Sandbox) -> (u64, u64) {
    let script = "dd if=/dev/zero of=big bs=64k count=1000 2>/dev/null; stat -c %s big; rm big; \
                  i=0; while [ $i -lt 400 ] && touch f$i; do i=$((i+1)); done 2>/dev/null; echo $i";
    let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let mut numbers = text.lines().map(|line| line.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn assert_full((bytes, files): (u64, u64)) {
    assert!((12 << 20..20 << 20).contains(&bytes), "{bytes} bytes");
    assert!((150..=260).contains(&files), "{files} files");
}

#[test]
fn a_scratch_workspace_ends_where_its_limits_say() {
    block_on(async {
        let home = Home::new();
        let spec = Spec { limits: small(), ..Spec::scratch() };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        assert_full(fill(&sandbox).await);
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn changes_kept_in_memory_end_where_their_limits_say_and_are_applied() {
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        std::fs::write(directory.join("old"), "old").unwrap();
        let spec = Spec {
            limits: small(),
            workspace: Workspace::Directory(directory.clone()),
            changes: Changes::InMemory,
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        assert_full(fill(&sandbox).await);
        let script = "rm -f f*; echo new > new; rm old";
        sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        sandbox.snapshot().await.unwrap();
        let later = sandbox.shell("echo later > later");
        sandbox.run(sandbox.next_call_id(), later).await.unwrap();
        sandbox.close().await.unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["later", "new"]);
        home.assert_empty();
    });
}

#[test]
fn changes_kept_in_memory_that_cannot_be_applied_are_saved_for_the_next_start() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let directory = home.directory("project");
        let (moved, elsewhere) = (directory.with_file_name("moved"), home.directory("elsewhere"));
        std::fs::write(directory.join("old"), "old").unwrap();
        let spec = Spec {
            workspace: Workspace::Directory(directory.clone()),
            changes: Changes::InMemory,
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&native, spec).await.unwrap();
        let script = "mkdir d; echo new > d/new; rm old";
        sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        std::fs::rename(&directory, &moved).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &directory).unwrap();
        let error = sandbox.close().await.unwrap_err();
        assert!(error.to_string().contains("changes are kept in"), "{error}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);

        std::fs::remove_file(&directory).unwrap();
        std::fs::rename(&moved, &directory).unwrap();
        cofferdam_sandbox::Backend::reconcile(&native).await.unwrap();
        assert_eq!(std::fs::read_to_string(directory.join("d/new")).unwrap(), "new\n");
        assert!(!directory.join("old").exists());
        home.assert_empty();
    });
}

#[test]
fn changes_kept_on_disk_are_limited_by_root_and_the_others_say_that_they_are_not() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let directory = home.directory("project");
        let spec = Spec {
            limits: small(),
            workspace: Workspace::Directory(directory.clone()),
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&native, spec.clone()).await.unwrap();
        let facts = &sandbox.isolation().facts;
        let disk = facts.iter().find(|fact| fact.part == "disk").unwrap().clone();
        if rustix::process::geteuid().as_raw() == 0 {
            assert_eq!(disk.weakness, None, "{disk:?}");
            assert_full(fill(&sandbox).await);
        } else {
            assert!(disk.weakness.unwrap().contains("--changes memory"));
            let stricter = Spec {
                id: cofferdam_types::SandboxId::generate(),
                workspace: Workspace::Directory(home.directory("other")),
                require: Grade::Bounded,
                ..spec
            };
            let refused = Sandbox::open(&native, stricter).await;
            let error = refused.err().unwrap();
            assert!(matches!(error, SandboxError::Open(_)), "{error}");
            assert!(error.to_string().contains("bounded is required"), "{error}");
        }
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn one_directory_too_deep_takes_nothing_else_with_it() {
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        let spec = Spec {
            workspace: Workspace::Directory(directory.clone()),
            changes: Changes::InMemory,
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        let script = "echo x > a; mkdir deep; echo x > deep/beside; echo x > z; \
                      cd deep && perl -e 'for (1..2100) { mkdir \"n\" and chdir \"n\" or die }'";
        let made = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(made.outcome.success(), "{made:?}");
        let error = sandbox.close().await.unwrap_err();
        assert!(error.to_string().contains("in deep/n/n"), "{error}");
        for name in ["a", "deep/beside", "z"] {
            assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), "x\n", "{name}");
        }
        assert_eq!(home.left().len(), 1, "what is left of it is kept");
    });
}

#[test]
fn a_snapshot_for_which_there_is_no_room_leaves_the_room_there_was() {
    block_on(async {
        let home = Home::new();
        let spec = Spec { limits: small(), ..Spec::scratch() };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        let sh = async |script: &str| {
            let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await;
            result.unwrap().outcome.success()
        };
        assert!(sh("dd if=/dev/zero of=big bs=1M count=10 2>/dev/null").await);
        // While something runs, a snapshot is a copy.
        let running = sandbox.shell("sleep 1000");
        let running = sandbox.start(sandbox.next_call_id(), running).await.unwrap();
        running.started().await.unwrap();
        for _ in 0..2 {
            let error = sandbox.snapshot().await.err().unwrap();
            assert!(error.to_string().contains("copy big"), "{error}");
        }
        assert!(sh("dd if=/dev/zero of=more bs=1M count=4 2>/dev/null").await);
        assert!(sh("rm big").await);
        sandbox.snapshot().await.unwrap();
        running.kill();
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn quotas_are_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "quota::one_directory_too_deep_takes_nothing_else_with_it",
        "quota::a_snapshot_for_which_there_is_no_room_leaves_the_room_there_was",
        "quota::a_scratch_workspace_ends_where_its_limits_say",
        "quota::changes_kept_in_memory_end_where_their_limits_say_and_are_applied",
        "quota::changes_kept_in_memory_that_cannot_be_applied_are_saved_for_the_next_start",
        "quota::changes_kept_on_disk_are_limited_by_root_and_the_others_say_that_they_are_not",
    ]);
}

/// What the kernel counts for a user, or for all of them, on the machine.
#[test]
fn a_sandbox_does_not_use_up_what_others_need() {
    const GREEDY: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def most(get, limit):
    for count in range(limit):
        if get() < 0:
            return count
    return limit
def terminal():
    try:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1
class Timer(ctypes.Structure):
    _fields_ = [("id", ctypes.c_void_p)]
print("watchers", most(lambda: libc.inotify_init1(0), 1000))
print("timers", most(lambda: libc.timer_create(1, None, ctypes.byref(Timer())), 5000))
print("terminals", most(terminal, 1000))
requests = ctypes.c_ulong(0)
print("requests", libc.syscall(206, 65536, ctypes.byref(requests)), ctypes.get_errno())
"#;
    block_on(async {
        let home = Home::new();
        let sandbox = Sandbox::open(&home.native(), Spec::scratch()).await.unwrap();
        let command = sandbox.argv(["/usr/bin/python3", "-c", GREEDY]);
        let result = sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        let text = String::from_utf8_lossy(&result.stdout).into_owned();
        let number = |name: &str| -> u32 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        assert!((8..=32).contains(&number("watchers")), "{text}");
        assert!((100..=1024).contains(&number("timers")), "{text}");
        assert!((16..=256).contains(&number("terminals")), "{text}");
        if cfg!(target_arch = "x86_64") {
            assert!(text.contains("requests -1 38"), "{text}");
        }
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn nor_does_an_ordinary_users() {
    ordinary_user::again(&["quota::a_sandbox_does_not_use_up_what_others_need"]);
}

/// What the kernel counts for a user alone: descriptors that are on their way, here.
#[test]
fn sandboxes_of_roots_do_not_share_a_user() {
    const GREEDY: &str = r#"
import socket, time
pairs = []
try:
    while True:
        pair = socket.socketpair()
        pairs.append(pair)
        socket.send_fds(pair[0], [b"x"], [pair[1].fileno()] * 250)
except OSError as error:
    print(error.errno, flush=True)
    time.sleep(1000)
"#;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: an ordinary user has one user to give");
        return;
    }
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let greedy = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        let command = greedy.argv(["/usr/bin/python3", "-c", GREEDY]);
        let mut process = greedy.start(greedy.next_call_id(), command).await.unwrap();
        let refused = format!("{}\n", rustix::io::Errno::TOOMANYREFS.raw_os_error());
        assert_eq!(process.next_output().await, Some(OutputChunk::Stdout(refused.into())));
        let other = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        let command = other.argv([
            "/usr/bin/python3",
            "-c",
            "import socket; \
            a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [b.fileno()]); print('sent')",
        ]);
        let result = other.run(other.next_call_id(), command).await.unwrap();
        assert_eq!(&result.stdout[..], b"sent\n", "{result:?}");
        other.close().await.unwrap();
        greedy.close().await.unwrap();
        home.assert_empty();
    });
}

/// A small disk for as long as this lives.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn at(path: std::path::PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &path, "tmpfs", flags, c"size=40m").unwrap();
        Self(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

/// An image takes what its disk has no room for, and has holes then.
#[test]
fn what_the_disk_beneath_did_not_take_is_not_applied() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has images");
        return;
    }
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        std::fs::write(directory.join("f1"), "good").unwrap();
        let _disk = SmallDisk::at(home.sandboxes());
        let spec = Spec {
            workspace: Workspace::Directory(directory.clone()),
            limits: Limits { memory: 128 << 20, ..Limits::default() },
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        let id = sandbox.id();
        let script =
            "for i in 1 2 3 4 5 6 7 8; do head -c 16M /dev/urandom > f$i; done; sync; echo $?";
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        let failure = sandbox.close().await.unwrap_err().to_string();
        assert!(failure.contains("write the sandbox's changes to disk"), "{failure}");
        assert_eq!(std::fs::read_to_string(directory.join("f1")).unwrap(), "good");
        let found = home.native().reconcile().await.unwrap();
        let [left] = found.left.as_slice() else { panic!("{found:?}") };
        assert!(left.contains("some may have holes") && left.contains(&id.to_string()), "{left}");
        assert_eq!(std::fs::read_to_string(directory.join("f1")).unwrap(), "good");
    });
}
