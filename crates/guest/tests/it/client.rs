//! A small host: sends frames, keeps what comes for each call, and checks that
//! the guest keeps to the protocol.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use cofferdam_guest_protocol::{
    CHUNK, Channel, Control, Decoder, Exec, ExecEnd, ExecReport, FileError, FileReply, FileRequest,
    Frame, HELLO_LEN, Hello, Leftovers, OutputMode, Program, RecordDecoder, Reply, Request, Stdin,
    TunnelTarget, WINDOW, encode,
};

use crate::guest::PATIENCE;

/// What came for a call.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) started: Option<u32>,
    pub(crate) output: Vec<u8>,
    pub(crate) error: Vec<u8>,
    /// Bytes received, also those that were not kept.
    pub(crate) received: [u64; 2],
    /// Where bytes of output are missing, and how many.
    pub(crate) gaps: Vec<(Channel, usize, u64)>,
    pub(crate) ended: Vec<Channel>,
    pub(crate) reply: Option<Reply>,
    pub(crate) input_sent: u64,
    pub(crate) input_consumed: u64,
    granted: [u64; 2],
}

impl Outcome {
    pub(crate) fn report(&self) -> &ExecReport {
        match &self.reply {
            Some(Reply::Exec(report)) => report,
            other => panic!("no report of a command: {other:?}"),
        }
    }

    pub(crate) fn end(&self) -> &ExecEnd {
        &self.report().end
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.output.clone()).unwrap()
    }

    pub(crate) fn file(&self) -> Result<FileReply, FileError> {
        match &self.reply {
            Some(Reply::File(answer)) => answer.clone(),
            other => panic!("no answer about a file: {other:?}"),
        }
    }

    pub(crate) fn records<T: serde::de::DeserializeOwned>(&self) -> Vec<T> {
        let mut decoder = RecordDecoder::default();
        decoder.push(&self.output);
        let mut records = Vec::new();
        while let Some(record) = decoder.next_record().unwrap() {
            records.push(record);
        }
        records
    }
}

/// A connection to a guest.
pub(crate) struct Client {
    stream: UnixStream,
    decoder: Decoder,
    calls: BTreeMap<u64, Outcome>,
    next: u64,
    /// Whether what comes counts as consumed at once.
    pub(crate) consumes: bool,
    /// Whether output is kept; otherwise it is only counted.
    pub(crate) keeps: bool,
}

impl Client {
    /// Says hello over a stream.
    pub(crate) fn new(mut stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&Hello::ours().to_bytes()).unwrap();
        let mut hello = [0; HELLO_LEN];
        stream.read_exact(&mut hello).unwrap();
        Hello::ours().agree(Hello::from_bytes(hello).unwrap()).unwrap();
        Self {
            stream,
            decoder: Decoder::default(),
            calls: BTreeMap::new(),
            next: 1,
            consumes: true,
            keeps: true,
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn request(&mut self, request: Request) -> u64 {
        let call = self.next;
        self.next += 1;
        self.request_as(call, request);
        call
    }

    pub(crate) fn request_as(&mut self, call: u64, request: Request) {
        self.calls.insert(call, Outcome::default());
        self.send(&Frame::Request { call, request });
    }

    pub(crate) fn exec(&mut self, exec: Exec) -> u64 {
        self.request(Request::Exec(exec))
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, exec: Exec) -> Outcome {
        let call = self.exec(exec);
        self.finish(call)
    }

    /// Carries out a file request without input.
    pub(crate) fn file(&mut self, request: FileRequest) -> Outcome {
        self.file_with(request, b"")
    }

    /// Carries out a file request with input.
    pub(crate) fn file_with(&mut self, request: FileRequest, input: &[u8]) -> Outcome {
        let call = self.request(Request::File(request));
        self.feed(call, input);
        self.end_input(call);
        self.finish(call)
    }

    pub(crate) fn tunnel(&mut self, target: TunnelTarget) -> u64 {
        self.request(Request::Tunnel(target))
    }

    pub(crate) fn control(&mut self, call: u64, control: Control) {
        self.send(&Frame::Control { call, control });
    }

    /// Takes a call of another connection up.
    pub(crate) fn resume(&mut self, call: u64, known: Outcome) {
        let [output, error] = known.received;
        let known = Outcome { ended: Vec::new(), granted: [output, error], ..known };
        self.calls.insert(call, known);
        self.send(&Frame::Resume { call, output, error });
    }

    /// What has come for a call so far, taken out of this connection.
    pub(crate) fn take(&mut self, call: u64) -> Outcome {
        self.calls.remove(&call).unwrap()
    }

    pub(crate) fn outcome(&self, call: u64) -> &Outcome {
        &self.calls[&call]
    }

    /// Sends input as far as the window allows, and waits for more of it.
    pub(crate) fn feed(&mut self, call: u64, input: &[u8]) {
        for chunk in input.chunks(CHUNK) {
            let full = |outcome: &Outcome| {
                outcome.input_sent + chunk.len() as u64 > outcome.input_consumed + WINDOW
            };
            while full(self.outcome(call)) && self.outcome(call).reply.is_none() {
                self.pump();
            }
            if self.outcome(call).reply.is_some() {
                return;
            }
            self.calls.get_mut(&call).unwrap().input_sent += chunk.len() as u64;
            let bytes = Bytes::copy_from_slice(chunk);
            self.send(&Frame::Data { call, channel: Channel::Input, bytes });
        }
    }

    pub(crate) fn end_input(&mut self, call: u64) {
        self.send(&Frame::End { call, channel: Channel::Input });
    }

    /// Waits until a call is done, and acknowledges it.
    pub(crate) fn finish(&mut self, call: u64) -> Outcome {
        self.wait_done(call);
        self.send(&Frame::Ack { call });
        self.take(call)
    }

    pub(crate) fn wait_done(&mut self, call: u64) {
        self.pump_until(call, |outcome| outcome.reply.is_some());
    }

    /// Takes frames until what has come for a call is as it should be.
    pub(crate) fn pump_until(&mut self, call: u64, ready: impl Fn(&Outcome) -> bool) {
        while !ready(self.outcome(call)) {
            self.pump();
        }
    }

    /// Grants everything that has come for a call.
    pub(crate) fn consume(&mut self, call: u64) {
        for (index, channel) in [Channel::Output, Channel::Error].into_iter().enumerate() {
            let outcome = self.calls.get_mut(&call).unwrap();
            let total = outcome.received[index];
            if total > outcome.granted[index] {
                outcome.granted[index] = total;
                self.send(&Frame::Consumed { call, channel, total });
            }
        }
    }

    /// Takes one frame.
    pub(crate) fn pump(&mut self) {
        let Some(frame) = self.next_frame() else { panic!("the guest has closed the connection") };
        let call = match &frame {
            Frame::Data { call, .. }
            | Frame::End { call, .. }
            | Frame::Consumed { call, .. }
            | Frame::Gap { call, .. }
            | Frame::Started { call, .. }
            | Frame::Done { call, .. } => *call,
            other => panic!("a guest does not send {other:?}"),
        };
        let Some(outcome) = self.calls.get_mut(&call) else { return };
        let index = |channel: Channel| usize::from(channel == Channel::Error);
        assert!(outcome.reply.is_none(), "a frame after the reply: {frame:?}");
        match frame {
            Frame::Data { channel, bytes, .. } => {
                assert!(!outcome.ended.contains(&channel), "data after the end");
                let at = index(channel);
                outcome.received[at] += bytes.len() as u64;
                assert!(
                    outcome.received[at] - outcome.granted[at] <= WINDOW,
                    "more than the window allows"
                );
                if self.keeps {
                    let kept = if at == 0 { &mut outcome.output } else { &mut outcome.error };
                    kept.extend_from_slice(&bytes);
                }
                if self.consumes && outcome.received[at] - outcome.granted[at] >= WINDOW / 4 {
                    self.consume(call);
                }
            }
            Frame::Gap { channel, dropped, .. } => {
                let at = outcome.received[index(channel)] as usize;
                if outcome.gaps.last() != Some(&(channel, at, dropped)) {
                    outcome.gaps.push((channel, at, dropped));
                }
            }
            Frame::End { channel, .. } => outcome.ended.push(channel),
            Frame::Consumed { channel, total, .. } => {
                assert_eq!(channel, Channel::Input);
                assert!(total <= outcome.input_sent, "consumed what was not sent");
                outcome.input_consumed = total;
            }
            Frame::Started { pid, .. } => outcome.started = Some(pid),
            Frame::Done { reply, .. } => outcome.reply = Some(reply),
            _ => {}
        }
    }

    /// The next frame; `None` when the guest has closed.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            let mut bytes = vec![0; 256 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.decoder.buffer().extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }
}

/// A command for the shell.
pub(crate) fn shell(script: &str) -> Exec {
    Exec {
        program: Program::Shell(script.as_bytes().to_vec()),
        cwd: b"/".to_vec(),
        env: vec![(b"PATH".to_vec(), b"/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_vec())],
        stdin: Stdin::Null,
        pty: None,
        timeout_ms: None,
        grace_ms: 200,
        output: OutputMode::Stream,
        leftovers: Leftovers::Keep,
    }
}

/// A program and its arguments.
pub(crate) fn argv(arguments: &[&str]) -> Exec {
    let arguments = arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect();
    Exec { program: Program::Argv(arguments), ..shell("") }
}
