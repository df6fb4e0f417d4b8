//! The audit trail of sandboxes whose kernel is a program, where it is read from lines that
//! whoever names a file or a process writes into.

use std::time::Duration;

use cofferdam_sandbox::{Backend, Lifetime, Sandbox, Spec, Workspace};
use cofferdam_sandbox_oci::Kind;
use cofferdam_types::{AuditAct, AuditRecord, CallId, Limits};

use crate::engines::{Lab, block_on};

async fn run(sandbox: &Sandbox, call: u64, script: &str) -> String {
    let command = sandbox.shell(script).timeout(Some(Duration::from_secs(60)));
    let result = sandbox.run(CallId(call), command).await.unwrap();
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.outcome.success(), "{:?}: {stderr}", result.outcome);
    String::from_utf8_lossy(&result.stdout).into_owned()
}

fn python(script: &str) -> String {
    format!(
        "python3 - <<'END'\nimport os, ctypes\ncall = ctypes.CDLL(None).syscall\n{script}\nEND\n"
    )
}

/// The paths of the acts of a call that are like this one.
fn paths(trail: &[AuditRecord], call: u64, like: fn(&AuditAct) -> Option<&String>) -> Vec<&str> {
    let of_call = trail.iter().filter(|record| record.call == Some(CallId(call)));
    of_call.filter_map(|record| like(&record.act).map(String::as_str)).collect()
}

fn made(act: &AuditAct) -> Option<&String> {
    match act {
        AuditAct::Created { path } => Some(path),
        _ => None,
    }
}

fn opened(act: &AuditAct) -> Option<&String> {
    match act {
        AuditAct::OpenedForWriting { path } => Some(path),
        _ => None,
    }
}

/// What a finished command did is in the trail whenever that is read.
#[test]
fn names_that_read_like_lines_are_names() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        let script = python(
            r#"
prctl = ctypes.CDLL(None).prctl
line = '\n{"msg":"strace.go:561] [   1:   1] x E unlink(0x7f1000 '
names = [
    b'"},"', line.encode().replace(b'/', b'') + b'")', b', 0o777)', b') = 7 (0x7) (1ms)',
    b' E rmdir(0x7f1000 x)', b'\xff\xfe', 'é'.encode(), b'%s%n', b'a\\u0022', b'?',
]
for name in names:
    os.mkdir(b'/workspace/' + name)
for name in [b'x E rmdir(0x1 |', b' E exit_group()', b'', b'\xff' * 15, b'c11']:
    prctl(15, name, 0, 0, 0)
    os.mkdir(b'/workspace/named ' + name)
prctl(15, b'python3', 0, 0, 0)
os.mkdir('/workspace/d, 0x7f1000 e')
os.chdir('/workspace/d, 0x7f1000 e')
open('twofold', 'w').close()
os.mkdir('onefold')
"#,
        );
        run(&sandbox, 36, &script).await;
        let trail = sandbox.audit().await.unwrap();
        let made = paths(&trail, 36, made);
        let expected = [
            "/workspace/\"},\"",
            "/workspace/\n{\"msg\":\"strace.go:561] [   1:   1] x E unlink(0x7f1000 \")",
            "/workspace/, 0o777)",
            "/workspace/) = 7 (0x7) (1ms)",
            "/workspace/ E rmdir(0x7f1000 x)",
            "/workspace/\u{fffd}\u{fffd}",
            "/workspace/é",
            "/workspace/%s%n",
            "/workspace/a\\u0022",
            "/workspace/?",
            "/workspace/named x E rmdir(0x1 |",
            "/workspace/named  E exit_group()",
            "/workspace/named ",
            "/workspace/named \u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\
             \u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            "/workspace/named c11",
            "/workspace/d, 0x7f1000 e",
            "/workspace/d, 0x7f1000 e/onefold",
        ];
        assert_eq!(made, expected);
        // What can be read in two ways is written down as it was told.
        let opened = paths(&trail, 36, opened);
        let twofold = opened.iter().find(|path| path.contains("twofold")).unwrap();
        assert!(twofold.starts_with("? AT_FDCWD /workspace/d, 0x7f1000 e, 0x"), "{twofold}");
        let deleted = |record: &AuditRecord| matches!(record.act, AuditAct::Deleted { .. });
        assert!(!trail.iter().any(deleted), "{trail:#?}");
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

#[test]
fn acts_belong_to_their_call_whoever_looks_after_the_process() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        // It goes on until it is told to end, long after its call's command has.
        let script = "setsid sh -c '(while ! [ -e end ]; do mkdir -p by-first; rmdir by-first; done; \
                      mkdir first-ends) &' > /dev/null 2>&1 & sleep 0; echo begun";
        run(&sandbox, 100, script).await;
        let script = python(
            r"
import subprocess, threading
def fork(then):
    child = os.fork()
    if child == 0:
        then()
        os._exit(0)
    return child
def daemon():
    os.setsid()
    ctypes.CDLL(None).prctl(15, b'c2s', 0, 0, 0)  # the name of call 100's monitor
    fork(lambda: os.mkdir('by-daemon'))
os.waitpid(fork(daemon), 0)
while not os.path.exists('by-daemon'): pass
subprocess.run(['mkdir', 'by-child'], check=True)
thread = threading.Thread(target=lambda: os.mkdir('by-thread'))
thread.start(); thread.join()
",
        );
        run(&sandbox, 200, &script).await;
        run(&sandbox, 300, "mkdir by-third; touch end; while ! [ -e first-ends ]; do :; done")
            .await;
        let trail = sandbox.audit().await.unwrap();
        let of = |call| paths(&trail, call, made);
        let second = ["/workspace/by-daemon", "/workspace/by-child", "/workspace/by-thread"];
        assert_eq!(of(200), second);
        assert_eq!(of(300), ["/workspace/by-third"]);
        assert!(of(100).contains(&"/workspace/by-first"));
        assert_eq!(of(100).last(), Some(&"/workspace/first-ends"));
        // Nobody's acts are those of no call, but the guest's own.
        let strays: Vec<_> =
            trail.iter().filter(|one| one.call.is_none() && made(&one.act).is_some()).collect();
        assert!(strays.is_empty(), "{strays:#?}");
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

/// Programs that are linked with another C library, or none, make other calls than most.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_old_are_told_with_the_working_directory() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        let script = python(
            r"
os.makedirs('/workspace/a/b'); os.symlink('a', '/workspace/link')
os.chdir('/workspace/a'); os.chdir('b')
call(2, b'open', os.O_CREAT | os.O_WRONLY, 0o644); call(85, b'creat', 0o644)
here = os.open('.', os.O_RDONLY); os.chdir('/'); os.fchdir(here)
call(82, b'open', b'renamed'); call(86, b'creat', b'link'); call(88, b'x', b'symlink')
call(133, b'node', 0o644, 0); call(76, b'link', 0); call(87, b'link'); call(83, b'd', 0o755); call(84, b'd')
os.rename('renamed', 'again', src_dir_fd=here, dst_dir_fd=here)
call(437, -100, b'openat2', b'\0' * 24, 24)
",
        );
        run(&sandbox, 7, &script).await;
        let trail = sandbox.audit().await.unwrap();
        let acts: Vec<&AuditAct> = trail
            .iter()
            .filter(|record| record.call == Some(CallId(7)))
            .map(|record| &record.act)
            .skip_while(|act| made(act).is_none_or(|path| path != "/workspace/link"))
            .skip(1)
            .collect();
        let at = |name: &str| format!("/workspace/a/b/{name}");
        let opens = |name| AuditAct::OpenedForWriting { path: at(name) };
        let makes = |name| AuditAct::Created { path: at(name) };
        let deletes = |name| AuditAct::Deleted { path: at(name) };
        let renames = |from, to| AuditAct::Renamed { from: at(from), to: at(to) };
        let expected = [
            opens("open"),
            opens("creat"),
            renames("open", "renamed"),
            makes("link"),
            makes("symlink"),
            makes("node"),
            opens("link"),
            deletes("link"),
            makes("d"),
            deletes("d"),
            renames("renamed", "again"),
        ];
        assert_eq!(acts, expected.iter().collect::<Vec<_>>());
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

/// Many processes at once, each heard of about when its parent says that it made it; and more
/// at a time than fits into the pipe.
#[test]
fn nothing_is_missing_of_what_many_processes_do_at_once() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        let script = "for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3 4 5 6 7 8 9 10; do \
                      mkdir d$i.$j & : > f$i.$j; done; wait) & done; wait; \
                      python3 -c 'for i in range(3000): open(f\"g{i}\", \"w\").close()'";
        run(&sandbox, 1000, script).await;
        let trail = sandbox.audit().await.unwrap();
        assert_eq!(paths(&trail, 1000, made).len(), 80);
        let opened = paths(&trail, 1000, opened);
        let files = opened.iter().filter(|path| path.starts_with("/workspace/"));
        assert_eq!(files.count(), 80 + 3000);
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

#[test]
fn a_trail_goes_on_for_whoever_takes_the_sandbox_up_and_forks_have_their_own() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let backend = lab.backend();
        assert!(backend.capabilities().audits);
        let lifetime = Lifetime::Lingering(Duration::from_secs(60));
        let sandbox = Sandbox::open(&backend, Spec { lifetime, ..Spec::scratch() }).await.unwrap();
        let audit = |of: &Sandbox| {
            let facts = &of.isolation().facts;
            facts.iter().find(|fact| fact.part == "audit").unwrap().value.clone()
        };
        assert_eq!(audit(&sandbox), "system calls");
        sandbox.keep().await.unwrap();
        run(&sandbox, 1, "mkdir first").await;
        let id = sandbox.id();
        drop(sandbox);
        let sandbox = Sandbox::reattach(&backend, id, Limits::default()).await.unwrap();
        run(&sandbox, 2, "mkdir second").await;
        let snapshot = sandbox.snapshot().await.unwrap();
        let spec = Spec { workspace: Workspace::Fork(snapshot), ..Spec::scratch() };
        let fork = Sandbox::open(&backend, spec).await.unwrap();
        run(&fork, 3, "mkdir first/third").await;
        let trail = sandbox.audit().await.unwrap();
        assert_eq!(paths(&trail, 1, made), ["/workspace/first"]);
        assert_eq!(paths(&trail, 2, made), ["/workspace/second"]);
        assert_eq!(paths(&trail, 3, made), [""; 0]);
        let trail = fork.audit().await.unwrap();
        assert_eq!(paths(&trail, 3, made), ["/workspace/first/third"]);
        assert_eq!(paths(&trail, 1, made), [""; 0]);
        fork.close().await.unwrap();
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}
