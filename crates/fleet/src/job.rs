//! One job under its lease: from its log to its end, or to wherever this server
//! has to leave it.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_engine::Run;
use cofferdam_runtime::{
    Driven, Driver, Images, Log, Models, Notice, Opening, Order, OrderKind, Origin, Replayed,
    drive, fail_point, now, replay,
};
use cofferdam_sandbox::{Backend, Grade, Lifetime};
use cofferdam_store::{Lease, OrderId, Status, StoreError};
use cofferdam_types::{Budget, Ending, Event, JobId, Place, SandboxId, error_chain};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::data::make_private;
use crate::delivery::Kept;
use crate::fleet::Fleet;
use crate::image::Needed;
use crate::log::{StoredLog, StoredPast};
use crate::missing::{NoBackend, NoModel};
use crate::paced::Paced;
use crate::running::{ORDERS, Place as RunningPlace};
use crate::seed::Uploaded;

/// Lives of servers that a job may outlast without anything being done in them: one that
/// takes its server down each time is given up.
const FRUITLESS_LIVES: usize = 20;

/// What is said to a job whose files were lost with their server.
const MOVED: &str = "[The server that this job ran on is gone, and the files of the workspace with \
    it. The workspace is again as it was when the job began: look at what is there, and do again \
    what is missing.]";

/// How often a job that is to rest is looked after, and the wait for a store that is
/// away.
const LOOK: Duration = Duration::from_secs(1);

/// How often the orders of a job are looked at although nobody has told of any.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long a job that had to be left is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a job that nothing happens in is waited for. Longer than anything that it
/// waits for itself.
const WATCHDOG: Duration = Duration::from_secs(30 * 60);

/// Works on a job until it ends or is left, and gives its lease back.
pub(crate) async fn work(fleet: Arc<Fleet>, lease: Lease) {
    fail_point("leased");
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    let span = tracing::info_span!(
        "job",
        otel.name = "invoke_agent cofferdam",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.conversation.id = %job,
        %job,
        epoch,
    );
    let worked = async {
        // This server may itself have been away for longer than its lease.
        if !fleet.running.vacated(job, fleet.bounds.lease / 2).await {
            tracing::warn!("the job is still being left");
            return;
        }
        match attempt(&fleet, &lease).await {
            Ok(driven) => tracing::info!(how = words(&driven), "done with the job"),
            // Taken up again, here or elsewhere, but not at once: what went wrong
            // may go wrong again.
            Err(error) => {
                tracing::error!(error, "the job had to be left");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
        fail_point("ended");
        if let Err(error) = fleet.store.release(job, epoch).await {
            tracing::warn!(%error, "the lease ends by itself");
        }
    };
    worked.instrument(span).await;
}

fn words(driven: &Driven) -> &'static str {
    match driven {
        Driven::Ended(_) => "ended",
        Driven::Resting => "paused",
        Driven::Left => "left to the next server",
    }
}

async fn attempt(fleet: &Arc<Fleet>, lease: &Lease) -> Result<Driven, String> {
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    let (orders, orders_there) = mpsc::channel(ORDERS);
    let place = {
        let _open = fleet.taking_up.read().await;
        fleet.running.add(job, epoch, orders.clone())
    };
    if fleet.stopping.is_cancelled() {
        // Too late to be told to leave with the others.
        return Ok(Driven::Left);
    }
    let chain = |error: StoreError| error_chain(&error);
    let past = Arc::new(StoredPast { store: Arc::clone(&fleet.store), job });
    let mut lives = Lives::default();
    let replayed = replay(&*past, |record| lives.take(&record.event)).await;
    let Replayed { mut run, mut traces } = replayed.map_err(|error| error_chain(&error))?;
    let mut log = StoredLog {
        store: Arc::clone(&fleet.store),
        feed: Arc::clone(&fleet.feed),
        data: Arc::clone(&fleet.data),
        job,
        epoch,
        node: fleet.node(),
        next: run.last_seq() + 1,
    };
    let resumed = resumption(fleet, job).await.map_err(chain)?;
    if let Some(budget) = resumed.budget {
        let at = now().max(run.last_event());
        let event = Event::BudgetChanged { budget };
        run.apply(at, &event);
        let appended = log.append(at, vec![event], None).await;
        for record in appended.map_err(|error| error.to_string())? {
            traces.take(&record);
        }
    }
    let here = prepare_place(fleet, lease, &run, traces.last_sandbox())
        .map_err(|error| format!("its files: {error}"))?;
    let mut opening = resumed.opening;
    // How it ends is decided, and nothing was to be handed over.
    let stopped = run.ended().is_none()
        && run.ending().is_some_and(|ending| {
            !matches!(ending, Ending::Complete { .. } | Ending::Unverified { .. })
        });
    if here.moved && !stopped {
        // Said to the model too, which believes in its files. And a job that was done
        // goes on: what it had made is lost.
        let said = opening.say.take().unwrap_or_default();
        opening.say = Some(format!("{MOVED} {said}").trim_end().to_owned());
    }
    let origin = match lease.job.upload {
        Some(upload) => Origin::Seed(Arc::new(Uploaded { fleet: Arc::clone(fleet), upload })),
        None => Origin::Empty,
    };
    let spec = run.spec();
    let upload = lease.job.upload;
    let images: Option<Arc<dyn Images>> = match spec.place.wants_task_image() {
        true => Some(Arc::new(Needed { fleet: Arc::clone(fleet), upload })),
        false => None,
    };
    let models = fleet.outfit.models(spec).unwrap_or_else(|cause| {
        let model: Arc<NoModel> = Arc::new(NoModel::new(spec.orchestrator.clone(), cause));
        Models { orchestrator: model.clone(), coder: model.clone(), summariser: model }
    });
    let driver = Driver {
        settings: fleet.outfit.engine(spec),
        models,
        backend: backend(fleet, &spec.place, lives),
        place: here.place,
        images,
        aide: fleet.outfit.aide(),
        lifetime: Lifetime::Lingering(fleet.bounds.linger),
        origin,
        replant: here.moved,
        directory: fleet.data.job(job),
        indexes: fleet.outfit.indexes(),
        embedder: fleet.outfit.embedder(),
        delivery: Some(Box::new(Kept { fleet: Arc::clone(fleet), job, epoch })),
        opening,
        door: place.door.clone(),
        orders: orders_there,
        notices: nobody(),
        past,
        traces,
        run,
    };
    let driving = drive(driver, log);
    let passing = pass_orders(fleet, &place, job, resumed.order, orders);
    let watching = watch(fleet, job);
    tokio::select! {
        driven = driving => driven.map_err(|error| error_chain(&error)),
        () = passing => Err("its orders could not be passed on".to_owned()),
        () = watching => Err("nothing happened in it for too long".to_owned()),
    }
}

/// A watcher for those who look at the store instead.
fn nobody() -> mpsc::Sender<Notice> {
    mpsc::channel(1).0
}

/// How a job is taken up.
struct Resumed {
    opening: Opening,
    budget: Option<Budget>,
    /// The order that this is, which is heard as the job is taken up.
    order: Option<OrderId>,
}

/// What somebody said when they wanted the job to go on.
async fn resumption(fleet: &Fleet, job: JobId) -> Result<Resumed, StoreError> {
    let orders = fleet.store.orders(job).await?;
    let found = orders.into_iter().find_map(|(id, order)| match order {
        cofferdam_store::Order::Resume { say, budget } => Some((id, say, budget)),
        _ => None,
    });
    Ok(match found {
        Some((id, say, budget)) => Resumed {
            opening: Opening { say, finish: false, heard: Some(id) },
            budget,
            order: Some(id),
        },
        None => Resumed {
            opening: Opening { say: None, finish: true, heard: None },
            budget: None,
            order: None,
        },
    })
}

/// Where a job works on this machine.
struct Here {
    place: Place,
    /// Whether it worked elsewhere before.
    moved: bool,
}

fn prepare_place(
    fleet: &Fleet,
    lease: &Lease,
    run: &Run,
    last: Option<SandboxId>,
) -> std::io::Result<Here> {
    let place = run.spec().place.clone();
    let workspace = fleet.data.locate(&place.workspace);
    // Its files are where its last sandbox was.
    let never_moves = !fleet.store.is_shared();
    let here = last.is_none_or(|last| never_moves || fleet.data.has_had(lease.job.id, last));
    let moved = run.prepared() && !(here && workspace.is_dir());
    if moved && workspace.is_dir() {
        // From before it went elsewhere.
        std::fs::remove_dir_all(&workspace)?;
    }
    make_private(&fleet.data.job(lease.job.id))?;
    std::fs::create_dir_all(&workspace)?;
    Ok(Here { place: Place { workspace, ..place }, moved })
}

/// How often the job was taken up since anything was done in it.
#[derive(Default)]
struct Lives(usize);

impl Lives {
    fn take(&mut self, event: &Event) {
        match event {
            Event::TakenUp { .. } => self.0 += 1,
            Event::ModelAnswered { .. } | Event::ToolEnded { .. } | Event::Paused => self.0 = 0,
            _ => {}
        }
    }
}

/// What makes the job's sandbox; one that says why there is none, if there is none.
fn backend(fleet: &Fleet, place: &Place, Lives(lives): Lives) -> Arc<dyn Backend> {
    if lives >= FRUITLESS_LIVES {
        let cause = format!("the job was given up: {lives} times a server began it and died");
        return Arc::new(NoBackend { cause });
    }
    let required = Grade::required(place.require.as_deref());
    match fleet.outfit.backend(&place.sandbox, required) {
        Ok(backend) => Arc::new(Paced { backend, turns: fleet.turns.clone() }),
        Err(none) => Arc::new(NoBackend { cause: none.to_string() }),
    }
}

/// Passes on what people want, as the store has it.
async fn pass_orders(
    fleet: &Fleet,
    place: &RunningPlace,
    job: JobId,
    taken_up_by: Option<OrderId>,
    orders: mpsc::Sender<Order>,
) {
    let mut last = OrderId(0);
    // Whether the job was told to rest, and not yet to go on.
    let mut pausing = false;
    loop {
        match fleet.store.orders(job).await {
            Ok(waiting) => {
                for (id, order) in waiting {
                    if id <= last || Some(id) == taken_up_by {
                        continue;
                    }
                    last = id;
                    let Some(wish) = wish(order) else { continue };
                    pausing = match wish {
                        OrderKind::Pause => true,
                        OrderKind::Resume(_) => false,
                        _ => pausing,
                    };
                    pass(&orders, Order { wish, stored: Some(id) }).await;
                }
            }
            Err(error) => {
                tracing::warn!(%job, %error, "orders cannot be read");
                tokio::time::sleep(LOOK).await;
                continue;
            }
        }
        if !pausing {
            // Whoever took the order may have died before it told anybody.
            tokio::time::timeout(LOOK_AGAIN, place.ordered.notified()).await.ok();
            continue;
        }
        // Waking a job that has not come to rest yet leaves no order, if nothing was
        // said: it shows in the row alone.
        let told = place.ordered.notified();
        let woken = match tokio::time::timeout(LOOK, told).await {
            Ok(()) => false,
            Err(_) => match fleet.store.job(job).await {
                Ok(Some(row)) => row.status == Status::Pending && !row.paused,
                _ => false,
            },
        };
        if woken {
            pausing = false;
            pass(&orders, OrderKind::Resume(None).into()).await;
        }
    }
}

/// What an order is to a job that runs. One that raises its budget is heard when it
/// is taken up again.
fn wish(order: cofferdam_store::Order) -> Option<OrderKind> {
    Some(match order {
        cofferdam_store::Order::Cancel { by } => OrderKind::Cancel(by),
        cofferdam_store::Order::Say { text } => OrderKind::Say(text),
        cofferdam_store::Order::Pause => OrderKind::Pause,
        cofferdam_store::Order::Resume { say, budget: None } => OrderKind::Resume(say),
        cofferdam_store::Order::Resume { .. } => return None,
    })
}

async fn pass(orders: &mpsc::Sender<Order>, order: Order) {
    if orders.send(order).await.is_err() {
        // The job is over; whoever drives it says so.
        std::future::pending::<()>().await;
    }
}

/// Waits until nothing has happened in the job for too long.
async fn watch(fleet: &Fleet, job: JobId) {
    let mut last = 0;
    loop {
        tokio::time::sleep(WATCHDOG).await;
        match fleet.store.job(job).await {
            Ok(Some(row)) if row.last_seq == last => return,
            Ok(Some(row)) => last = row.last_seq,
            _ => {}
        }
    }
}
