//! JupyterLab in a job's sandbox, started when somebody first asks for it.
//!
//! It asks for no password: whoever reaches it inside is inside already, and from outside
//! there is no way to it but a preview. It is stopped when nobody has been connected to it
//! for some time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use cofferdam_api::PreviewLink;
use cofferdam_fleet::Visit;
use cofferdam_guest_protocol::{OutputMode, TunnelTarget};
use cofferdam_sandbox::{OutputChunk, Process};
use cofferdam_types::JobId;
use http::header::HOST;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use super::{Spot, link, see_other};
use crate::app::{App, place};
use crate::exec::visitor_call;
use crate::files::wanted_back;
use crate::origin::is_foreign;
use crate::problem::{FOREIGN, Refusal, UNAVAILABLE, UNFIT};
use crate::request::{Caller, Id, json};

/// Time to start, on a machine that is busy.
const START: Duration = Duration::from_secs(90);
/// Between two looks whether it listens.
const PAUSE: Duration = Duration::from_millis(100);
/// Time to say whether one runs.
const ASK: Duration = Duration::from_secs(10);
/// How long it stays without anybody, where nothing else is said.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// Bytes of what it says of itself, and of the end of its log.
const LONGEST: usize = 16 << 10;
const LAST_WORDS: usize = 300;

/// The exit code where there is none.
const MISSING: i32 = 97;

/// Prints what a JupyterLab that runs says of itself. It is not idle then: somebody comes.
const FIND: &str = r#"
place="$HOME/.cofferdam/lab"
for file in "$place"/jpserver-*.json; do
    number=${file##*-}; number=${number%.json}
    touch "$place/used" 2>/dev/null
    kill -0 "$number" 2>/dev/null && cat "$file" && exit 0
    rm -f "$file"
done
exit 1
"#;

/// Starts JupyterLab, prints what it says of itself, and stays as long as it does. It is
/// looked for where it was set up, then where the image has it. Kernels of code cells can
/// be chosen in it: their connection files are beside.
///
/// Its own idleness will not do: it counts those kernels as its own, and neither a page that
/// is open nor a connection to one of those kernels. So the kernel's table of connections is
/// asked, where every page of JupyterLab that is open has one.
const START_IT: &str = r#"
umask 077
place="$HOME/.cofferdam/lab"
mkdir -p "$place" "$HOME/.cofferdam/aide"
lab=$(command -v jupyter-lab)
IFS=:
for part in $COFFERDAM_PREFIX; do
    [ -x "$part/bin/jupyter-lab" ] && lab=$part/bin/jupyter-lab && break
done
unset IFS
[ -n "$lab" ] || exit 97
export JUPYTER_RUNTIME_DIR="$place"
"$lab" --no-browser --allow-root --ip=127.0.0.1 --port=8888 --ServerApp.port_retries=100 \
    --ServerApp.root_dir=/workspace --ServerApp.base_url=/ \
    --IdentityProvider.token= --PasswordIdentityProvider.hashed_password= \
    --ServerApp.allow_external_kernels=True \
    --ServerApp.external_connection_dir="$HOME/.cofferdam/aide" \
    --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
    >"$place/log" 2>&1 </dev/null &
number=$!
trap 'kill $number' TERM INT HUP
about="$place/jpserver-$number.json"
until [ -s "$about" ]; do
    kill -0 $number 2>/dev/null || { tail -c 1000 "$place/log" >&2; exit 1; }
    sleep 0.1
done
port=$(sed -n 's/.*"port": *\([0-9][0-9]*\).*/\1/p' "$about")
connected=": [0-9A-F]*:$(printf %04X "$port") [0-9A-F]*:[0-9A-F]* 01 "
pause=$((COFFERDAM_IDLE / 10))
[ $pause -ge 1 ] || pause=1
[ $pause -le 10 ] || pause=10
touch "$place/used"
cat "$about"
while kill -0 $number 2>/dev/null; do
    used=$(stat -c %Y "$place/used") || used=0
    if grep -q "$connected" /proc/net/tcp; then
        touch "$place/used"
    elif [ $(($(date +%s) - used)) -ge "$COFFERDAM_IDLE" ]; then
        # Nobody is to find one that ends.
        rm -f "$about"
        kill $number
        break
    fi
    sleep $pause &
    wait $!
done
wait $number
rm -f "$about"
"#;

/// Who starts one now: one person for each job, and the others wait.
#[derive(Default)]
pub(crate) struct Starts {
    by_job: Mutex<HashMap<JobId, Weak<tokio::sync::Mutex<()>>>>,
}

impl Starts {
    fn of(&self, job: JobId) -> Arc<tokio::sync::Mutex<()>> {
        let mut by_job = self.by_job.lock().unwrap_or_else(PoisonError::into_inner);
        by_job.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = by_job.get(&job).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        by_job.insert(job, Arc::downgrade(&lock));
        lock
    }
}

/// What JupyterLab says of itself.
#[derive(Deserialize)]
struct Info {
    port: u16,
}

/// `POST /api/v1/jobs/{id}/lab`.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let url = address(&app, &caller, &id, &headers).await?;
    json(StatusCode::OK, &PreviewLink { url })
}

/// `GET /jobs/{id}/lab`: leads there.
pub(crate) async fn visit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // It starts something, also where a proxy adds the token to whatever a browser asks for.
    if is_foreign(&headers, host) {
        let remedy = "open the address itself, or the job's page";
        return Err(Refusal::new(FOREIGN, "another site's page leads here", remedy));
    }
    let url = address(&app, &caller, &id, &headers).await?;
    see_other(&url, None)
}

/// The address of a job's JupyterLab, which runs by then.
async fn address(
    app: &App,
    caller: &Caller,
    id: &str,
    headers: &HeaderMap,
) -> Result<String, Refusal> {
    let row = app.job(&caller.0, id).await?;
    let _place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    // Before anything is started in vain.
    link(app, caller.1, headers, Spot { job: row.id, port: 1 }, "/lab")?;
    let begun = async {
        let lock = app.previews.starts.of(row.id);
        let _one = lock.lock().await;
        let port = match find(&visit).await? {
            Some(port) => port,
            None => start(app, &visit).await?,
        };
        until_it_listens(&visit, port).await?;
        Ok::<_, Refusal>(port)
    };
    let port = tokio::select! {
        port = tokio::time::timeout(START, begun) => port.unwrap_or_else(|_| Err(slow()))?,
        () = visit.over() => return Err(wanted_back()),
    };
    link(app, caller.1, headers, Spot { job: row.id, port }, "/lab")
}

/// The port of the one that runs.
async fn find(visit: &Visit) -> Result<Option<u16>, Refusal> {
    let keep = LONGEST as u64;
    let command =
        visit.shell(FIND).timeout(Some(ASK)).output(OutputMode::Capture { limit: keep }).keep(keep);
    let found = visit.run(visitor_call()?, command).await?;
    Ok(port_in(&found.stdout))
}

/// Starts one; the port that it will listen on.
async fn start(app: &App, visit: &Visit) -> Result<u16, Refusal> {
    let aide = app.fleet.aide().map(|aide| (aide.parts, aide.idle));
    let (parts, idle) = aide.unwrap_or((Vec::new(), IDLE));
    let parts = std::env::join_paths(parts).unwrap_or_default().into_encoded_bytes();
    let command = visit
        .shell(START_IT)
        .env("COFFERDAM_PREFIX", parts)
        .env("COFFERDAM_IDLE", idle.as_secs().max(1).to_string())
        .timeout(None)
        .output(OutputMode::Stream);
    let mut process = visit.start(visitor_call()?, command).await?;
    let (mut said, mut words) = (Vec::new(), Vec::new());
    while let Some(chunk) = process.next_output().await {
        let (bytes, kept) = match chunk {
            OutputChunk::Stdout(bytes) => (bytes, &mut said),
            OutputChunk::Stderr(bytes) => (bytes, &mut words),
            OutputChunk::StdoutGap(_) | OutputChunk::StderrGap(_) => continue,
        };
        let room = LONGEST.saturating_sub(kept.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
        if let Some(port) = port_in(&said) {
            process.release();
            return Ok(port);
        }
    }
    Err(not_started(visit, process, &words).await)
}

async fn not_started(visit: &Visit, mut process: Process, words: &[u8]) -> Refusal {
    let outcome = match process.wait().await {
        Ok(report) => visit.outcome(&process, &report).await,
        Err(error) => Err(error),
    };
    if matches!(outcome, Ok(cofferdam_types::Outcome::Exited { exit_code: MISSING })) {
        let remedy = "run `cofferdam setup` on the server, or use an image that has it";
        return Refusal::new(UNFIT, "there is no JupyterLab for this sandbox", remedy);
    }
    let words = String::from_utf8_lossy(words);
    let start = words.chars().count().saturating_sub(LAST_WORDS);
    let words: String = words.chars().skip(start).map(tame).collect();
    let detail = format!("JupyterLab did not start; its last words: {}", words.trim());
    Refusal::new(UNAVAILABLE, detail, "read ~/.cofferdam/lab/log in the job's terminal")
}

fn tame(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

fn port_in(said: &[u8]) -> Option<u16> {
    let info: Info = serde_json::from_slice(said).ok()?;
    Some(info.port).filter(|port| *port != 0)
}

/// It says where it will listen before it does.
async fn until_it_listens(visit: &Visit, port: u16) -> Result<(), Refusal> {
    loop {
        if visit.tunnel(visitor_call()?, TunnelTarget::Tcp(port)).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn slow() -> Refusal {
    let detail = format!("JupyterLab did not start within {} s", START.as_secs());
    Refusal::new(UNAVAILABLE, detail, "try again; it may be there by then").retry_after(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_of_itself_is_read_when_it_is_whole() {
        assert_eq!(port_in(br#"{"pid": 7, "port": 8888, "url": "x"}"#), Some(8888));
        for said in [&b""[..], br#"{"port": 88"#, br#"{"port": 0}"#, br#"{"port": 70000}"#, b"[]"] {
            assert_eq!(port_in(said), None, "{said:?}");
        }
    }

    #[test]
    fn one_job_has_one_lock_and_none_is_kept_in_vain() {
        let starts = Starts::default();
        let job = |number: u8| format!("019a0000-0000-7000-8000-{number:012}").parse().unwrap();
        let first = starts.of(job(1));
        assert!(Arc::ptr_eq(&first, &starts.of(job(1))));
        assert!(!Arc::ptr_eq(&first, &starts.of(job(2))));
        drop(first);
        drop(starts.of(job(3)));
        assert_eq!(starts.by_job.lock().unwrap().len(), 1);
    }
}
