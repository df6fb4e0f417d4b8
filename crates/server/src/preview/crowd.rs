//! How many requests for previews there may be at once: in all, and of one job, so that
//! the page of one cannot keep the others' out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam_types::JobId;

use crate::problem::Refusal;

/// Requests and WebSockets at once.
const MOST: usize = 1024;
const MOST_OF_ONE: usize = 128;

/// Those that are there.
#[derive(Default)]
pub(crate) struct Crowd {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_job: HashMap<JobId, usize>,
}

impl Crowd {
    /// A place for one more of this job.
    pub(crate) fn admit(self: &Arc<Self>, job: JobId) -> Result<Seat, Refusal> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.by_job.get(&job).copied().unwrap_or_default();
        if counts.all >= MOST || own >= MOST_OF_ONE {
            return Err(Refusal::busy("connections to previews"));
        }
        counts.all += 1;
        counts.by_job.insert(job, own + 1);
        Ok(Seat { crowd: Arc::clone(self), job })
    }
}

/// A place, free again when this is dropped.
pub(crate) struct Seat {
    crowd: Arc<Crowd>,
    job: JobId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        if let Some(own) = counts.by_job.get_mut(&self.job) {
            *own -= 1;
            if *own == 0 {
                counts.by_job.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: usize) -> JobId {
        format!("019a0000-0000-7000-8000-{number:012}").parse().unwrap()
    }

    #[test]
    fn one_job_leaves_room_for_others() {
        let crowd = Arc::new(Crowd::default());
        let mut seats: Vec<Seat> =
            (0..MOST_OF_ONE).map(|_| crowd.admit(job(0)).unwrap_or_else(|_| panic!())).collect();
        assert!(crowd.admit(job(0)).is_err());
        for other in 1..MOST / MOST_OF_ONE {
            seats.extend((0..MOST_OF_ONE).filter_map(|_| crowd.admit(job(other)).ok()));
        }
        assert_eq!(seats.len(), MOST);
        assert!(crowd.admit(job(9)).is_err());
        drop(seats);
        assert!(crowd.admit(job(0)).is_ok());
        assert!(crowd.counts.lock().unwrap().by_job.is_empty());
    }
}
