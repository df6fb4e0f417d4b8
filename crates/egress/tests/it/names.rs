//! Which names the host's resolver asks for, in a network whose only name server is the test.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use cofferdam_egress::{Resolve as _, SystemResolver};
use tokio::sync::Semaphore;

/// Set where the name server is ours.
const INSIDE: &str = "COFFERDAM_TEST_OWN_NAME_SERVER";

/// Puts each file in the place of another, has a loopback device, and goes on with the rest.
const SCRIPT: &str = r#"
cd "$1" && shift && ip link set lo up || exit 77
for name in *; do
    if [ -e "/etc/$name" ]; then mount --bind "$name" "/etc/$name" || exit 77; fi
done
exec "$@"
"#;

#[test]
fn a_name_is_asked_for_as_it_is_whatever_the_search_list_adds() {
    if std::env::var_os(INSIDE).is_some() {
        return ask();
    }
    if !["/etc/resolv.conf", "/etc/hosts"].iter().all(|file| Path::new(file).exists()) {
        eprintln!("skipped: this machine has no resolv.conf or no hosts file to put others upon");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write(
        "resolv.conf",
        "nameserver 127.0.0.1\nsearch corp.test\noptions ndots:3 timeout:1 attempts:1\n",
    );
    write("hosts", "192.0.2.7 intranet wiki.example.com\n");
    write("nsswitch.conf", "hosts: files dns\n");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--net", "sh", "-c", SCRIPT, "sh"])
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("names::a_name_is_asked_for_as_it_is_whatever_the_search_list_adds")
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || told.starts_with("unshare:") {
        eprintln!("skipped: no network with a name server of its own can be made here: {told}");
        return;
    }
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

/// Asks for names, and sees which of them reach the name server.
fn ask() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = UdpSocket::bind("127.0.0.1:53").unwrap();
    let heard = Arc::clone(&asked);
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = server.recv_from(&mut question) {
            let (name, reply) = answer(question.get(..length).unwrap());
            heard.lock().unwrap().push(name);
            server.send_to(&reply, from).unwrap();
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let turns = Arc::new(Semaphore::new(1));
    let resolve = |name: &str| -> Option<Vec<IpAddr>> {
        let turn = Arc::clone(&turns).try_acquire_owned().unwrap();
        runtime.block_on(SystemResolver.resolve(name, turn)).ok()
    };
    let only = |address: [u8; 4]| Some(vec![IpAddr::from(address)]);

    for name in ["intranet", "wiki.example.com"] {
        assert_eq!(resolve(name), only([192, 0, 2, 7]), "{name}");
        assert_eq!(*asked.lock().unwrap(), [] as [String; 0], "{name}");
    }
    // Each of these is known, but with the suffix.
    for name in ["stolen-data.example.com", "single"] {
        assert_eq!(resolve(name), None, "{name}");
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert!(!asked.is_empty() && asked.iter().all(|question| question == name), "{asked:?}");
    }
    assert_eq!(resolve("known.example.com"), only([192, 0, 2, 5]));
    assert!(asked.lock().unwrap().iter().all(|question| question == "known.example.com"));
}

/// The name that a question is about, and the answer: an address for those of `corp.test` and for
/// one other, if it is an IPv4 one that is wanted; no such name for all else.
fn answer(question: &[u8]) -> (String, Vec<u8>) {
    const HEAD: usize = 12;
    let mut labels = Vec::new();
    let mut at = HEAD;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    let name = labels.join(".");
    let kind = &question[at + 1..at + 3];
    let asked = &question[HEAD..at + 5];
    let known = name == "known.example.com" || name.ends_with(".corp.test");
    let given = u8::from(known && kind == [0, 1]);
    let code = if known { 0 } else { 3 };
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, 0x80 | code, 0, 1, 0, given, 0, 0, 0, 0]);
    reply.extend(asked);
    if given == 1 {
        // The name above, an address, for a minute.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 5]);
    }
    (name, reply)
}
