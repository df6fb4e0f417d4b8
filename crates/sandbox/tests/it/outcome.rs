//! What the end of a command means, by what the back end knows of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_guest_protocol::{Channel, Control, ExecEnd, Frame, OutputMode, Request, WINDOW};
use cofferdam_sandbox::{
    Backend, CallError, Capabilities, Gap, Grade, GuestStream, Isolation, OpenError, Reconciled,
    Room, RoomError, Sandbox, Snapshot, Spec, TrailMark,
};
use cofferdam_types::{AuditRecord, Outcome, SandboxId};
use futures_util::future::{BoxFuture, FutureExt};
use tokio::io::DuplexStream;

use crate::fake_guest::{FakeGuest, done, stderr, stdout};

/// A back end whose guests are played by the test.
#[derive(Default)]
struct FakeBackend {
    /// It never answers.
    silent: bool,
    memory_kills: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    guests: Arc<Mutex<Vec<DuplexStream>>>,
}

struct FakeRoom {
    id: SandboxId,
    isolation: Isolation,
    silent: bool,
    memory_kills: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    guests: Arc<Mutex<Vec<DuplexStream>>>,
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn open(&self, spec: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        let room: Box<dyn Room> = Box::new(FakeRoom {
            id: spec.id,
            isolation: Isolation {
                backend: "fake".into(),
                grade: Grade::Contained,
                facts: Vec::new(),
            },
            silent: self.silent,
            memory_kills: Arc::clone(&self.memory_kills),
            asked: Arc::clone(&self.asked),
            guests: Arc::clone(&self.guests),
        });
        async { Ok(room) }.boxed()
    }

    fn reattach(&self, id: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        async move { Err(OpenError::Gone(id)) }.boxed()
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
        async { Ok(Reconciled::default()) }.boxed()
    }
}

impl Room for FakeRoom {
    fn id(&self) -> SandboxId {
        self.id
    }

    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn dial(&self) -> BoxFuture<'_, Result<GuestStream, RoomError>> {
        let (host, guest) = tokio::io::duplex(1 << 20);
        self.guests.lock().unwrap().push(guest);
        async move { Ok(Box::new(host) as GuestStream) }.boxed()
    }

    fn oom_kills(&self) -> BoxFuture<'_, Result<u64, RoomError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.silent {
            return std::future::pending().boxed();
        }
        let kills = self.memory_kills.load(Ordering::Relaxed);
        async move { Ok(kills) }.boxed()
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, RoomError>> {
        async { Err(RoomError::Refused("no".into())) }.boxed()
    }

    fn audit(
        &self,
        since: TrailMark,
    ) -> BoxFuture<'_, Result<(Vec<AuditRecord>, TrailMark), RoomError>> {
        async move { Ok((Vec::new(), since)) }.boxed()
    }

    fn end_egress(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), RoomError>> {
        async { Ok(()) }.boxed()
    }
}

impl FakeBackend {
    async fn open(&self) -> (Sandbox, FakeGuest) {
        let open = Sandbox::open(self, Spec::scratch());
        let (sandbox, guest) = tokio::join!(open, self.guest());
        (sandbox.unwrap(), guest)
    }

    async fn guest(&self) -> FakeGuest {
        let stream = loop {
            if let Some(stream) = self.guests.lock().unwrap().pop() {
                break stream;
            }
            tokio::task::yield_now().await;
        };
        FakeGuest::accept(stream).await
    }
}

/// Runs a command that ends as told, after so many kills for lack of memory.
async fn outcome(
    backend: &FakeBackend,
    sandbox: &Sandbox,
    guest: &mut FakeGuest,
    end: ExecEnd,
    kills: u64,
) -> Result<Outcome, CallError> {
    let run = sandbox.run(sandbox.next_call_id(), sandbox.shell("x"));
    let play = async {
        let call = loop {
            match guest.frame().await {
                Frame::Request { call, .. } => break call,
                Frame::Ack { .. } => {}
                other => panic!("unexpected {other:?}"),
            }
        };
        backend.memory_kills.fetch_add(kills, Ordering::Relaxed);
        guest.send(done(call, end)).await;
    };
    let (result, ()) = tokio::join!(run, play);
    result.map(|result| result.outcome)
}

#[tokio::test]
async fn a_kill_is_lack_of_memory_only_when_the_kernel_killed_since_the_start() {
    let backend = FakeBackend::default();
    let (sandbox, mut guest) = backend.open().await;
    let mut run = async |end, kills| outcome(&backend, &sandbox, &mut guest, end, kills).await;

    assert_eq!(run(ExecEnd::Exited(0), 0).await, Ok(Outcome::Exited { exit_code: 0 }));
    assert_eq!(backend.asked.load(Ordering::Relaxed), 0, "asked about what went well");

    // What was killed in one of these is nothing to the next.
    assert_eq!(run(ExecEnd::TimedOut, 1).await, Ok(Outcome::TimedOut));
    assert_eq!(run(ExecEnd::Signaled(9), 0).await, Ok(Outcome::Signaled { signal: 9 }));
    assert_eq!(run(ExecEnd::Signaled(15), 1).await, Ok(Outcome::Signaled { signal: 15 }));
    assert_eq!(run(ExecEnd::Signaled(9), 0).await, Ok(Outcome::Signaled { signal: 9 }));
    assert_eq!(run(ExecEnd::Signaled(9), 1).await, Ok(Outcome::OutOfMemory));
    assert_eq!(run(ExecEnd::Signaled(9), 0).await, Ok(Outcome::Signaled { signal: 9 }));
    assert_eq!(run(ExecEnd::Exited(137), 2).await, Ok(Outcome::OutOfMemory));
    assert_eq!(run(ExecEnd::Exited(137), 0).await, Ok(Outcome::Exited { exit_code: 137 }));
    assert_eq!(run(ExecEnd::Exited(1), 1).await, Ok(Outcome::Exited { exit_code: 1 }));
    assert_eq!(run(ExecEnd::Signaled(9), 0).await, Ok(Outcome::Signaled { signal: 9 }));
    assert!(matches!(run(ExecEnd::Lost, 0).await, Ok(Outcome::Lost { .. })));
    let missing = run(ExecEnd::NotStarted(2, "no such program".into()), 0).await;
    assert_eq!(missing, Err(CallError::NotStarted { errno: 2, what: "no such program".into() }));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_known_does_not_wait_for_a_back_end_that_is_silent() {
    let backend = FakeBackend { silent: true, ..FakeBackend::default() };
    let (sandbox, mut guest) = backend.open().await;
    let begun = tokio::time::Instant::now();
    let ended = outcome(&backend, &sandbox, &mut guest, ExecEnd::TimedOut, 0).await;
    assert_eq!(ended, Ok(Outcome::TimedOut));
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_run_does_not_wait_for_an_end_that_should_long_have_come() {
    let backend = FakeBackend::default();
    let (sandbox, mut guest) = backend.open().await;
    let minutes = Duration::from_secs(600);
    let command = sandbox.shell("x").timeout(Some(minutes)).grace(Duration::from_secs(5));
    let begun = tokio::time::Instant::now();
    let run = sandbox.run(sandbox.next_call_id(), command);
    let play = async {
        let (call, _) = guest.request().await;
        guest.send(stdout(call, "some")).await;
        loop {
            match guest.frame().await {
                Frame::Request { call, .. } => guest.answer(call).await,
                other => return other == Frame::Control { call, control: Control::Kill },
            }
        }
    };
    let (result, killed) = tokio::join!(run, play);
    let result = result.unwrap();
    assert!(matches!(result.outcome, Outcome::Lost { .. }), "{:?}", result.outcome);
    assert_eq!(result.stdout, "some");
    assert!(killed);
    assert!((755..760).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_run_ends_its_input_when_all_was_sent_and_not_when_it_is_dropped() {
    let backend = FakeBackend::default();
    let (sandbox, mut guest) = backend.open().await;
    let run = sandbox.run(sandbox.next_call_id(), sandbox.shell("x").input("all"));
    let play = async {
        let (call, _) = guest.request().await;
        let channel = Channel::Input;
        assert_eq!(guest.frame().await, Frame::Data { call, channel, bytes: "all".into() });
        assert_eq!(guest.frame().await, Frame::End { call, channel });
        guest.send(done(call, ExecEnd::Exited(0))).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
    };
    let (result, ()) = tokio::join!(run, play);
    assert_eq!(result.unwrap().outcome, Outcome::Exited { exit_code: 0 });

    let more = vec![0; 2 * WINDOW as usize];
    let mut run = Box::pin(sandbox.run(sandbox.next_call_id(), sandbox.shell("x").input(more)));
    let (call, _) = tokio::select! {
        request = guest.request() => request,
        _ = &mut run => panic!("it has ended"),
    };
    let mut got = 0;
    while got < WINDOW {
        tokio::select! {
            frame = guest.frame() => match frame {
                Frame::Data { bytes, .. } => got += bytes.len() as u64,
                other => panic!("unexpected {other:?}"),
            },
            _ = &mut run => panic!("it has ended"),
        }
    }
    drop(run);
    assert_eq!(guest.frame().await, Frame::Control { call, control: Control::Kill });
}

#[tokio::test]
async fn a_run_keeps_both_streams_and_says_what_is_missing() {
    let backend = FakeBackend::default();
    let (sandbox, mut guest) = backend.open().await;
    let command = sandbox.shell("x").keep(6).output(OutputMode::Stream);
    let run = sandbox.run(sandbox.next_call_id(), command);
    let play = async {
        let (call, Request::Exec(exec)) = guest.request().await else { panic!("no command") };
        assert_eq!(exec.cwd, b"/workspace");
        guest.send_all([stdout(call, "0123456789"), stderr(call, "err")]).await;
        guest.send(Frame::Gap { call, channel: Channel::Error, dropped: 5 }).await;
        guest.send(done(call, ExecEnd::Exited(0))).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
    };
    let (result, ()) = tokio::join!(run, play);
    let result = result.unwrap();
    assert_eq!(result.stdout, "012789");
    assert_eq!(result.stdout_gap, Some(Gap { offset: 3, dropped: 4 }));
    assert_eq!(result.stderr, "err");
    assert_eq!(result.stderr_gap, Some(Gap { offset: 3, dropped: 5 }));
    assert!(result.truncated);
}

#[tokio::test]
async fn a_run_over_a_lost_connection_is_lost_and_a_new_connection_serves_again() {
    let backend = FakeBackend::default();
    let (sandbox, mut guest) = backend.open().await;
    let run = sandbox.run(sandbox.next_call_id(), sandbox.shell("x"));
    let play = async {
        let (call, _) = guest.request().await;
        guest.send(stdout(call, "some")).await;
        drop(guest);
    };
    let (result, ()) = tokio::join!(run, play);
    let result = result.unwrap();
    assert_eq!(result.stdout, "some");
    let reason = "the guest closed the stream".to_owned();
    assert_eq!(result.outcome, Outcome::Lost { reason });

    let (reconnected, mut guest) = tokio::join!(sandbox.reconnect(), backend.guest());
    reconnected.unwrap();
    let ended = outcome(&backend, &sandbox, &mut guest, ExecEnd::Exited(4), 0).await;
    assert_eq!(ended, Ok(Outcome::Exited { exit_code: 4 }));
    sandbox.close().await.unwrap();
}
