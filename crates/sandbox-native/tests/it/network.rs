//! The network that a sandbox has of its own, whenever it was made.

use std::fs;
use std::path::Path;

use cofferdam_sandbox::{Sandbox, Spec};
use cofferdam_sandbox_native::Native;

use crate::home::{Home, block_on, wait_until};

/// What names a network, beside the process that is in it or holds it.
fn named(link: &Path) -> Option<String> {
    let name = fs::read_link(link).ok()?.to_str()?.to_owned();
    name.starts_with("net:").then_some(name)
}

fn ours() -> String {
    named(Path::new("/proc/self/ns/net")).unwrap()
}

/// The network of a new sandbox, with nothing on it but a loopback that is up.
async fn of_a_new_sandbox(native: &Native) -> String {
    let sandbox = Sandbox::open(native, Spec::scratch()).await.unwrap();
    let script = "readlink /proc/self/ns/net; cut -sd: -f1 /proc/net/dev | tr -d ' '; \
                  grep -om1 127.0.0.1 /proc/net/fib_trie; cat /proc/net/route | wc -l";
    let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    let said = String::from_utf8(result.stdout.to_vec()).unwrap();
    let [network, "lo", "127.0.0.1", "1"] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    sandbox.close().await.unwrap();
    network.to_owned()
}

#[test]
fn a_sandbox_moves_to_a_network_of_its_own() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let first = of_a_new_sandbox(&native).await;
        assert!(first.starts_with("net:") && first != ours(), "{first}");
        home.assert_empty();
    });
}

/// The network that a waiting supervisor of this process's holds.
fn held_by_who_waits() -> Option<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children = lists.collect::<Vec<_>>().join(" ");
    let descriptors = children.split_whitespace().flat_map(|child| {
        fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten()
    });
    descriptors.filter_map(|descriptor| named(&descriptor.path())).next()
}

#[test]
fn whoever_waits_makes_the_network_too() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        native.prepare();
        wait_until("there is a network", || held_by_who_waits().is_some());
        let held = held_by_who_waits().unwrap();
        assert_ne!(held, ours());
        assert_eq!(of_a_new_sandbox(&native).await, held);
        home.assert_empty();
    });
}
