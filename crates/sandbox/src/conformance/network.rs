//! The network: closed unless opened, and tunnels that need none of it.

use std::time::{Duration, Instant};

use cofferdam_guest_protocol::TunnelTarget;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{DEADLINE, Failure, Lab, check, read_until, sh, start, text};
use crate::error::CallError;
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::tunnel::Tunnel;

super::promises! {
    closed, Nothing: "without a network there is only a loopback device, and no route";
    unreachable, Nothing: "without a network a connection fails at once, and no name is resolved";
    tcp_tunnel, Nothing: "a tunnel to a port inside carries bytes both ways";
    unix_tunnel, Nothing: "a tunnel to a socket inside carries bytes both ways";
    dead_tunnel, Nothing: "a tunnel to where nothing listens says so";
}

async fn closed(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let devices = text(&sandbox, "cut -s -d : -f 1 /proc/net/dev | grep -v '|'").await?;
    check!(devices.trim() == "lo", "the devices are {devices:?}");
    let routes = text(&sandbox, "tail -n +2 /proc/net/route").await?;
    check!(routes.is_empty(), "the routes are {routes:?}");
    let script = "test ! -e /proc/net/ipv6_route || awk '$10 != \"lo\"' /proc/net/ipv6_route";
    let routes = text(&sandbox, script).await?;
    check!(routes.is_empty(), "the routes are {routes:?}");
    Ok(())
}

async fn unreachable(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    for address in ["192.0.2.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"] {
        let begin = Instant::now();
        let script = format!("bash -c ': < /dev/tcp/{address}/80' 2> /dev/null");
        let result = sh(&sandbox, &script).await?;
        check!(!result.outcome.success(), "{address} answered");
        let took = begin.elapsed();
        check!(took < Duration::from_secs(10), "{address} failed only after {took:?}");
    }
    let begin = Instant::now();
    let result = sh(&sandbox, "getent ahosts example.com").await?;
    check!(!result.outcome.success(), "example.com is {:?}", result.stdout);
    let took = begin.elapsed();
    check!(took < Duration::from_secs(15), "the name failed only after {took:?}");
    Ok(())
}

/// An echo server over `socket`, which first prints what `name` gives.
async fn serve(sandbox: &Sandbox, socket: &str, name: &str) -> Result<(Process, String), Failure> {
    let script = format!(
        "command -v perl > /dev/null || {{ echo missing; exit; }}; exec perl -e 'use Socket; $| = 1; \
         {socket} listen(S, 5) || die $!; print \"\" . {name} . \"\\n\"; \
         while (accept(C, S)) {{ while (sysread(C, $b, 65536)) {{ my $o = 0; \
         while ($o < length $b) {{ $o += syswrite(C, $b, length($b) - $o, $o) }} }} close C }}'"
    );
    let mut process = start(sandbox, &script).await?;
    let said = read_until(&mut process, "\n").await?.trim().to_owned();
    if said == "missing" {
        return Err(Failure::NotApplicable("there is no perl to serve with".to_owned()));
    }
    Ok((process, said))
}

/// Sends a megabyte and more through, and expects it back.
async fn echo(mut tunnel: Tunnel) -> Result<(), Failure> {
    let sent: Vec<u8> = (0..1_500_000u32).map(|at| (at.wrapping_mul(40_503) >> 8) as u8).collect();
    let (mut reader, mut writer) = tokio::io::split(&mut tunnel);
    let send = async {
        writer.write_all(&sent).await?;
        writer.shutdown().await
    };
    let mut received = Vec::new();
    let receive = reader.read_to_end(&mut received);
    let both = async { tokio::try_join!(send, receive) };
    match tokio::time::timeout(DEADLINE, both).await {
        Ok(done) => done?,
        Err(_) => return Err(Failure::broken("the bytes did not come back in time")),
    };
    check!(received == sent, "{} bytes came back of {}, or others", received.len(), sent.len());
    Ok(())
}

async fn tcp_tunnel(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let socket = "socket(S, PF_INET, SOCK_STREAM, 0) || die $!; \
                  bind(S, sockaddr_in(0, INADDR_LOOPBACK)) || die $!;";
    let (_server, port) = serve(&sandbox, socket, "(sockaddr_in(getsockname(S)))[0]").await?;
    let port: u16 = port.parse().map_err(|_| Failure::broken(format!("port {port:?}")))?;
    for _ in 0..2 {
        let tunnel = sandbox.tunnel(sandbox.next_call_id(), TunnelTarget::Tcp(port)).await?;
        echo(tunnel).await?;
    }
    Ok(())
}

async fn unix_tunnel(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let socket = "socket(S, PF_UNIX, SOCK_STREAM, 0) || die $!; \
                  bind(S, sockaddr_un(\"/tmp/echo.sock\")) || die $!;";
    let (_server, _) = serve(&sandbox, socket, "\"ready\"").await?;
    let target = TunnelTarget::Unix(b"/tmp/echo.sock".into());
    echo(sandbox.tunnel(sandbox.next_call_id(), target).await?).await
}

async fn dead_tunnel(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let missing = TunnelTarget::Unix(b"/tmp/nothing.sock".into());
    for (target, wanted) in [(TunnelTarget::Tcp(9), 111), (missing, 2)] {
        match sandbox.tunnel(sandbox.next_call_id(), target.clone()).await {
            Err(CallError::Tunnel { errno, .. }) if errno == wanted => {}
            Err(error) => return Err(Failure::broken(format!("{target:?} gave {error}"))),
            Ok(_) => return Err(Failure::broken(format!("{target:?} was connected"))),
        }
    }
    Ok(())
}
