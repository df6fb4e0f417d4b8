//! The way out of a sandbox: only through the proxy, only to what is listed.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;

use cofferdam_egress::Resolve;
use cofferdam_sandbox::{ExecResult, Sandbox, Spec};
use cofferdam_types::{AuditAct, Network};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use crate::home::{Home, block_on};
use crate::probes;

/// Names that are known to the tests alone.
struct Names(Ipv4Addr);

impl Resolve for Names {
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        _turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let known = name.ends_with(".test");
        async move {
            if known {
                Ok(vec![IpAddr::V4(self.0)])
            } else {
                Err(std::io::ErrorKind::NotFound.into())
            }
        }
        .boxed()
    }
}

/// A server that answers every connection with one page.
fn serve(address: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().take(100) {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok() {
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    });
    Ok(address)
}

async fn open(home: &Home, rules: &str, address: Ipv4Addr) -> Sandbox {
    let native = home.native().resolving_by(Arc::new(Names(address)));
    let network: Network = rules.parse().unwrap();
    Sandbox::open(&native, Spec { network, ..Spec::scratch() }).await.unwrap()
}

async fn sh(sandbox: &Sandbox, script: String) -> ExecResult {
    sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap()
}

#[test]
fn only_what_is_listed_can_be_reached_and_every_attempt_is_written_down() {
    block_on(async {
        let home = Home::new();
        let server = serve("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = server.port();
        let rules = format!("allow:site.test:{port},127.0.0.1:{port}");
        let sandbox = open(&home, &rules, Ipv4Addr::LOCALHOST).await;

        let page = sh(&sandbox, format!("curl -sS http://site.test:{port}/")).await;
        assert_eq!(&page.stdout[..], b"hello\n", "{page:?}");
        let socks = format!("curl -sS --socks5-hostname 127.0.0.1:3128 http://site.test:{port}/");
        assert_eq!(&sh(&sandbox, socks).await.stdout[..], b"hello\n");
        let python = format!(
            "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://site.test:{port}/\").read())'"
        );
        assert_eq!(&sh(&sandbox, python).await.stdout[..], b"b'hello\\n'\n");

        let other = sh(&sandbox, format!("curl -sS http://other.test:{port}/")).await;
        let text = String::from_utf8_lossy(&other.stdout).into_owned();
        assert!(text.contains("not in the allow-list"), "{other:?}");
        let direct =
            sh(&sandbox, format!("curl -sS --noproxy '*' -m 5 http://127.0.0.1:{port}/")).await;
        assert!(!direct.outcome.success(), "past the proxy there is nothing: {direct:?}");
        let resolve = sh(&sandbox, "getent hosts site.test".to_owned()).await;
        assert!(!resolve.outcome.success(), "no name is resolved inside: {resolve:?}");

        let egress: Vec<(String, bool)> = sandbox
            .audit()
            .await
            .unwrap()
            .into_iter()
            .filter_map(|record| match record.act {
                AuditAct::Egress { host, verdict, .. } => {
                    Some((host, verdict.starts_with("allowed")))
                }
                _ => None,
            })
            .collect();
        let expected =
            [("site.test", true), ("site.test", true), ("site.test", true), ("other.test", false)];
        let expected: Vec<(String, bool)> =
            expected.map(|(host, allowed)| (host.to_owned(), allowed)).to_vec();
        assert_eq!(egress, expected);
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn what_goes_out_can_be_ended_and_is_written_down_then() {
    block_on(async {
        let home = Home::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // It answers once, and holds the connection until the test is over.
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 10]).unwrap();
            stream.write_all(b"k").unwrap();
            (listener, stream)
        });
        let rules = format!("allow:site.test:{port},127.0.0.1:{port}");
        let sandbox = open(&home, &rules, Ipv4Addr::LOCALHOST).await;
        let connect = format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT site.test:{port} HTTP/1.1\\r\\n\\r\\n' >&3; \
             read -r -t 20 line <&3; echo \"$line\"; read -r -t 20 line <&3; "
        );
        let bash = async |script: String| {
            let command = sandbox.argv(["bash", "-c", &script]);
            sandbox.run(sandbox.next_call_id(), command).await.unwrap()
        };
        let sent =
            bash(format!("{connect} printf 0123456789 >&3; read -r -t 20 -N 1 k <&3; echo $k"))
                .await;
        let shown = String::from_utf8_lossy(&sent.stdout).into_owned();
        assert!(shown.starts_with("HTTP/1.1 200 ") && shown.ends_with("k\n"), "{sent:?}");

        sandbox.end_egress().await;
        let trail = sandbox.audit().await.unwrap();
        let egress: Vec<AuditAct> = trail
            .into_iter()
            .map(|record| record.act)
            .filter(|act| matches!(act, AuditAct::Egress { .. }))
            .collect();
        let (host, verdict) =
            ("site.test".to_owned(), "allowed, ended with the sandbox".to_owned());
        assert_eq!(egress, [AuditAct::Egress { host, port, verdict, sent: 10, received: 1 }]);

        // For good: nobody is let out after that, and to end it again is nothing.
        let (listener, _held) = server.join().unwrap();
        listener.set_nonblocking(true).unwrap();
        let after = bash(connect.replace("-t 20", "-t 0.3")).await;
        assert!(!String::from_utf8_lossy(&after.stdout).contains("200"), "{after:?}");
        assert!(listener.accept().is_err());
        sandbox.end_egress().await;
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn a_repository_is_cloned_through_the_proxy() {
    block_on(async {
        let home = Home::new();
        let bare = home.directory("served");
        let git = |arguments: &[&str]| {
            let status = Command::new("git")
                .args([
                    "-c",
                    "user.name=t",
                    "-c",
                    "user.email=t@t.test",
                    "-c",
                    "init.defaultBranch=main",
                ])
                .args(arguments)
                .current_dir(&bare)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .output()
                .unwrap();
            assert!(status.status.success(), "{status:?}");
        };
        git(&["init", "-q", "work"]);
        std::fs::write(bare.join("work/file"), "content\n").unwrap();
        git(&["-C", "work", "add", "."]);
        git(&["-C", "work", "commit", "-q", "-m", "first"]);
        git(&["clone", "-q", "--bare", "work", "repository.git"]);
        git(&["-C", "repository.git", "update-server-info"]);
        let mut server = Command::new("/usr/bin/python3")
            .args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0"])
            .current_dir(&bare)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut banner = [0; 256];
        let read = server.stdout.as_mut().unwrap().read(&mut banner).unwrap();
        let banner = String::from_utf8_lossy(&banner[..read]).into_owned();
        let port = banner.split("port ").nth(1).unwrap().split(' ').next().unwrap().to_owned();

        let sandbox =
            open(&home, &format!("allow:git.test:{port},127.0.0.1:{port}"), Ipv4Addr::LOCALHOST)
                .await;
        let script = format!("git clone -q http://git.test:{port}/repository.git r && cat r/file");
        let cloned = sh(&sandbox, script).await;
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(&cloned.stdout[..], b"content\n", "{cloned:?}");
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn the_proxys_probes_pass() {
    let Some(directory) = probes::directory() else { return };
    block_on(async {
        let home = Home::new();
        let address = Ipv4Addr::new(127, 0, 0, 9);
        // Only root may listen there; without a server the positive control is
        // answered 502 and proves nothing, so it is left out.
        let listening = serve(SocketAddr::from((address, 443))).is_ok();
        let native = home.native().resolving_by(Arc::new(Names(address)));
        let network: Network = format!("allow:allowed.test:443,{address}:443").parse().unwrap();
        let spec = Spec { network, ..Spec::scratch() };
        let variables = [
            ("PROBE_PROXY", "http://127.0.0.1:3128".to_owned()),
            ("PROBE_ALLOWED_HOST", "allowed.test".to_owned()),
            ("PROBE_DENIED_HOST", "denied.test".to_owned()),
        ];
        let numbers: &[&str] = if listening {
            &["045", "046", "049", "050", "051"]
        } else {
            &["045", "046", "050", "051"]
        };
        let verdicts = probes::verdicts(&native, spec, &directory, numbers, &variables).await;
        assert_eq!(verdicts.of_kind("PASS"), numbers);
        home.assert_empty();
    });
}

#[test]
fn the_way_out_is_the_same_for_an_ordinary_user() {
    crate::ordinary_user::again(&[
        "egress::only_what_is_listed_can_be_reached_and_every_attempt_is_written_down",
        "egress::what_goes_out_can_be_ended_and_is_written_down_then",
        "egress::a_repository_is_cloned_through_the_proxy",
        "egress::the_proxys_probes_pass",
    ]);
}
