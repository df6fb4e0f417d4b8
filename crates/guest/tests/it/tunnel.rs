//! Tunnels to what listens inside the sandbox.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::thread;

use cofferdam_guest_protocol::{Channel, Control, Reply, Request, TunnelTarget};

use crate::guest::Guest;

/// Sends everything back, then says goodbye.
fn echo(stream: &mut (impl Read + Write)) {
    let mut buffer = [0; 65_536];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            count => stream.write_all(&buffer[..count]).unwrap(),
        }
    }
    stream.write_all(b"goodbye").unwrap();
}

#[test]
fn megabytes_go_through_both_ways_and_a_half_close_is_passed_on() {
    let guest = Guest::start();
    let mut client = guest.connect();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || echo(&mut listener.accept().unwrap().0));
        let sent: Vec<u8> = (0..5 << 20).map(|at: u32| (at * 11 % 249) as u8).collect();

        let call = client.tunnel(TunnelTarget::Tcp(port));
        client.pump_until(call, |outcome| outcome.started == Some(0));
        client.feed(call, &sent);
        client.end_input(call);
        let outcome = client.finish(call);

        server.join().unwrap();
        assert_eq!(outcome.reply, Some(Reply::Tunnel(Ok(()))));
        assert!(outcome.output == [sent.as_slice(), b"goodbye"].concat());
        assert_eq!(outcome.ended, [Channel::Output]);
    }
}

#[test]
fn unix_sockets_are_reached_too() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let path = guest.workspace().join("listener");
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let server = thread::spawn(move || echo(&mut listener.accept().unwrap().0));
    let call = client.tunnel(TunnelTarget::Unix(path.into_os_string().into_encoded_bytes()));
    // Sent before the tunnel is known to be connected.
    client.feed(call, b"early ");
    client.end_input(call);
    assert_eq!(client.finish(call).output, b"early goodbye");
    server.join().unwrap();
}

#[test]
fn the_other_half_stays_open_when_the_server_closes_first() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    let call = client.tunnel(TunnelTarget::Tcp(port));
    // It is told at once, and nothing else ends with it.
    client.pump_until(call, |outcome| outcome.ended == [Channel::Output]);
    client.feed(call, b"still heard");
    assert!(client.outcome(call).reply.is_none());
    client.end_input(call);
    assert_eq!(client.finish(call).reply, Some(Reply::Tunnel(Ok(()))));
    assert_eq!(server.join().unwrap(), b"still heard");
}

#[test]
fn nobody_there_is_an_error_with_its_number() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let long = vec![b'a'; 300];
    let targets = [
        (TunnelTarget::Tcp(unused), libc::ECONNREFUSED),
        (TunnelTarget::Unix(b"/nonexistent/socket".to_vec()), libc::ENOENT),
        (TunnelTarget::Unix(long), libc::ENAMETOOLONG),
    ];
    for (target, expected) in targets {
        let call = client.tunnel(target);
        let outcome = client.finish(call);
        let Some(Reply::Tunnel(Err((errno, text)))) = outcome.reply else { panic!() };
        assert_eq!(errno, expected, "{text}");
        assert_eq!(outcome.started, None);
    }
}

#[test]
fn a_tunnel_can_be_killed() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = client.tunnel(TunnelTarget::Tcp(listener.local_addr().unwrap().port()));
    let (mut stream, _) = listener.accept().unwrap();
    client.control(call, Control::Kill);
    assert!(matches!(client.finish(call).reply, Some(Reply::Tunnel(Err(_)))));
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_tunnel_ends_with_its_host_and_is_forgotten() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = client.tunnel(TunnelTarget::Tcp(listener.local_addr().unwrap().port()));
    let (mut stream, _) = listener.accept().unwrap();
    client.pump_until(call, |outcome| outcome.started.is_some());
    drop(client);
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    let mut client = guest.connect();
    let asked = client.request(Request::Calls);
    assert_eq!(client.finish(asked).reply, Some(Reply::Calls(Vec::new())));
}

#[test]
fn a_server_that_does_not_read_holds_up_nothing() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = client.tunnel(TunnelTarget::Tcp(listener.local_addr().unwrap().port()));
    let (_stream, _) = listener.accept().unwrap();
    client.feed(call, &vec![0; 1 << 20]);
    assert!(client.run(crate::client::argv(&["true"])).reply.is_some());
    client.control(call, Control::Kill);
    client.finish(call);
}
