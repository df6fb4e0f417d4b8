//! The effects that take time, each as a task of its own that ends in an input.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_engine::Input;
use cofferdam_model::{Request, Which};
use cofferdam_sandbox::{Backend, OpenError, Sandbox, SandboxError, Spec, Workspace};
use cofferdam_tools::{Call, Tools, Watcher};
use cofferdam_types::{
    CallId, Content, FailureKind, Message, ModelFailure, Place, Role, ThreadId, ToolCall,
    ToolOutput, ToolStatus, error_chain,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::changes::{self, Changes};
use crate::driver::{Driver, Images, Notice, Origin, Seed};
use crate::fail_point::fail_point;
use crate::memory::Memory;
use crate::place;
use crate::spans;

/// How long a sandbox may take to be there.
pub(crate) const OPENING: Duration = Duration::from_secs(60);

/// How long looking at the workspace may take.
const PREPARING: Duration = Duration::from_secs(30);

/// How long keeping something long apart may take.
const LOADING: Duration = Duration::from_secs(60);

/// How long any tool may take; those that run commands stop them earlier.
const TOOL: Duration = Duration::from_secs(15 * 60);

/// How long each part of handing over may take.
const DELIVERING: Duration = Duration::from_secs(10 * 60);

/// What became of a task.
pub(crate) enum Done {
    /// This.
    Heard(Input),
    /// A sandbox, or why there is none.
    Opened(Result<Box<Sandbox>, String>),
}

/// Has the image made that the job's own files ask for.
pub(crate) async fn make_image(
    images: Arc<dyn Images>,
    known: Option<String>,
    tell: mpsc::Sender<String>,
) -> Done {
    Done::Heard(match images.make(known.clone(), tell).await {
        // The job's record is the only source of policy: what was fixed stays.
        Ok(image) if known.as_ref().is_some_and(|known| *known != image) => Input::SandboxFailed {
            reason: format!(
                "the job began with the image {}, and this is another",
                known.unwrap_or_default()
            ),
        },
        Ok(image) => Input::ImageReady { image },
        Err(reason) => Input::SandboxFailed { reason },
    })
}

pub(crate) async fn open(
    backend: Arc<dyn Backend>,
    spec: Spec,
    variables: Vec<(String, String)>,
) -> Done {
    let opening = async {
        let sandbox = Sandbox::open(&*backend, spec).await;
        fail_point("provisioning");
        sandbox
    };
    Done::Opened(match timeout(OPENING, opening).await {
        Ok(Ok(sandbox)) => Ok(Box::new(sandbox.with_variables(variables))),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(format!("it was not there after {} seconds", OPENING.as_secs())),
    })
}

/// The same, with something in its workspace.
pub(crate) async fn open_planted(
    backend: Arc<dyn Backend>,
    spec: Spec,
    variables: Vec<(String, String)>,
    seed: Option<Arc<dyn Seed>>,
) -> Done {
    match (open(backend, spec, variables).await, seed) {
        (Done::Opened(Ok(sandbox)), Some(seed)) => {
            let planted =
                in_time("unpacking what the job begins with", seed.plant(sandbox.files()));
            Done::Opened(planted.await.map(|()| sandbox))
        }
        (opened, _) => opened,
    }
}

/// Why there is no sandbox, and what would mend that.
fn explain(error: &SandboxError) -> String {
    match error {
        SandboxError::Open(
            OpenError::Unusable { cause, remedy }
            | OpenError::Invalid { cause, remedy }
            | OpenError::Occupied { cause, remedy },
        ) => format!("{cause} ({remedy})"),
        other => error_chain(other),
    }
}

pub(crate) fn opened(sandbox: &Sandbox) -> Input {
    let isolation = sandbox.isolation();
    Input::SandboxOpened {
        sandbox: sandbox.id(),
        backend: isolation.backend.clone(),
        grade: isolation.grade.to_string(),
        weaknesses: place::weaknesses(isolation),
    }
}

pub(crate) async fn prepare(sandbox: Arc<Sandbox>, origin: Origin) -> Done {
    if let Origin::Empty = origin {
        return Done::Heard(Input::Prepared { instructions: Vec::new(), skills: Vec::new() });
    }
    if let Origin::Seed(seed) = origin {
        let planting = in_time("unpacking what the job begins with", seed.plant(sandbox.files()));
        if let Err(reason) = planting.await {
            return Done::Heard(Input::Broken { reason });
        }
    }
    // What cannot be read in time is not there: instructions are no policy.
    let gathered = timeout(PREPARING, cofferdam_tools::gather(&sandbox)).await.unwrap_or_default();
    Done::Heard(Input::Prepared { instructions: gathered.instructions, skills: gathered.skills })
}

/// A question, and the piece of something long that is to go with it.
pub(crate) fn question(
    driver: &Driver,
    thread: ThreadId,
    role: Role,
    max_output: u32,
) -> (Request, Option<(String, u32)>) {
    let prompt = driver.run.prompt(&driver.settings, thread);
    let request = Request {
        system: prompt.system,
        messages: prompt.messages.into_owned(),
        tools: driver.settings.role(role).tools.clone(),
        max_output,
        cache_key: format!("{}-{thread}", driver.run.spec().job),
        which: Which { thread, role, earlier: driver.run.earlier(thread, role) },
    };
    (request, prompt.piece)
}

/// Puts a piece behind the last message of a question.
pub(crate) async fn with_piece(
    memory: &Memory,
    mut question: Request,
    (handle, index): (String, u32),
) -> Result<Request, ModelFailure> {
    let piece = memory.piece(&handle, index).await.map_err(|message| ModelFailure {
        kind: FailureKind::Rejected,
        message,
        retry_after: None,
    })?;
    if let Some(Message::User { content }) = question.messages.last_mut() {
        content.push(Content::text(piece));
    }
    Ok(question)
}

/// Keeps something long apart, to be read piece by piece.
pub(crate) async fn load(
    memory: Arc<Memory>,
    sandbox: Option<Arc<Sandbox>>,
    call: CallId,
    asked: ToolCall,
    piece: u64,
) -> Done {
    let loading = async {
        let arguments = asked.arguments.object().map_err(|error| error.to_string())?;
        memory.load(sandbox.as_deref(), call, &arguments, piece).await
    };
    let loaded = timeout(LOADING, loading).await.unwrap_or_else(|_| {
        Err(format!("it could not be read within {} seconds", LOADING.as_secs()))
    });
    Done::Heard(match loaded {
        Ok(reading) => Input::Loaded { call, reading },
        Err(reason) => {
            let text = format!("digest: {reason}");
            Input::ToolEnded { call, output: ToolOutput::text(ToolStatus::Failed, text) }
        }
    })
}

pub(crate) async fn run(
    tools: Arc<Tools>,
    call: CallId,
    thread: ThreadId,
    asked: ToolCall,
    notices: mpsc::Sender<Notice>,
) -> Done {
    let watcher = Live { call, notices };
    let output = match asked.arguments.object() {
        Ok(arguments) => {
            let running = tools.run(Call {
                call,
                thread,
                tool: &asked.name,
                arguments: &arguments,
                watcher: &watcher,
            });
            timeout(TOOL, running).await.unwrap_or_else(|_| {
                let text = "Stopped: it took longer than any tool may.";
                ToolOutput::text(ToolStatus::Unknown, text)
            })
        }
        // The engine lets no such call through.
        Err(error) => ToolOutput::text(ToolStatus::Refused, error.to_string()),
    };
    spans::ended(&tracing::Span::current(), output.status);
    Done::Heard(Input::ToolEnded { call, output })
}

/// The files that differ from what the job began with.
pub(crate) async fn changes(
    backend: &dyn Backend,
    sandbox: &Sandbox,
    place: &Place,
    origin: &Origin,
) -> Result<Changes, String> {
    let workspace = match origin {
        Origin::Empty => {
            let found = changes::from_nothing(&sandbox.files()).await;
            return found.map_err(|error| error_chain(&error));
        }
        Origin::Directory => Workspace::View(place.workspace.clone()),
        Origin::Seed(_) => Workspace::Scratch,
    };
    let before = Sandbox::open(backend, place::beside(place, workspace))
        .await
        .map_err(|error| error_chain(&error))?;
    if let Origin::Seed(seed) = origin {
        seed.plant(before.files()).await?;
    }
    let found = changes::between(&before.files(), &sandbox.files()).await;
    before.close().await.map_err(|error| error_chain(&error))?;
    found.map_err(|error| error_chain(&error))
}

/// Waits for a part of handing over, but not for ever.
pub(crate) async fn in_time<T>(
    what: &str,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    timeout(DELIVERING, work).await.unwrap_or_else(|_| {
        Err(format!("{what} took longer than {} minutes", DELIVERING.as_secs() / 60))
    })
}

/// Shows a tool's output as it comes.
struct Live {
    call: CallId,
    notices: mpsc::Sender<Notice>,
}

impl Watcher for Live {
    fn output(&self, bytes: &[u8]) {
        let notice = Notice::Output { call: self.call, bytes: Bytes::copy_from_slice(bytes) };
        fail_point("tool-running");
        // Whoever cannot keep up misses some of it; the tool does not wait.
        self.notices.try_send(notice).ok();
    }
}
