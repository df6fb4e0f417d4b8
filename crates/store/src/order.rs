//! What people want of a job that is there: kept until the job has heard it.

use cofferdam_types::{Budget, Cancel};
use serde::{Deserialize, Serialize};

use crate::ids::OrderId;
use crate::job::{JobRow, Status};

/// What people want of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// It is to stop.
    Cancel {
        /// Who wants that.
        by: Cancel,
    },
    /// The orchestrator is to hear this.
    Say {
        /// The words.
        text: String,
    },
    /// It is to rest as soon as nothing is under way.
    Pause,
    /// It is to go on: after a pause, or although it had ended.
    Resume {
        /// What the orchestrator is to hear first.
        say: Option<String>,
        /// What it may use up from here on, in all.
        budget: Option<Budget>,
    },
}

impl Order {
    /// Whether there is anything in it that the job must hear once it is awake.
    #[must_use]
    pub fn says_something(&self) -> bool {
        match self {
            Self::Cancel { .. } | Self::Say { .. } => true,
            Self::Pause => false,
            Self::Resume { say, budget } => say.is_some() || budget.is_some(),
        }
    }
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// It is kept until the job hears it.
    Kept(OrderId),
    /// There was nothing to tell the job.
    Done,
    /// It makes no sense for a job in this state.
    Refused(Refusal),
}

/// Why an order makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job is over.
    Over,
    /// The job has nothing to resume.
    Going,
}

/// What a store does about an order, in one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPlan {
    /// Keep it for whoever works on the job.
    Keep,
    /// Nobody works on the job: it rests from now on.
    Rest,
    /// The job rests no more, and waits for a process unless one works on it: see
    /// [`wake`]. Earlier orders that this makes void are forgotten: see
    /// [`forgotten_by_waking`]. The order itself is kept only if it says something.
    Wake,
    /// Nothing.
    Nothing,
    /// Nothing: it makes no sense.
    Refuse(Refusal),
}

/// What [`OrderPlan::Wake`] does to the row. A job whose pause was not yet heard
/// has not stopped, and goes on being what it is.
pub fn wake(row: &mut JobRow) {
    if row.paused || row.status.is_over() {
        row.status = Status::Pending;
        row.ended = None;
        row.ending = None;
    }
    row.paused = false;
}

/// Whether an earlier order that was not yet heard is void when the job is woken.
/// `row` is the row before that: a wish to stop is void once the job has ended.
#[must_use]
pub fn forgotten_by_waking(row: &JobRow, earlier: &Order) -> bool {
    match earlier {
        Order::Pause => true,
        Order::Cancel { .. } => row.status.is_over(),
        Order::Say { .. } | Order::Resume { .. } => false,
    }
}

/// What is to be done about an order. `held`: whether a lease on the job is in
/// force; `pausing`: whether a pause is kept that was not yet heard.
#[must_use]
pub fn plan_order(row: &JobRow, held: bool, pausing: bool, order: &Order) -> OrderPlan {
    let over = row.status.is_over();
    match order {
        Order::Cancel { .. } | Order::Say { .. } | Order::Pause if over => {
            OrderPlan::Refuse(Refusal::Over)
        }
        // A job that rests is to stop, which it can only do awake.
        Order::Cancel { .. } if row.paused => OrderPlan::Wake,
        Order::Cancel { .. } | Order::Say { .. } => OrderPlan::Keep,
        Order::Pause if row.paused => OrderPlan::Nothing,
        Order::Pause if held => OrderPlan::Keep,
        Order::Pause => OrderPlan::Rest,
        Order::Resume { .. } if over || row.paused || pausing => OrderPlan::Wake,
        Order::Resume { .. } => OrderPlan::Refuse(Refusal::Going),
    }
}
