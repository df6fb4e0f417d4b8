//! A guest that does what a test tells it, over a stream in memory.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::{
    Channel, Decoder, Exec, ExecEnd, ExecReport, Frame, HELLO_LEN, Hello, Leftovers, OutputMode,
    Program, Reply, Request, Stdin, encode,
};
use cofferdam_sandbox::{GuestClient, GuestStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Longer than any test takes, so that a mistake ends in a message.
const DEADLINE: Duration = Duration::from_secs(100);

/// The guest's end of the stream.
pub(crate) struct FakeGuest {
    stream: DuplexStream,
    decoder: Decoder,
}

/// A client and the guest it is connected to.
pub(crate) async fn connected() -> (GuestClient, FakeGuest) {
    connected_over(1 << 20).await
}

/// The same over a stream that holds only so many bytes.
pub(crate) async fn connected_over(capacity: usize) -> (GuestClient, FakeGuest) {
    let (host, guest) = tokio::io::duplex(capacity);
    let stream: GuestStream = Box::new(host);
    let (client, guest) = tokio::join!(GuestClient::connect(stream), FakeGuest::accept(guest));
    (client.unwrap(), guest)
}

impl FakeGuest {
    /// Exchanges hellos.
    pub(crate) async fn accept(mut stream: DuplexStream) -> Self {
        let mut hello = [0; HELLO_LEN];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(Hello::from_bytes(hello), Ok(Hello::ours()));
        stream.write_all(&Hello::ours().to_bytes()).await.unwrap();
        Self { stream, decoder: Decoder::default() }
    }

    /// The next frame of the host; `None` when it closed the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                if let Some(frame) = self.decoder.next_frame().unwrap() {
                    return Some(frame);
                }
                if self.stream.read_buf(self.decoder.buffer()).await.unwrap() == 0 {
                    return None;
                }
            }
        };
        tokio::time::timeout(DEADLINE, next).await.expect("the host sent nothing")
    }

    /// The next frame, which there must be.
    pub(crate) async fn frame(&mut self) -> Frame {
        self.next().await.expect("the host closed the stream")
    }

    /// The next frame, which must be a request.
    pub(crate) async fn request(&mut self) -> (u64, Request) {
        match self.frame().await {
            Frame::Request { call, request } => (call, request),
            other => panic!("a request was expected, not {other:?}"),
        }
    }

    /// The next frame, which must ask for the calls, as a host does that wants to hear
    /// something.
    pub(crate) async fn question(&mut self) -> u64 {
        let (call, request) = self.request().await;
        assert_eq!(request, Request::Calls);
        call
    }

    /// Answers a question.
    pub(crate) async fn answer(&mut self, call: u64) {
        self.send(Frame::Done { call, reply: Reply::Calls(Vec::new()) }).await;
    }

    /// Nothing comes for this long.
    pub(crate) async fn is_left_alone(&mut self, span: Duration) {
        assert_eq!(self.decoder.next_frame(), Ok(None));
        let read = self.stream.read_buf(self.decoder.buffer());
        assert!(tokio::time::timeout(span, read).await.is_err(), "something came");
    }

    pub(crate) async fn send(&mut self, frame: Frame) {
        self.send_all([frame]).await;
    }

    /// Sends frames in one write.
    pub(crate) async fn send_all(&mut self, frames: impl IntoIterator<Item = Frame>) {
        let mut bytes = Vec::new();
        for frame in frames {
            encode(&frame, &mut bytes).unwrap();
        }
        self.send_raw(&bytes).await;
    }

    /// Sends bytes that need not be frames.
    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        tokio::time::timeout(DEADLINE, self.stream.write_all(bytes))
            .await
            .expect("the host reads nothing")
            .unwrap();
    }
}

/// A command, as far as a test cares.
pub(crate) fn exec(stdin: Stdin) -> Exec {
    Exec {
        program: Program::Shell(b"true".into()),
        cwd: b"/workspace".into(),
        env: Vec::new(),
        stdin,
        pty: None,
        timeout_ms: None,
        grace_ms: 0,
        output: OutputMode::Stream,
        leftovers: Leftovers::Keep,
    }
}

pub(crate) fn report(end: ExecEnd) -> ExecReport {
    ExecReport {
        end,
        output: (0, 0),
        error: (0, 0),
        duration_us: 1,
        cpu_us: 1,
        peak_memory: 1,
        left_running: 0,
    }
}

pub(crate) fn done(call: u64, end: ExecEnd) -> Frame {
    Frame::Done { call, reply: Reply::Exec(report(end)) }
}

pub(crate) fn stdout(call: u64, bytes: impl Into<Bytes>) -> Frame {
    Frame::Data { call, channel: Channel::Output, bytes: bytes.into() }
}

pub(crate) fn stderr(call: u64, bytes: impl Into<Bytes>) -> Frame {
    Frame::Data { call, channel: Channel::Error, bytes: bytes.into() }
}
