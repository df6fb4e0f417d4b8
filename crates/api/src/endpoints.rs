//! Every endpoint, in the order of the document.

use crate::document::{Access, Endpoint, binary, html, json, text};
use crate::{
    ArtifactList, AuditTrail, CreateJob, CreateToken, CreateUser, DesktopState, EventPage, Exec,
    ExecResult, FileDeleted, FileList, FileWritten, Health, Job, JobPage, Me, Message, ModelList,
    MoveFile, NewToken, PortList, PreviewLink, Ready, Recording, Resume, Scheduled, StatusReport,
    TokenList, Upload, User, UserList, Version,
};

const KEY: &str = "Makes a repeated submission the same one, for a day: at most 255 visible ASCII \
                   characters, quoted or not. The same key with another body is refused.";

/// What a key can be.
const KEYS: &str = r#"^([!#-~]{1,255}|"[!#-~]{1,255}")$"#;

/// What jobs can be asked for by.
const STATUSES: &str = "^(pending|running|complete|error|cancelled)\
                        (,(pending|running|complete|error|cancelled))*$";

/// What a notebook can be called.
const NOTEBOOKS: &str = "^[A-Za-z0-9_-]{1,64}$";

/// Every endpoint.
pub(crate) fn all() -> Vec<Endpoint> {
    let mut all = simple();
    all.extend(jobs());
    all.extend(orders());
    all.extend(files());
    all.extend(desktop());
    all.extend(previews());
    all.extend(outputs());
    all.extend(users());
    all.extend(server());
    all
}

fn simple() -> Vec<Endpoint> {
    let submit = |path, id| {
        Endpoint::post(path, id, "simple", "Submit a task")
            .body(json::<CreateJob>())
            .body(text("text/plain", "The task, in plain words."))
            .header("Idempotency-Key", KEY, KEYS)
            .answer(202, "The task is taken; it is durable.", json::<Scheduled>())
            .refused(422, "The task asks for something that is not there.")
    };
    vec![
        submit("/schedule", "schedule"),
        submit("/submit", "submit"),
        Endpoint::get("/status/{id}", "status", "simple", "Ask what a job is at")
            .answer(200, "What it is at.", json::<StatusReport>())
            .refused(404, "There is no such job."),
        Endpoint::get("/jobs/{id}/output.zip", "download", "simple", "Download the project")
            .answer(200, "The project.", binary("application/zip"))
            .refused(404, "There is no such job.")
            .refused(409, "There is nothing to pack yet, or not on this server."),
    ]
}

fn jobs() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/api/v1/jobs", "createJob", "jobs", "Create a job")
            .body(json::<CreateJob>())
            .header("Idempotency-Key", KEY, KEYS)
            .answer(202, "The job is taken; it is durable.", json::<Job>())
            .refused(422, "The job asks for something that is not there, or the key was used."),
        Endpoint::get("/api/v1/jobs", "listJobs", "jobs", "List jobs, the newest first")
            .matching("status", "Only those at one of these, with commas between them.", STATUSES)
            .id("cursor", "`next` of the page before.")
            .number("limit", "How many at most: 1 to 200, 50 if not said.", 1, 200)
            .matching("user", "`all`: of every user; for admins only.", "^all$")
            .answer(200, "Some jobs.", json::<JobPage>()),
        Endpoint::get("/api/v1/jobs/{id}", "getJob", "jobs", "Get a job")
            .answer(200, "The job.", json::<Job>())
            .refused(404, "There is no such job."),
        Endpoint::delete("/api/v1/jobs/{id}", "deleteJob", "jobs", "Forget a job that is over")
            .empty(204, "It is forgotten, with its events and files.")
            .refused(404, "There is no such job.")
            .refused(409, "The job is not over."),
        Endpoint::get("/api/v1/jobs/{id}/events", "listEvents", "jobs", "Read a job's events")
            .about(
                "With `Accept: text/event-stream` a stream: first what there is, then what \
                 comes, until the job is over. Each event has its number as `id`, its kind as \
                 `event`, and as `data` what is stored, byte for byte. A comment comes every 15 \
                 seconds. `Last-Event-ID` names the last event that was read, as `after` does. \
                 Otherwise a page.",
            )
            .number("after", "Only those after this one.", 0, i64::MAX)
            .number("limit", "Of a page, how many at most: 1 to 1000, 100 if not said.", 1, 1000)
            .answer(200, "Events.", json::<EventPage>())
            .answer(200, "Events.", text("text/event-stream", "Events as they come."))
            .refused(404, "There is no such job."),
    ]
}

fn orders() -> Vec<Endpoint> {
    let order = |name: &str, id, title| {
        Endpoint::post(&format!("/api/v1/jobs/{{id}}/{name}"), id, "jobs", title)
            .answer(202, "It is kept until the job hears it.", json::<Job>())
            .refused(404, "There is no such job.")
            .refused(409, "It makes no sense for the job as it is.")
    };
    vec![
        order("messages", "sendMessage", "Say something to a job")
            .body(json::<Message>())
            .refused(422, "There are no words in it."),
        order("cancel", "cancelJob", "Stop a job"),
        order("pause", "pauseJob", "Let a job rest as soon as nothing is under way"),
        order("resume", "resumeJob", "Let a job go on, after a pause or although it had ended")
            .optional(json::<Resume>())
            .refused(422, "A limit is none, or there are no words in the message."),
    ]
}

fn files() -> Vec<Endpoint> {
    let there = |endpoint: Endpoint| {
        endpoint
            .refused(404, "There is no such job, or no such file.")
            .refused(409, "The job has no sandbox now, or something is in the way.")
    };
    vec![
        there(
            Endpoint::get("/api/v1/jobs/{id}/files", "listFiles", "files", "List a directory")
                .path("Which; the workspace itself if not said.")
                .number("depth", "How many levels: 1 to 16, 1 if not said.", 1, 16)
                .answer(200, "What is in it.", json::<FileList>()),
        ),
        there(
            Endpoint::get(
                "/api/v1/jobs/{id}/files/content",
                "readFile",
                "files",
                "Download a file",
            )
            .needs_path("Which.")
            .answer(200, "Its content.", binary("application/octet-stream")),
        ),
        there(
            Endpoint::put("/api/v1/jobs/{id}/files/content", "writeFile", "files", "Write a file")
                .about("Without a body an empty file.")
                .needs_path("Which; missing directories are made.")
                .optional(binary("application/octet-stream"))
                .answer(200, "It is written.", json::<FileWritten>()),
        ),
        there(
            Endpoint::delete("/api/v1/jobs/{id}/files/content", "deleteFile", "files", "Delete")
                .needs_path("Which file or directory.")
                .flag("recursive", "Also a directory that is not empty.")
                .answer(200, "It is deleted.", json::<FileDeleted>()),
        ),
        there(
            Endpoint::post("/api/v1/jobs/{id}/files/move", "moveFile", "files", "Rename")
                .body(json::<MoveFile>())
                .empty(204, "It is renamed."),
        ),
        there(
            Endpoint::post("/api/v1/jobs/{id}/exec", "exec", "files", "Run a command")
                .about("In the job's sandbox, beside what the job does there.")
                .body(json::<Exec>())
                .answer(200, "It has ended, however it did.", json::<ExecResult>())
                .refused(422, "There is nothing to run."),
        ),
    ]
}

fn desktop() -> Vec<Endpoint> {
    let there = |endpoint: Endpoint| {
        endpoint
            .answer(200, "The desktop.", json::<DesktopState>())
            .refused(404, "There is no such job.")
            .refused(409, "The job has no sandbox now, or what a desktop needs is missing in it.")
    };
    let recording = |endpoint: Endpoint| {
        endpoint
            .refused(404, "There is no such job, or no recording.")
            .refused(409, "The job has no sandbox now, no desktop runs, or ffmpeg is missing.")
    };
    let (path, film) = ("/api/v1/jobs/{id}/desktop", "/api/v1/jobs/{id}/desktop/recording");
    vec![
        there(Endpoint::get(path, "getDesktop", "desktop", "Say whether a job's desktop runs")),
        there(Endpoint::post(path, "startDesktop", "desktop", "Start a job's desktop").about(
            "One that runs stays as it is. It ends by itself when nobody uses it or looks at it.",
        )),
        recording(Endpoint::post(film, "startRecording", "desktop", "Record a job's desktop"))
            .about("For an hour and 128 MB at most. It needs ffmpeg where the job works.")
            .answer(200, "It is recorded.", json::<Recording>()),
        recording(Endpoint::delete(film, "stopRecording", "desktop", "End the recording")).answer(
            200,
            "It has ended.",
            json::<Recording>(),
        ),
        recording(Endpoint::get(film, "readRecording", "desktop", "Download the last recording"))
            .about("While the job runs. Its chapters say what the job did.")
            .answer(200, "The film.", binary("video/webm")),
    ]
}

fn previews() -> Vec<Endpoint> {
    let there = |endpoint: Endpoint| {
        endpoint.refused(404, "There is no such job.").refused(409, "The job has no sandbox now.")
    };
    vec![
        there(
            Endpoint::get("/api/v1/jobs/{id}/ports", "listPorts", "previews", "List ports")
                .about("What listens in the job's sandbox, Jupyter's kernels left out.")
                .answer(200, "The ports.", json::<PortList>()),
        ),
        there(
            Endpoint::post(
                "/api/v1/jobs/{id}/ports/{port}/view",
                "viewPort",
                "previews",
                "Get an address for a browser",
            )
            .about(
                "The page of the web server on this port, on an origin of its own. Programs ask \
                 for `/jobs/{id}/ports/{port}/…` with their token instead: any method and path, \
                 WebSockets too.",
            )
            .answer(200, "The address.", json::<PreviewLink>())
            .refused(422, "This is no port, or there is no domain for previews."),
        ),
        there(
            Endpoint::post("/api/v1/jobs/{id}/lab", "openLab", "previews", "Open JupyterLab")
                .about("It is started in the job's sandbox where it does not run.")
                .answer(200, "The address for a browser.", json::<PreviewLink>())
                .refused(422, "There is no JupyterLab, or no domain for previews.")
                .refused(503, "It did not start."),
        ),
        there(
            Endpoint::get("/jobs/{id}/lab", "visitLab", "previews", "Go to JupyterLab")
                .about("The same for whoever follows redirections and sends the token.")
                .empty(303, "It is there.")
                .refused(422, "There is no JupyterLab, or no domain for previews.")
                .refused(503, "It did not start."),
        ),
    ]
}

fn outputs() -> Vec<Endpoint> {
    let output = |name: &str, id, title, media| {
        Endpoint::get(&format!("/api/v1/jobs/{{id}}/{name}"), id, "output", title)
            .answer(200, "The project, also while it is worked on.", binary(media))
            .refused(404, "There is no such job.")
            .refused(409, "There is nothing to pack yet, or not on this server.")
    };
    vec![
        output("output.zip", "outputZip", "Download the project as a ZIP", "application/zip"),
        output("output.tar.zst", "outputTar", "Download it as a tar", "application/zstd"),
        output("output.patch", "outputPatch", "Download it as a git patch", "text/x-diff"),
        Endpoint::get(
            "/api/v1/jobs/{id}/notebook.ipynb",
            "notebook",
            "output",
            "Download the code cells as a Jupyter notebook",
        )
        .about(
            "Made of the job's events as they are now: its cells in their order, with what came \
             of them and what was said between. Each kernel has a notebook of its own.",
        )
        .matching(
            "kernel",
            "Which, where the job used several: `python`, `typescript`, or `python-NAME` for a \
             kernel with a name.",
            NOTEBOOKS,
        )
        .answer(200, "The notebook.", text("application/x-ipynb+json", "nbformat 4.5."))
        .refused(404, "There is no such job, it has run no cells, or it has no such kernel.")
        .refused(409, "It has several, and `kernel` does not say which."),
        Endpoint::get("/api/v1/jobs/{id}/artifacts", "listArtifacts", "output", "List artifacts")
            .answer(200, "The files that the job has made.", json::<ArtifactList>())
            .refused(404, "There is no such job."),
        Endpoint::get("/api/v1/jobs/{id}/audit", "audit", "output", "Read the audit trail")
            .number("after", "Leave out so many from the beginning.", 0, i64::MAX)
            .number("limit", "How many at most: 1 to 10000, 1000 if not said.", 1, 10_000)
            .answer(200, "What was done in the job's sandbox.", json::<AuditTrail>())
            .refused(404, "There is no such job.")
            .refused(409, "It cannot be read now, or not on this server."),
        Endpoint::post("/api/v1/uploads", "upload", "output", "Send files for a job to begin with")
            .body(binary("application/x-tar"))
            .body(binary("application/zip"))
            .body(binary("application/gzip"))
            .body(binary("application/zstd"))
            .body(binary("application/octet-stream"))
            .answer(201, "They are kept for a while.", json::<Upload>())
            .refused(413, "They are too big.")
            .refused(422, "This is no archive that can be taken."),
    ]
}

fn users() -> Vec<Endpoint> {
    let admin = |endpoint: Endpoint| endpoint.refused(403, "Only admins may.");
    vec![
        Endpoint::get("/api/v1/me", "me", "users", "Say who I am").answer(
            200,
            "The user of the token.",
            json::<Me>(),
        ),
        admin(Endpoint::get("/api/v1/users", "listUsers", "users", "List users").answer(
            200,
            "All users.",
            json::<UserList>(),
        )),
        admin(
            Endpoint::post("/api/v1/users", "createUser", "users", "Make a user")
                .body(json::<CreateUser>())
                .answer(201, "It is made.", json::<User>())
                .refused(409, "There is one of this name.")
                .refused(422, "This is no name."),
        ),
        admin(
            Endpoint::delete("/api/v1/users/{id}", "deleteUser", "users", "Remove a user")
                .empty(204, "It is removed, with its tokens.")
                .refused(404, "There is no such user.")
                .refused(409, "It is you."),
        ),
        admin(
            Endpoint::get("/api/v1/users/{id}/tokens", "listTokens", "users", "List tokens")
                .answer(200, "The user's tokens.", json::<TokenList>())
                .refused(404, "There is no such user."),
        ),
        admin(
            Endpoint::post("/api/v1/users/{id}/tokens", "createToken", "users", "Make a token")
                .optional(json::<CreateToken>())
                .answer(201, "It is made; its secret is shown this once.", json::<NewToken>())
                .refused(404, "There is no such user.")
                .refused(422, "The time is none, or the label is no text."),
        ),
        admin(
            Endpoint::delete("/api/v1/tokens/{id}", "deleteToken", "users", "Remove a token")
                .empty(204, "It works no more.")
                .refused(404, "There is no such token.")
                .refused(409, "It is the one that you use."),
        ),
    ]
}

fn server() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/api/v1/models", "listModels", "server", "List models").answer(
            200,
            "The models that can be named.",
            json::<ModelList>(),
        ),
        Endpoint::get("/api/v1/version", "version", "server", "Say what the server is").answer(
            200,
            "What it is.",
            json::<Version>(),
        ),
        Endpoint::get("/api/v1/ready", "ready", "server", "Say whether jobs are taken")
            .answer(200, "They are.", json::<Ready>())
            .answer(503, "They are not.", json::<Ready>()),
        Endpoint::get("/api/v1/metrics", "metrics", "server", "Read the measurements").answer(
            200,
            "For Prometheus.",
            text("application/openmetrics-text", "OpenMetrics."),
        ),
        Endpoint::get("/health", "health", "server", "Say that the server answers")
            .access(Access::Public)
            .answer(200, "It does.", json::<Health>()),
        Endpoint::get("/api/v1/openapi.json", "openapi", "server", "Read this document")
            .access(Access::Public)
            .answer(200, "This document.", text("application/json", "OpenAPI 3.1.")),
        Endpoint::get("/", "page", "server", "Open the page").access(Access::Public).answer(
            200,
            "A page for people.",
            html(),
        ),
    ]
}
