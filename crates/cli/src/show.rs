//! Where a command's output and end are shown: plain, or as events.

use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::ExecReport;
use cofferdam_sandbox::{Offsets, OutputChunk, Sandbox, usage};
use cofferdam_types::Outcome;

use crate::events::{Cutter, Event};
use crate::problem::Problem;
use crate::streams::{self, Writer};

/// Where everything is shown.
pub(crate) struct Show {
    json: bool,
    stdout: Writer,
    stderr: Writer,
    cutters: [Cutter; 2],
    /// Nobody is waited for any more.
    abandoned: bool,
    /// Something was not shown because of that.
    dropped: bool,
}

impl Show {
    pub(crate) fn new(json: bool) -> Self {
        let cutters = [Cutter::default(), Cutter::default()];
        let (stdout, stderr) = (Writer::stdout(), Writer::stderr());
        Self { json, stdout, stderr, cutters, abandoned: false, dropped: false }
    }

    pub(crate) async fn opened(&mut self, sandbox: &Sandbox) {
        if self.json {
            let event = Event::opened(sandbox.id(), sandbox.isolation());
            self.stdout.write(event.line()).await;
        }
    }

    /// Waits while our readers are slow; a piece of output is then shown at
    /// once. A call of this that is dropped changes nothing.
    pub(crate) async fn ready(&self) {
        if !self.abandoned {
            self.stdout.ready().await;
            self.stderr.ready().await;
        }
    }

    /// Waits for our readers no more: what they have not taken, they lose.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Whether output is missing because our readers were not waited for.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped
    }

    /// Takes note that a piece of output was not shown.
    pub(crate) fn drop_output(&mut self) {
        self.dropped = true;
    }

    /// Shows a piece of output, and then the rest of its stream if that comes by a pipe. `false`
    /// when stdout takes no more; what stderr does not take is lost, and nothing else happens.
    pub(crate) async fn output(&mut self, chunk: OutputChunk, rest: Option<OwnedFd>) -> bool {
        if self.abandoned {
            self.drop_output();
            return true;
        }
        if self.json {
            return self.output_event(chunk).await;
        }
        let (writer, bytes) = match chunk {
            OutputChunk::Stdout(bytes) => (&mut self.stdout, bytes),
            OutputChunk::Stderr(bytes) => (&mut self.stderr, bytes),
            OutputChunk::StdoutGap(bytes) => (&mut self.stdout, dropped(bytes)),
            OutputChunk::StderrGap(bytes) => (&mut self.stderr, dropped(bytes)),
        };
        match rest {
            Some(pipe) => writer.pour(bytes, pipe).await,
            None => writer.write(bytes).await,
        }
    }

    /// Waits until stdout takes no more of what is poured. Nobody has to read stderr.
    pub(crate) async fn reader_gone(&self) {
        self.stdout.reader_gone().await;
    }

    async fn output_event(&mut self, chunk: OutputChunk) -> bool {
        let [out, err] = &mut self.cutters;
        // Half a character before a gap is not completed by what follows it.
        let (rest, event) = match chunk {
            OutputChunk::Stdout(bytes) => (None, out.push(&bytes).map(Event::Stdout)),
            OutputChunk::Stderr(bytes) => (None, err.push(&bytes).map(Event::Stderr)),
            OutputChunk::StdoutGap(bytes) => {
                (out.finish().map(Event::Stdout), Some(Event::StdoutDropped { bytes }))
            }
            OutputChunk::StderrGap(bytes) => {
                (err.finish().map(Event::Stderr), Some(Event::StderrDropped { bytes }))
            }
        };
        // One piece, since there is room for one.
        let lines: Vec<Bytes> = [rest, event].iter().flatten().map(Event::line).collect();
        match lines.as_slice() {
            [] => true,
            [line] => self.stdout.write(line.clone()).await,
            lines => self.stdout.write(lines.concat().into()).await,
        }
    }

    /// Waits until everything so far has reached our readers, if there are any.
    pub(crate) async fn flush(&mut self) {
        self.stdout.flush().await;
        self.stderr.flush().await;
    }

    pub(crate) async fn ended(&mut self, outcome: &Outcome, report: &ExecReport, offsets: Offsets) {
        let dropped = report.output.1.saturating_add(report.error.1);
        if !self.json {
            if let Some(remark) = remark(outcome) {
                self.stderr.write(Bytes::from(remark + "\n")).await;
            }
            return;
        }
        self.rest().await;
        let used = usage(report);
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let event = Event::Ended {
            outcome,
            duration_us: micros(used.duration),
            cpu_us: micros(used.cpu),
            peak_memory: used.peak_memory,
            stdout_bytes: offsets.stdout,
            stderr_bytes: offsets.stderr,
            truncated: dropped > 0 || self.dropped,
            left_running: report.left_running,
        };
        self.stdout.write(event.line()).await;
    }

    pub(crate) async fn failed(&mut self, problem: &Problem) {
        if self.json {
            self.rest().await;
            self.stdout.write(Event::Failed { problem }.line()).await;
        } else {
            self.stderr.write(Bytes::from(format!("{problem}\n"))).await;
        }
    }

    /// What was held back because it might have been half a character.
    async fn rest(&mut self) {
        let [out, err] = &mut self.cutters;
        let rest = [out.finish().map(Event::Stdout), err.finish().map(Event::Stderr)];
        for event in rest.into_iter().flatten() {
            self.stdout.write(event.line()).await;
        }
    }

    /// Waits until everything is written. `false` when stdout did not take all of it. That its
    /// reader went needs no words, as with any filter; any other reason is told on stderr.
    pub(crate) async fn finish(mut self) -> bool {
        let stdout = self.stdout.close().await;
        if let Err(error) = &stdout
            && !streams::reader_went(error)
        {
            let problem = Problem::output(error);
            self.stderr.write(Bytes::from(format!("{problem}\n"))).await;
        }
        self.stderr.finish().await;
        stdout.is_ok()
    }
}

fn dropped(bytes: u64) -> Bytes {
    Bytes::from(format!("\n[cofferdam: {bytes} bytes dropped here]\n"))
}

/// What a person should know that the exit code does not tell.
fn remark(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::TimedOut => Some("cofferdam: the command's time was up".to_owned()),
        Outcome::OutOfMemory => {
            Some("cofferdam: the sandbox's memory was used up (see --memory)".to_owned())
        }
        Outcome::Lost { reason } => Some(format!("cofferdam: the command was lost: {reason}")),
        Outcome::Exited { .. } | Outcome::Signaled { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::sync::OnceLock;

    use cofferdam_guest_protocol::ExecEnd;

    use super::*;

    /// What is ready takes a piece of output at once, so that nobody is deaf to signals meanwhile.
    #[tokio::test]
    async fn what_is_missing_after_half_a_character_needs_no_more_room_than_any_piece() {
        static TARGET: OnceLock<OwnedFd> = OnceLock::new();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        TARGET.set(writer).unwrap();
        let mut show = Show::new(true);
        show.stdout = Writer::to_target(|| TARGET.get().unwrap().as_fd());
        // One and a half are in the pipe, half a one is being written, and four wait.
        let mut piece = vec![b'a'; 40_000];
        for number in 0..6 {
            if number == 5 {
                piece.push(0xe2);
            }
            show.ready().await;
            assert!(show.output(OutputChunk::Stdout(piece.clone().into()), None).await);
        }
        // So much that one waits less, and nothing besides.
        std::fs::File::from(reader.try_clone().unwrap()).read_exact(&mut [0; 20_000]).unwrap();
        show.ready().await;
        let taken = tokio::select! {
            biased;
            taken = tokio::task::unconstrained(show.output(OutputChunk::StdoutGap(7), None)) => taken,
            () = async {} => false,
        };
        assert!(taken, "it has to wait");
    }

    #[tokio::test]
    async fn numbers_that_no_guest_can_mean_are_shown_all_the_same() {
        let most = (u64::MAX, u64::MAX);
        let report = ExecReport {
            end: ExecEnd::Exited(0),
            output: most,
            error: most,
            duration_us: u64::MAX,
            cpu_us: u64::MAX,
            peak_memory: u64::MAX,
            left_running: 0,
        };
        let outcome = Outcome::Exited { exit_code: 0 };
        Show::new(false).ended(&outcome, &report, Offsets::default()).await;
    }
}
