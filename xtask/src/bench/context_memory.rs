//! The memory of the product in jobs of several lengths: a real run each, beside a
//! model that answers at once.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cofferdam_testkit::ScriptedServer;
use cofferdam_testkit::marathon::{Course, Marathon, Summary, TooLong, look, said};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::context::{BYTES_A_TOKEN, Scale};
use super::context_history::WINDOW;
use super::host;
use super::program::{self, Companion};
use super::report::{Table, digits};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// How long the longest job may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// Bytes that one step of the job says and puts out, about.
const STEP: u64 = 126_000;

/// What a job came to.
struct Job {
    tokens: u64,
    questions: usize,
    seconds: f64,
    /// The most that was resident, and the middle of the last tenth of all looks.
    most: f64,
    late: f64,
    log: u64,
    index: u64,
    cached: f64,
}

/// Measures a job of each length.
pub(super) fn measure(
    scale: &Scale,
    binary: &Path,
    directory: &Path,
    runtime: &Runtime,
) -> anyhow::Result<Vec<Table>> {
    let mut table = Table::new(
        "5. Memory of a long job",
        &[
            "tokens of history",
            "RSS peak MiB",
            "RSS late MiB",
            "questions",
            "from cache %",
            "log MiB",
            "index MiB",
            "whole s",
        ],
    );
    let mebibytes = |bytes: f64| digits(bytes / f64::from(1 << 20));
    for (place, thousands) in scale.memory.into_iter().enumerate() {
        let job = job(thousands * 1000, binary, &directory.join(format!("job-{place}")), runtime)?;
        table.row([
            job.tokens.to_string(),
            mebibytes(job.most),
            mebibytes(job.late),
            job.questions.to_string(),
            digits(job.cached * 100.0),
            mebibytes(job.log as f64),
            mebibytes(job.index as f64),
            digits(job.seconds),
        ]);
    }
    table.note(format!(
        "`cofferdam run` with a window of {WINDOW} tokens; of the product's own process, without \
         the sandbox; late: the median of the last tenth of the looks"
    ));
    table.note(
        "tokens: bytes of all answers, calls and outputs in the log, by four; from cache: what a \
         question had in common with the beginning of the one before it",
    );
    Ok(vec![table])
}

fn job(tokens: u64, binary: &Path, directory: &Path, runtime: &Runtime) -> anyhow::Result<Job> {
    let (home, workspace) = (directory.join("home"), directory.join("work"));
    fs::create_dir_all(&workspace)?;
    let steps = u32::try_from((tokens * BYTES_A_TOKEN).div_ceil(STEP))?;
    let course = Course {
        steps,
        window: WINDOW,
        written: 32_000,
        files: 2,
        lines: 420,
        density: 285,
        too_long: TooLong::Wrong,
    };
    let (mut marathon, record) = Marathon::new(course, |_| Summary::Good);
    let script = move |request: &_, _| marathon.answer(request);
    let server = runtime.block_on(ScriptedServer::with(script))?;
    let mut command = program::command(binary);
    command.args(["run", "--json", "--max-turns", "100000", "--context-window"]);
    command.arg(WINDOW.to_string()).arg(course.task());
    command.current_dir(&workspace).env("COFFERDAM_HOME", &home).env("HOME", directory);
    command.env("MODEL", "anthropic/claude-scripted").env("ANTHROPIC_API_KEY", "key-of-the-bench");
    command.env("ANTHROPIC_BASE_URL", server.base_url());
    let begun = Instant::now();
    let mut program = Companion(command.spawn().context("start the product")?);
    let (most, late) = watch(&mut program)?;
    let seconds = begun.elapsed().as_secs_f64();
    let record = look(&record).clone();
    if let Some(violation) = record.violations.first() {
        bail!("{violation}");
    }
    let (log, bytes) = transcript(&home)?;
    Ok(Job {
        tokens: bytes / BYTES_A_TOKEN,
        questions: record.questions,
        seconds,
        most,
        late,
        log,
        index: indexes(&home),
        cached: record.read.1 as f64 / record.read.0.max(1) as f64,
    })
}

/// Looks at a program's memory until it ends.
fn watch(program: &mut Companion) -> anyhow::Result<(f64, f64)> {
    let process = program.pid().as_raw_nonzero().get();
    let deadline = Instant::now() + PATIENCE;
    let (mut most, mut looks) = (0.0, Vec::new());
    loop {
        if let Some(status) = program.ends_within(LOOK)? {
            anyhow::ensure!(status.success(), "the product ended with {status}");
            break;
        }
        anyhow::ensure!(Instant::now() < deadline, "the job did not end in time");
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let bytes = |name| host::kibibytes(&status, name) * 1024.0;
        most = f64::max(most, bytes("VmHWM"));
        looks.extend(Some(bytes("VmRSS")).filter(|bytes| *bytes > 0.0));
    }
    let mut late = looks.split_off(looks.len() - looks.len().div_ceil(10));
    late.sort_by(f64::total_cmp);
    let late = late.get(late.len() / 2).copied().context("the job was over at once")?;
    Ok((most, late))
}

/// The bytes of the only log there is, and of what was said in it.
fn transcript(home: &Path) -> anyhow::Result<(u64, u64)> {
    let mut logs = fs::read_dir(home.join("history"))?;
    let log = logs.next().context("there is no log")??.path();
    let mut bytes = 0;
    for line in BufReader::new(fs::File::open(&log)?).lines() {
        bytes += said(&serde_json::from_str::<Value>(&line?)?);
    }
    Ok((fs::metadata(&log)?.len(), bytes))
}

/// The bytes of all indexes of a home.
fn indexes(home: &Path) -> u64 {
    let mut open: Vec<PathBuf> = vec![home.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.metadata() {
                Ok(about) if about.is_dir() => open.push(path),
                Ok(about) if path.extension().is_some_and(|end| end == "db") => {
                    bytes += about.len();
                }
                _ => {}
            }
        }
    }
    bytes
}
