//! Tests of the proxy as a whole: how it begins, waits for descriptors, and ends.

use std::net::IpAddr;

use cofferdam_types::AuditAct;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;

use super::*;

struct Nowhere;

impl Resolve for Nowhere {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::NotFound.into())))
    }
}

/// A proxy with this rule.
fn proxy(rule: &str) -> (Proxy, mpsc::Receiver<AuditRecord>) {
    let rules = vec![rule.parse().unwrap()];
    let (records, log) = mpsc::channel(8);
    let log_end = Log { records, clock: || 7 };
    (Proxy::new(Policy::new(rules), Settings::default(), Arc::new(Nowhere), log_end), log)
}

/// Both ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

async fn verdict(log: &mut mpsc::Receiver<AuditRecord>) -> (String, String) {
    match log.recv().await.unwrap().act {
        AuditAct::Egress { host, verdict, .. } => (host, verdict),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_shortage_is_waited_out_however_long_it_lasts() {
    for shortage in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
        let (proxy, mut log) = proxy("web.test");
        let (mut client, accepted) = pair().await;
        let (mut accepted, mut tries) = (Some(accepted), 0_u32);
        // The pauses between tries take no time.
        tokio::time::pause();
        let begun = Instant::now();
        let accept = async move || {
            tries += 1;
            if tries <= 10 * MOST_ACCEPT_FAILURES {
                return Err(shortage.into());
            }
            let Some(stream) = accepted.take() else { return std::future::pending().await };
            tokio::time::resume();
            Ok(stream)
        };
        let stop = CancellationToken::new();
        let asking = async {
            client.write_all(b"GET http://denied.test/ HTTP/1.1\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            stop.cancel();
            answer
        };
        let (served, answer) = tokio::join!(proxy.serve_from(accept, stop.clone()), asking);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{shortage}: {answer}");
        assert_eq!(served.unwrap(), Summary { connections: 1, unrecorded: 0 }, "{shortage}");
        assert!(verdict(&mut log).await.1.starts_with("denied: "), "{shortage}");
        assert!(log.recv().await.is_none(), "{shortage}");
        let pauses = ACCEPT_PAUSE * (10 * MOST_ACCEPT_FAILURES);
        assert!(begun.elapsed() >= pauses, "{shortage}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_listener_that_fails_is_given_up_and_the_records_say_why() {
    let host = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = host.local_addr().unwrap();
    let (proxy, mut log) = proxy(&address.to_string());
    let ((mut client, accepted), (_silent, other)) = (pair().await, pair().await);
    let mut accepted = vec![accepted, other];
    // It fails once the first connection stands.
    let (tell, mut told) = mpsc::channel::<()>(1);
    let accept = async || match accepted.pop() {
        Some(stream) => Ok(stream),
        None => {
            told.recv().await;
            Err(Errno::INVAL.into())
        }
    };
    let asking = async {
        let request = format!("CONNECT {address} HTTP/1.1\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let held = host.accept().await.unwrap();
        client.read_exact(&mut [0; 12]).await.unwrap();
        // The pauses between tries take no time.
        tokio::time::pause();
        drop(tell);
        held
    };
    let (served, _held) = tokio::join!(proxy.serve_from(accept, CancellationToken::new()), asking);
    assert!(matches!(served, Err(ServeError::Listener(_))), "{served:?}");

    let why = "the proxy had to end: cannot use the sandbox's listener: \
               Invalid argument (os error 22)";
    let mut told = vec![verdict(&mut log).await, verdict(&mut log).await];
    told.sort();
    let expected = [
        (String::new(), format!("failed: {why}")),
        ("127.0.0.1".to_owned(), format!("allowed, ended: {why}")),
    ];
    assert_eq!(told, expected);
    // Last of all, for those who were not accepted.
    assert_eq!(verdict(&mut log).await, expected[0]);
    assert!(log.recv().await.is_none());
}
