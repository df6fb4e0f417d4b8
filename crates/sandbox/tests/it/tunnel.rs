//! Tunnels are byte streams.

use cofferdam_guest_protocol::{Channel, Frame, Reply, Request, TunnelTarget};
use cofferdam_sandbox::CallError;
use cofferdam_types::CallId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fake_guest::{connected, stdout};

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_closes_each_way_by_itself() {
    let (client, mut guest) = connected().await;
    let play = async {
        assert_eq!(guest.request().await, (3, Request::Tunnel(TunnelTarget::Tcp(8080))));
        guest.send(Frame::Started { call: 3, pid: 0 }).await;
        // Echo all input, and end the output only after the input has ended.
        loop {
            match guest.frame().await {
                Frame::Data { call, bytes, .. } => {
                    guest.send(stdout(call, bytes)).await;
                }
                Frame::End { call, channel: Channel::Input } => {
                    guest.send(Frame::End { call, channel: Channel::Output }).await;
                    guest.send(Frame::Done { call, reply: Reply::Tunnel(Ok(())) }).await;
                }
                Frame::Ack { call: 3 } => break,
                other => panic!("unexpected {other:?}"),
            }
        }
    };
    let talk = async {
        let mut tunnel = client.tunnel(CallId(3), TunnelTarget::Tcp(8080)).await.unwrap();
        tunnel.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        tunnel.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
        tunnel.write_all(&vec![9; 300_000]).await.unwrap();
        tunnel.shutdown().await.unwrap();
        let mut rest = Vec::new();
        tunnel.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), 300_000);
        assert!(tunnel.write_all(b"more").await.is_err());
        drop(tunnel);
        // The frame may travel with a later one: closing sends it.
        client.close().await;
    };
    let ((), ()) = tokio::join!(play, talk);
}

#[tokio::test]
async fn a_port_that_nothing_listens_on_is_a_typed_error() {
    let (client, mut guest) = connected().await;
    let play = async {
        let (call, _) = guest.request().await;
        let reply = Reply::Tunnel(Err((111, "connection refused".into())));
        guest.send(Frame::Done { call, reply }).await;
    };
    let (tunnel, ()) = tokio::join!(client.tunnel(CallId(1), TunnelTarget::Tcp(1)), play);
    let wanted = CallError::Tunnel { errno: 111, message: "connection refused".into() };
    assert_eq!(tunnel.err(), Some(wanted));
}

#[tokio::test]
async fn a_tunnel_that_breaks_fails_to_read_rather_than_end() {
    let (client, mut guest) = connected().await;
    let play = async {
        let (call, _) = guest.request().await;
        guest.send_all([Frame::Started { call, pid: 0 }, stdout(call, "part")]).await;
        let reply = Reply::Tunnel(Err((104, "connection reset".into())));
        guest.send(Frame::Done { call, reply }).await;
    };
    let (tunnel, ()) = tokio::join!(client.tunnel(CallId(1), TunnelTarget::Tcp(1)), play);
    let mut all = Vec::new();
    let error = tunnel.unwrap().read_to_end(&mut all).await.unwrap_err();
    assert_eq!((all.as_slice(), error.raw_os_error()), (&b"part"[..], Some(104)));
}
