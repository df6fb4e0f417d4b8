//! Whether the guest still answers, looked after while somebody waits for it.
//!
//! A command may be silent for hours, so silence alone says nothing: a silent guest
//! is asked what calls it has, which it answers in its own loop, without a process
//! and without a trace. Whoever is asked and says nothing for long ends the
//! connection, and with it every wait. While nobody waits there is no clock, and
//! nothing is asked.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::Connection;

/// A guest that was silent for all of a round is asked, and after the next one again.
const ROUND: Duration = Duration::from_secs(30);

/// Questions without an answer, each with its round, that end the connection. Together
/// that is longer than the two minutes and some that a snapshot may stop a guest for.
const QUESTIONS: u32 = 5;

/// A round that took longer than this says nothing about the guest: it was this process
/// that stood still.
const LATE: Duration = Duration::from_secs(45);

/// Returns when the guest does not answer.
pub(super) async fn watch(connection: &Connection) {
    loop {
        connection.awaited().await;
        if !answers_to_the_end(connection).await {
            return;
        }
    }
}

/// Whether the guest answers for as long as somebody waits.
async fn answers_to_the_end(connection: &Connection) -> bool {
    let mut asked = 0;
    loop {
        let (begun, heard) = (Instant::now(), connection.heard());
        sleep(ROUND).await;
        if !connection.is_awaited() {
            return true;
        }
        if connection.heard() != heard {
            asked = 0;
            continue;
        }
        if begun.elapsed() > LATE {
            asked = 0;
        }
        if asked == QUESTIONS {
            return false;
        }
        connection.ask();
        asked += 1;
    }
}
