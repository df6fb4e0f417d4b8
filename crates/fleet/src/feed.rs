//! The newest events of jobs that somebody follows, so that many readers of one
//! job do not each ask the store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_store::Line;
use cofferdam_types::JobId;
use tokio::sync::watch;

/// Lines and bytes of one job that are held at most. Who is further behind reads
/// from the store.
const MOST_LINES: usize = 512;
const MOST_BYTES: usize = 1 << 20;

/// The newest events of jobs that somebody follows.
#[derive(Default)]
pub(crate) struct Feed {
    jobs: Mutex<HashMap<JobId, Job>>,
}

struct Job {
    readers: usize,
    /// Without a gap, the newest last.
    lines: VecDeque<Arc<Line>>,
    bytes: usize,
    /// The number of the last event that is known to be durable.
    last: watch::Sender<u64>,
}

impl Feed {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events of a job that this server has just made durable.
    pub(crate) fn tell<Lines: Iterator<Item = Line>>(
        &self,
        job: JobId,
        lines: impl FnOnce() -> Lines,
    ) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get_mut(&job) else { return };
        for line in lines() {
            job.push(Arc::new(line));
        }
    }

    /// A job has events up to this one, which somebody has made durable.
    pub(crate) fn reached(&self, job: JobId, last: u64) {
        if let Some(job) = self.jobs().get(&job) {
            job.last.send_if_modified(|known| {
                last > *known && {
                    *known = last;
                    true
                }
            });
        }
    }

    /// Something may have been missed: every reader looks again.
    pub(crate) fn look_again(&self) {
        for job in self.jobs().values() {
            job.last.send_modify(|_| {});
        }
    }

    /// Begins to follow a job.
    pub(crate) fn follow(self: &Arc<Self>, job: JobId) -> Reader {
        let mut jobs = self.jobs();
        let followed = jobs.entry(job).or_insert_with(|| Job {
            readers: 0,
            lines: VecDeque::new(),
            bytes: 0,
            last: watch::Sender::new(0),
        });
        followed.readers += 1;
        Reader { feed: Arc::clone(self), job, last: followed.last.subscribe() }
    }
}

impl Job {
    fn push(&mut self, line: Arc<Line>) {
        let gap = self.lines.back().is_some_and(|before| before.seq + 1 != line.seq);
        if gap {
            self.lines.clear();
            self.bytes = 0;
        }
        self.bytes += line.text.len();
        let seq = line.seq;
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || (self.bytes > MOST_BYTES && self.lines.len() > 1) {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.text.len());
        }
        self.last.send_if_modified(|known| {
            seq > *known && {
                *known = seq;
                true
            }
        });
    }
}

/// One who follows a job.
pub(crate) struct Reader {
    feed: Arc<Feed>,
    job: JobId,
    last: watch::Receiver<u64>,
}

impl Reader {
    /// The events after this one, if they are held here.
    pub(crate) fn held(&self, after: u64) -> Vec<Arc<Line>> {
        let jobs = self.feed.jobs();
        let Some(job) = jobs.get(&self.job) else { return Vec::new() };
        let Some(first) = job.lines.front() else { return Vec::new() };
        let Some(skipped) = (after + 1).checked_sub(first.seq) else { return Vec::new() };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        job.lines.iter().skip(skipped).cloned().collect()
    }

    /// Notes that everything told until now is being looked at.
    pub(crate) fn note(&mut self) {
        self.last.mark_unchanged();
    }

    /// Waits until something was told since the last note.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as the reader.
        self.last.changed().await.ok();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut jobs = self.feed.jobs();
        if let Some(job) = jobs.get_mut(&self.job) {
            job.readers -= 1;
            if job.readers == 0 {
                jobs.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> Line {
        Line { seq, text: format!("{seq}") }
    }

    #[test]
    fn the_newest_are_held_for_those_who_follow() {
        let feed = Arc::new(Feed::default());
        let job = JobId::generate();
        feed.tell(job, || [line(1)].into_iter());
        let mut reader = feed.follow(job);
        assert!(reader.held(0).is_empty());
        reader.note();
        feed.tell(job, || (2..=3).map(line));
        assert!(reader.last.has_changed().unwrap());
        let held = |after| reader.held(after).iter().map(|line| line.seq).collect::<Vec<_>>();
        assert_eq!(held(1), [2, 3]);
        assert_eq!(held(2), [3]);
        assert!(held(3).is_empty());
        // What is not held is in the store.
        assert!(held(0).is_empty());
    }

    #[test]
    fn a_gap_is_never_held() {
        let feed = Arc::new(Feed::default());
        let job = JobId::generate();
        let reader = feed.follow(job);
        feed.tell(job, || [line(4), line(6)].into_iter());
        assert!(reader.held(3).is_empty());
        assert_eq!(reader.held(5).len(), 1);
    }

    #[test]
    fn what_is_held_is_bounded_and_gone_with_its_readers() {
        let feed = Arc::new(Feed::default());
        let job = JobId::generate();
        let reader = feed.follow(job);
        feed.tell(job, || (1..=2000).map(line));
        assert_eq!(feed.jobs()[&job].lines.len(), MOST_LINES);
        feed.tell(job, || (2001..2100).map(|seq| Line { seq, text: "x".repeat(100_000) }));
        assert!(feed.jobs()[&job].bytes <= MOST_BYTES);
        drop(reader);
        assert!(feed.jobs().is_empty());
    }
}
