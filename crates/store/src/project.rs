//! What an event does to a job's row. Every store uses this, so that a row is
//! never anything but what its log says.

use cofferdam_types::{Ending, Event, Record};

use crate::job::{JobRow, Status};

/// Takes an event into the row.
pub fn project(row: &mut JobRow, record: &Record) {
    row.last_seq = record.seq;
    match &record.event {
        Event::TakenUp { .. } => {
            row.status = Status::Running;
            row.paused = false;
            row.started.get_or_insert(record.at);
            row.ended = None;
            row.ending = None;
        }
        Event::Paused => row.paused = true,
        Event::Resumed => {
            row.status = Status::Running;
            row.paused = false;
        }
        Event::Ended { ending, spent, .. } => {
            row.status = status(ending);
            row.paused = false;
            row.ended = Some(record.at);
            row.ending = Some(ending.clone());
            row.spent = *spent;
        }
        _ => {}
    }
}

fn status(ending: &Ending) -> Status {
    match ending {
        Ending::Complete { .. } => Status::Complete,
        Ending::Cancelled { .. } => Status::Cancelled,
        Ending::Unverified { .. }
        | Ending::Failed { .. }
        | Ending::LimitReached { .. }
        | Ending::ModelUnavailable { .. }
        | Ending::SandboxUnavailable { .. } => Status::Error,
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_types::{Cancel, JobId, LOG_VERSION, Spent, Timestamp};

    use super::*;
    use crate::ids::UserId;

    fn row() -> JobRow {
        JobRow {
            id: JobId::generate(),
            user: UserId::generate(),
            title: String::new(),
            status: Status::Pending,
            paused: false,
            priority: 0,
            created: Timestamp(1),
            started: None,
            ended: None,
            ending: None,
            spent: Spent::default(),
            last_seq: 1,
            upload: None,
            node: None,
            epoch: 0,
        }
    }

    fn after(events: Vec<Event>) -> JobRow {
        let mut row = row();
        for (seq, event) in (2..).zip(events) {
            project(&mut row, &Record { v: LOG_VERSION, seq, at: Timestamp(seq * 10), event });
        }
        row
    }

    fn taken_up() -> Event {
        Event::TakenUp { version: "1".to_owned(), only_delivers: false }
    }

    fn ended(ending: Ending) -> Event {
        let spent = Spent { turns: 7, ..Spent::default() };
        Event::Ended { ending, spent, changes: Vec::new(), delivery_problem: None }
    }

    #[test]
    fn a_job_that_has_ended_does_not_rest() {
        let cancelled = Ending::Cancelled { by: Cancel::User };
        let row = after(vec![taken_up(), Event::Paused, ended(cancelled.clone())]);
        assert_eq!((row.status, row.paused, row.last_seq), (Status::Cancelled, false, 4));
        assert_eq!(
            (row.ended, row.ending, row.spent.turns),
            (Some(Timestamp(40)), Some(cancelled), 7)
        );
    }

    #[test]
    fn a_job_that_is_taken_up_again_runs_and_keeps_when_it_was_first() {
        let failed = Ending::Failed { reason: "no".to_owned() };
        let row = after(vec![taken_up(), Event::Paused]);
        assert_eq!((row.status, row.paused), (Status::Running, true));
        let row = after(vec![taken_up(), ended(failed), taken_up()]);
        assert_eq!((row.status, row.paused), (Status::Running, false));
        assert_eq!((row.started, row.ended, row.ending), (Some(Timestamp(20)), None, None));
        assert_eq!(row.spent.turns, 7, "what it has used stays");
    }
}
