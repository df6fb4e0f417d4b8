//! Everything together: many jobs, steps chosen by chance, and a plain account of
//! what must be there.

use std::collections::{BTreeMap, HashMap};

use cofferdam_types::{Event, JobId};

use super::lab::{
    Failure, Lab, ask, cancel, cancelled, check, complete, ended, failed, noted, records, resume,
    resume_with, same, say, taken_up,
};
use crate::error::StoreError;
use crate::ids::{NodeId, OrderId, UserId};
use crate::job::{JobRow, Line, Status};
use crate::lease::{Append, LeaseAsk};
use crate::order::{Order, OrderPlan, Ordered, forgotten_by_waking, plan_order, wake};
use crate::project::project;
use crate::query::{Counts, JobQuery};

super::promises! {
    walk: "whatever happens, the store is as a plain account of it says";
}

/// Steps of a walk.
const STEPS: u32 = 400;
/// Jobs of one user that may run at once.
const PER_USER: u32 = 3;

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let sides = u64::try_from(from.len()).ok().filter(|sides| *sides > 0)?;
        from.get(usize::try_from(self.roll(sides)).ok()?).copied()
    }
}

/// A job as it must be.
struct Account {
    row: JobRow,
    lines: Vec<Line>,
    orders: BTreeMap<OrderId, Order>,
    held: bool,
}

impl Account {
    fn waits_for(&self, node: NodeId) -> bool {
        let kept = |wanted: fn(&Order) -> bool| self.orders.values().any(wanted);
        let resumed = kept(|order| matches!(order, Order::Resume { .. }));
        let stopping = kept(|order| matches!(order, Order::Cancel { .. }));
        let awake = if self.row.status.is_over() { resumed } else { !self.row.paused || stopping };
        // All servers were seen within the hour.
        !self.held && awake && self.row.node.is_none_or(|own| own == node)
    }

    fn obey(&mut self, order: &Order, answer: &Ordered) -> Result<(), Failure> {
        let pausing = self.orders.values().any(|order| *order == Order::Pause);
        let plan = plan_order(&self.row, self.held, pausing, order);
        let kept = match answer {
            Ordered::Kept(id) => Some(*id),
            Ordered::Done | Ordered::Refused(_) => None,
        };
        let fits = match plan {
            OrderPlan::Keep => kept.is_some(),
            OrderPlan::Wake => kept.is_some() == order.says_something(),
            OrderPlan::Rest | OrderPlan::Nothing => *answer == Ordered::Done,
            OrderPlan::Refuse(refusal) => *answer == Ordered::Refused(refusal),
        };
        check!(fits, "{order:?} was planned as {plan:?} and answered {answer:?}");
        match plan {
            OrderPlan::Rest => self.row.paused = true,
            OrderPlan::Wake => {
                let row = self.row.clone();
                self.orders.retain(|_, earlier| !forgotten_by_waking(&row, earlier));
                wake(&mut self.row);
            }
            OrderPlan::Keep | OrderPlan::Nothing | OrderPlan::Refuse(_) => {}
        }
        if let Some(id) = kept {
            self.orders.insert(id, order.clone());
        }
        Ok(())
    }
}

struct World {
    nodes: [NodeId; 2],
    jobs: BTreeMap<JobId, Account>,
    steps: Vec<String>,
}

impl World {
    fn held_by(&self, user: UserId) -> usize {
        self.jobs.values().filter(|job| job.row.user == user && job.held).count()
    }

    fn job(&mut self, id: JobId) -> Result<&mut Account, Failure> {
        self.jobs.get_mut(&id).ok_or_else(|| Failure(format!("nobody knows {id}")))
    }

    async fn step(&mut self, lab: &Lab, dice: &mut Dice, users: &[UserId]) -> Result<(), Failure> {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        let (Some(user), Some(id)) = (dice.pick(users), dice.pick(&ids)) else {
            return self.submit(lab, users.first().copied()).await;
        };
        match dice.roll(10) {
            0 if ids.len() < 30 => self.submit(lab, Some(user)).await,
            0 | 1 => self.lease(lab, dice).await,
            2 => self.release(lab, id).await,
            3..=5 => self.order(lab, dice, id).await,
            _ => self.append(lab, dice, id).await,
        }
    }

    async fn submit(&mut self, lab: &Lab, user: Option<UserId>) -> Result<(), Failure> {
        let Some(user) = user else { return Ok(()) };
        let job = super::lab::draft(user);
        self.steps.push(format!("submit {}", job.spec.job));
        let (row, lines) = (JobRow::new(&job), vec![Line::of(&job.first_record())?]);
        let id = lab.keep(job).await?;
        let account = Account { row, lines, orders: BTreeMap::new(), held: false };
        self.jobs.insert(id, account);
        Ok(())
    }

    async fn lease(&mut self, lab: &Lab, dice: &mut Dice) -> Result<(), Failure> {
        let most = u32::try_from(dice.roll(4)).unwrap_or(1);
        let node = dice.pick(&self.nodes).unwrap_or(lab.node);
        let wish = LeaseAsk { per_user: PER_USER, ..ask(node, most) };
        self.steps.push(format!("lease {most} for {node:?}"));
        let mut room: HashMap<UserId, usize> = HashMap::new();
        for job in self.jobs.values().filter(|job| job.waits_for(node)) {
            *room.entry(job.row.user).or_default() += 1;
        }
        let room: usize = room
            .into_iter()
            .map(|(user, waiting)| {
                waiting.min((PER_USER as usize).saturating_sub(self.held_by(user)))
            })
            .sum();
        let leases = lab.store.lease(wish).await?;
        same!(leases.len(), room.min(most as usize), "how many were leased");
        for lease in leases {
            let account = self.job(lease.job.id)?;
            check!(account.waits_for(node), "{} was leased: {:?}", lease.job.id, account.row);
            check!(lease.job.epoch > account.row.epoch, "the epoch has not grown");
            same!(lease.before, account.row.node, "who held it before");
            account.row.epoch = lease.job.epoch;
            account.row.node = Some(wish.node);
            account.held = true;
            same!(lease.job, account.row, "a leased row");
        }
        Ok(())
    }

    async fn release(&mut self, lab: &Lab, id: JobId) -> Result<(), Failure> {
        self.steps.push(format!("release {id}"));
        let account = self.job(id)?;
        account.held = false;
        Ok(lab.store.release(id, account.row.epoch).await?)
    }

    async fn order(&mut self, lab: &Lab, dice: &mut Dice, id: JobId) -> Result<(), Failure> {
        let order = match dice.roll(6) {
            0 => cancel(),
            1 => say("hello"),
            2 | 3 => Order::Pause,
            4 => resume(),
            _ => resume_with("go on"),
        };
        self.steps.push(format!("{order:?} {id}"));
        let answer = lab.store.order(id, order.clone()).await?;
        self.job(id)?.obey(&order, &answer)
    }

    async fn append(&mut self, lab: &Lab, dice: &mut Dice, id: JobId) -> Result<(), Failure> {
        let account = self.job(id)?;
        let ids: Vec<OrderId> = account.orders.keys().copied().collect();
        let heard = dice.pick(&ids).filter(|_| dice.roll(2) == 0);
        let events = match dice.roll(8) {
            0 => vec![taken_up()],
            1 => vec![Event::Paused],
            2 => vec![taken_up(), ended(complete())],
            3 => vec![ended(failed())],
            4 => vec![ended(cancelled())],
            _ => vec![noted("a"), noted("b")],
        };
        let records = records(account.row.last_seq + 1, events.clone());
        let append = Append { job: id, epoch: account.row.epoch, records: records.clone(), heard };
        let outcome = lab.store.append(append).await;
        let held = account.held;
        self.steps.push(format!("append {id} {events:?}, {heard:?}, held: {held}"));
        let account = self.job(id)?;
        match outcome {
            Ok(()) if held => {
                for record in &records {
                    project(&mut account.row, record);
                    account.lines.push(Line::of(record)?);
                }
                if let Some(heard) = heard {
                    account.orders.remove(&heard);
                }
                Ok(())
            }
            Err(StoreError::Fenced) if !held => Ok(()),
            other => Err(Failure(format!("an append was answered {other:?}"))),
        }
    }

    async fn compare(&self, lab: &Lab) -> Result<(), Failure> {
        for (id, account) in &self.jobs {
            same!(lab.row(*id).await?, account.row, "a row");
            same!(lab.events(*id).await?, account.lines, "its events");
            let orders: Vec<_> = account.orders.clone().into_iter().collect();
            same!(lab.store.orders(*id).await?, orders, "its orders");
        }
        let query = JobQuery { user: None, statuses: vec![], before: None, limit: 1000 };
        let wanted: Vec<JobRow> = self.jobs.values().rev().map(|job| job.row.clone()).collect();
        same!(lab.store.jobs(query).await?, wanted, "all rows");
        let mut counts = Counts::default();
        for JobRow { status, paused, .. } in &wanted {
            *match status {
                Status::Pending | Status::Running if *paused => &mut counts.paused,
                Status::Pending => &mut counts.pending,
                Status::Running => &mut counts.running,
                Status::Complete => &mut counts.complete,
                Status::Error => &mut counts.error,
                Status::Cancelled => &mut counts.cancelled,
            } += 1;
        }
        same!(lab.store.counts(None).await?, counts, "the counts");
        Ok(())
    }
}

async fn walk(lab: &Lab) -> Result<(), Failure> {
    let users: Vec<UserId> = (0..3).map(|_| UserId::generate()).collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let nodes = [NodeId::generate(), NodeId::generate()];
    let mut world = World { nodes, jobs: BTreeMap::new(), steps: Vec::new() };
    for step in 0..STEPS {
        let mut outcome = world.step(lab, &mut dice, &users).await;
        if outcome.is_ok() && (step % 20 == 0 || step + 1 == STEPS) {
            outcome = world.compare(lab).await;
        }
        if let Err(Failure(reason)) = outcome {
            let from = world.steps.len().saturating_sub(60);
            let steps: Vec<&str> = world.steps.iter().skip(from).map(String::as_str).collect();
            return Err(Failure(format!("{reason}\nafter:\n{}", steps.join("\n"))));
        }
    }
    Ok(())
}
