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
