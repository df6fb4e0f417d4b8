//! A proxy on loopback, servers for it to reach, and a client to ask it.
//!
//! The proxy runs on its own thread; tests are plain blocking code. Everything
//! here ends when it is dropped.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cofferdam_egress::{Log, Policy, Proxy, Resolve, ServeError, Settings, Summary};
use cofferdam_types::{AuditAct, AuditRecord, Network};
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

/// No wait in a test is longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// What the injected clock says.
pub(crate) const NOW_US: u64 = 1_700_000_000_000_000;
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Waits until there is something.
pub(crate) fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(found) = poll() {
            return found;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("waited in vain for {what}");
}

/// A resolver that gives its answers in turn, the last one for ever, and
/// remembers what it was asked.
#[derive(Clone)]
pub(crate) struct Script {
    answers: Arc<Mutex<VecDeque<Vec<IpAddr>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    pub(crate) fn of(answers: impl IntoIterator<Item = Vec<IpAddr>>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self { answers, asked: Arc::default() }
    }

    pub(crate) fn loopback() -> Self {
        Self::of([vec![LOOPBACK]])
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for Script {
    fn resolve<'a>(
        &'a self,
        name: &'a str,
        _turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.len() {
            0 => Err(std::io::ErrorKind::NotFound.into()),
            1 => Ok(answers.front().unwrap().clone()),
            _ => Ok(answers.pop_front().unwrap()),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A proxy that is running.
pub(crate) struct Harness {
    pub(crate) port: u16,
    stop: CancellationToken,
    records: Option<mpsc::Receiver<AuditRecord>>,
    thread: Option<JoinHandle<Result<Summary, ServeError>>>,
}

impl Harness {
    /// A proxy with this allow-list, whose names all lead to loopback.
    pub(crate) fn start(list: &str) -> Self {
        Self::with(list, Script::loopback(), Settings::default(), 64)
    }

    pub(crate) fn with(
        list: &str,
        resolver: impl Resolve + 'static,
        settings: Settings,
        log_room: usize,
    ) -> Self {
        let Ok(Network::Allow(rules)) = format!("allow:{list}").parse() else {
            panic!("{list} is no allow-list");
        };
        let (sender, records) = mpsc::channel(log_room);
        let log = Log { records: sender, clock: || NOW_US };
        let proxy = Proxy::new(Policy::new(rules), settings, Arc::new(resolver), log);
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let token = stop.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(proxy.serve(listener, token))
        });
        Self { port, stop, records: Some(records), thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((LOOPBACK, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes and reads the answer to its end.
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).unwrap();
        read_all(&mut stream)
    }

    /// Asks for a tunnel; the answer is its head, and the stream.
    pub(crate) fn tunnel(&self, authority: &str) -> (String, TcpStream) {
        let mut stream = self.connect();
        write!(stream, "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").unwrap();
        let head = read_until(&mut stream, b"\r\n\r\n");
        (String::from_utf8(head).unwrap(), stream)
    }

    /// The next record: host, port, verdict, bytes sent and received.
    pub(crate) fn record(&mut self) -> (String, u16, String, u64, u64) {
        let records = self.records.as_mut().unwrap();
        let record = wait_for("a record", || records.try_recv().ok());
        assert_eq!((record.at_us, record.call, record.pid), (NOW_US, None, 0));
        match record.act {
            AuditAct::Egress { host, port, verdict, sent, received } => {
                (host, port, verdict, sent, received)
            }
            other => panic!("{other:?} is no egress"),
        }
    }

    pub(crate) fn verdict(&mut self) -> String {
        self.record().2
    }

    /// Whether the log has a record now.
    pub(crate) fn has_record(&mut self) -> bool {
        self.records.as_mut().is_some_and(|records| !records.is_empty())
    }

    pub(crate) fn close_log(&mut self) {
        self.records = None;
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    pub(crate) fn request_stop(&self) {
        self.stop.cancel();
    }

    /// Stops the proxy and waits for its end.
    pub(crate) fn stop(mut self) -> Result<Summary, ServeError> {
        self.stop.cancel();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.stop.cancel();
        self.records = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A server on loopback that gives each connection to a handler.
pub(crate) struct Server {
    pub(crate) port: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let handle = Arc::new(handle);
        let thread = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if until.load(Ordering::SeqCst) {
                    break;
                }
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let handle = Arc::clone(&handle);
                thread::spawn(move || handle(stream));
            }
        });
        Self { port, ended, thread: Some(thread) }
    }

    /// Sends back what it gets; ends its half when the other is ended.
    pub(crate) fn echo() -> Self {
        Self::start(|mut stream| {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                if stream.write_all(&piece[..count]).is_err() {
                    return;
                }
            }
            drop(stream.shutdown(Shutdown::Write));
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        drop(TcpStream::connect((LOOPBACK, self.port)));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Reads to the end of the stream. A reset ends it too.
pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until these bytes have come, and not beyond; or to the end.
pub(crate) fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(end) && matches!(stream.read(&mut byte), Ok(1)) {
        bytes.push(byte[0]);
    }
    bytes
}
