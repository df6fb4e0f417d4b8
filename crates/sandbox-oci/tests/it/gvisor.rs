//! What is different about sandboxes whose kernel is a program, beyond the promises of all.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use cofferdam_native_supervisor::places::Places;
use cofferdam_sandbox::{Grade, OpenError, Sandbox, SandboxError, Spec, Workspace};
use cofferdam_sandbox_oci::Kind;
use cofferdam_types::{Limits, Network, Outcome};

use crate::engines::{Lab, block_on};

/// How long a job may be in the dark about a kernel that is gone.
const IN_THE_DARK: Duration = Duration::from_secs(10);

async fn sh(sandbox: &Sandbox, script: &str) -> (Outcome, String) {
    let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    (result.outcome, String::from_utf8_lossy(&result.stdout).into_owned())
}

#[test]
fn it_has_a_kernel_of_its_own_and_says_so() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let spec = Spec { require: Grade::Virtual, ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
        assert_eq!(sandbox.isolation().grade, Grade::Virtual);
        let facts = &sandbox.isolation().facts;
        assert!(facts.iter().any(|fact| fact.part == "kernel" && fact.value.contains("gVisor")));
        let (_, inside) = sh(&sandbox, "uname -r").await;
        let outside = rustix::system::uname();
        assert_ne!(inside.trim(), outside.release().to_str().unwrap());
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

/// A server that answers every connection with one page; its port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(10) {
            let Ok(mut stream) = stream else { return };
            if stream.read(&mut [0; 4096]).is_ok() {
                let page =
                    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
                stream.write_all(page.as_bytes()).ok();
            }
        }
    });
    port
}

#[test]
fn the_proxy_is_the_only_way_out_of_it() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    let port = serve();
    block_on(async {
        let network: Network = format!("allow:127.0.0.1:{port}").parse().unwrap();
        let spec = Spec { network, ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
        let curl = |options: &str, port: u16| {
            format!("curl -sS -m 20 {options} http://127.0.0.1:{port}/ 2>&1")
        };
        let proxied = "--noproxy '' --proxy http://127.0.0.1:3128";
        let (outcome, said) = sh(&sandbox, &curl(proxied, port)).await;
        assert_eq!(said, "hello\n", "{outcome:?}");
        let (_, said) = sh(&sandbox, &curl(proxied, port.wrapping_add(1))).await;
        assert!(said.contains("no connection to"), "{said}");
        let (outcome, said) = sh(&sandbox, &curl("--noproxy '*'", port)).await;
        assert!(!outcome.success(), "past the proxy there is nothing: {said}");
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

/// What the kernel is a program of can be killed from outside: that ends the sandbox, keeps
/// its changes, and is told.
#[test]
fn a_job_whose_kernel_is_killed_is_told_so_in_time() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    let directory = lab.directory("project");
    block_on(async {
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
        let command = sandbox.shell("echo done > file; echo here; sleep 1000");
        let mut process = sandbox.start(sandbox.next_call_id(), command).await.unwrap();
        process.next_output().await.unwrap();
        let begun = Instant::now();
        lab.kill_in_group(sandbox.id(), "runsc-sandbox");
        let ended = tokio::time::timeout(IN_THE_DARK, process.wait()).await;
        assert!(ended.expect("it ends in time").is_err(), "its end is not known");
        assert!(begun.elapsed() < IN_THE_DARK);
        drop(sandbox.close().await);
    });
    lab.assert_empty();
    assert_eq!(fs::read_to_string(directory.join("file")).unwrap(), "done\n");
}

/// The kernel inside counts time in which it was kept from the CPU as used, so what is
/// looked at is whether the host's keeps it.
#[test]
fn its_busy_processes_are_kept_waiting_at_the_limit() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    block_on(async {
        let limits = Limits { milli_cpus: 200, ..Limits::default() };
        let spec = Spec { limits, ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
        let throttled = || {
            let places = Places::find().directories();
            let group = format!("cofferdam-{}", sandbox.id());
            let files = places.iter().map(|place| place.join(&group).join("cpu.stat"));
            let text = files.filter_map(|file| fs::read_to_string(file).ok()).next().unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
            line.unwrap().parse::<u64>().unwrap()
        };
        let before = throttled();
        let (outcome, _) = sh(&sandbox, "timeout 2 sh -c 'while :; do :; done'").await;
        assert_eq!(outcome, Outcome::Exited { exit_code: 124 });
        assert!(throttled() > before, "it was never kept waiting");
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

#[test]
fn memory_that_does_not_do_for_a_kernel_is_refused_with_the_remedy() {
    let Some(lab) = Lab::new(Kind::Runsc) else { return };
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let spec = Spec { limits, ..Spec::scratch() };
    match block_on(Sandbox::open(&lab.backend(), spec)).err().unwrap() {
        SandboxError::Open(OpenError::Invalid { cause, remedy }) => {
            assert!(cause.contains("memory") && remedy.contains("64 MB"), "{cause}: {remedy}");
        }
        other => panic!("{other:?}"),
    }
    lab.assert_empty();
}
