//! Code cells and the desktop inside a sandbox: how fast they are there and answer, with
//! the command-line tools that one would use instead beside them, and what memory they
//! take.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use cofferdam_embedded::{AIDE, copy};
use cofferdam_sandbox::{Root, Sandbox, Spec};
use cofferdam_setup::{Host, Origin, found, prefix_in};
use cofferdam_tools::{Aide, Call, Outputs, Tools, Watcher};
use cofferdam_types::{CallId, ThreadId, ToolStatus};
use serde_json::{Value, json};

use super::library::Library;
use super::order::Order;
use super::race::{self, Contender, Finish};
use super::report::{Table, digits, kibibytes, milliseconds};
use super::{host, process_table, publish, rounds, seed};

/// A display for the command-line tools, and how they find ours.
const THEIR_DISPLAY: &str = ":77";

/// Starts the usual desktop of command-line tools, and waits until it can be used.
const THEIR_DESKTOP: &str = "\
    Xvfb :77 -screen 0 1280x800x24 -nolisten tcp >/dev/null 2>&1 &
    until xdpyinfo -display :77 >/dev/null 2>&1; do sleep 0.01; done
    DISPLAY=:77 openbox >/dev/null 2>&1 &
    x11vnc -display :77 -unixsock /tmp/their.sock -rfbport 0 -forever -quiet >/dev/null 2>&1 &
    until [ -S /tmp/their.sock ] && xprop -display :77 -root _NET_SUPPORTING_WM_CHECK | grep -q window
    do sleep 0.01; done";

const START_COLUMNS: [&str; 6] =
    ["first use in a fresh sandbox", "min ms", "median ms", "p95 ms", "x", "samples"];
const USE_COLUMNS: [&str; 6] =
    ["in a running sandbox", "min ms", "median ms", "p95 ms", "x", "samples"];

#[derive(Args)]
pub(super) struct DesktopBench {
    /// How often each time is taken
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rounds)]
    rounds: usize,
    /// Where `cofferdam setup` has installed [default: the product's home]
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Write the report to this file as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Decides the order of turns [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl DesktopBench {
    /// Measures and prints the report.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        // Before anything of ours runs.
        let machine = host::describe();
        let directory = tempfile::Builder::new().prefix("cofferdam-bench-").tempdir()?;
        let library = Library::new(&directory.path().join("library"))?;
        let (program, aide) = self.aide(directory.path())?;
        let seed = seed(self.seed);
        let mut order = Order::new(seed);
        let mut text = format!("# Desktop benchmark\n\n- {machine}\n- seed {seed}");
        let calls = Cell::new(1);
        let bench = Measuring { library, program, aide, directory: directory.path(), calls };
        for measure in [Measuring::starts, Measuring::uses, Measuring::memory] {
            bench.library.go_on()?;
            let table = measure(&bench, self.rounds, &mut order)?;
            text += &format!("\n\n{}", table.markdown().trim_end());
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The aide's program, and what jobs make of it.
    fn aide(&self, directory: &Path) -> anyhow::Result<(PathBuf, Aide)> {
        let prefix = match &self.prefix {
            Some(prefix) => prefix.clone(),
            None => prefix_in(&home()?),
        };
        let host = Host::here(std::env::var_os("PATH").as_ref());
        let found = found(&prefix, &host);
        if found.python.is_none() || found.deno.is_none() {
            bail!("there are no kernels in {}; run `cofferdam setup` first", prefix.display());
        }
        let parts = [found.python, found.deno].into_iter().flatten().filter_map(|program| {
            match program.origin {
                Origin::Prefix(place) => Some(place),
                Origin::Host => None,
            }
        });
        let program = copy::keep(&directory.join("programs"), 0o755, &AIDE)?;
        Ok((program.clone(), Aide::new(program, parts.collect())))
    }
}

fn home() -> anyhow::Result<PathBuf> {
    let data = std::env::var_os("COFFERDAM_HOME").map(PathBuf::from);
    let user =
        || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share/cofferdam"));
    data.or_else(user).context("there is no HOME; name the directory with --prefix")
}

/// Sees nothing.
struct Blind;

impl Watcher for Blind {
    fn output(&self, _: &[u8]) {}
}

struct Measuring<'a> {
    library: Library,
    program: PathBuf,
    aide: Aide,
    directory: &'a Path,
    calls: Cell<u64>,
}

/// A sandbox as a job has it.
struct Workplace {
    tools: Tools,
    sandbox: Arc<Sandbox>,
}

impl Measuring<'_> {
    async fn open(&self) -> anyhow::Result<Workplace> {
        let readable = self.aide.directories().collect();
        let spec = Spec { root: Root::Host { readable }, ..Spec::scratch() };
        let sandbox = Arc::new(Sandbox::open(self.library.backend(), spec).await?);
        let outputs = Arc::new(Outputs::in_directory(self.directory.join("outputs")));
        let tools = Tools::new(Arc::clone(&sandbox), outputs).with_aide(Some(self.aide.clone()));
        Ok(Workplace { tools, sandbox })
    }

    async fn call(&self, place: &Workplace, tool: &str, arguments: Value) -> anyhow::Result<()> {
        let call = self.calls.replace(self.calls.get() + 1);
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let output = place
            .tools
            .run(Call {
                call: CallId(call),
                thread: ThreadId(0),
                tool,
                arguments: &arguments,
                watcher: &Blind,
            })
            .await;
        place.tools.acknowledge(CallId(call));
        if output.status != ToolStatus::Done {
            bail!("{tool}: {:?}", output.content);
        }
        Ok(())
    }

    /// A turn that begins with a sandbox of its own.
    fn first(&self, tool: &str, arguments: &Value) -> anyhow::Result<Duration> {
        self.library.wait(async {
            let place = self.open().await?;
            let start = Instant::now();
            self.call(&place, tool, arguments.clone()).await?;
            let taken = start.elapsed();
            place.close().await?;
            Ok(taken)
        })
    }

    fn first_script(&self, script: &str) -> anyhow::Result<Duration> {
        self.library.wait(async {
            let place = self.open().await?;
            let start = Instant::now();
            place.shell(script).await?;
            let taken = start.elapsed();
            place.close().await?;
            Ok(taken)
        })
    }

    fn starts(&self, rounds: usize, order: &mut Order) -> anyhow::Result<Table> {
        let look = json!({"action": "screenshot"});
        let (python, typescript) = (json!({"code": "1 + 1"}), json!({"code": "1 + 1"}));
        let contenders = vec![
            Contender::new("desktop and a screenshot", rounds, || self.first("computer", &look)),
            Contender::new("Xvfb, openbox, x11vnc", rounds, || self.first_script(THEIR_DESKTOP)),
            Contender::new("a cell of Python", rounds, || self.first("python", &python)),
            Contender::new("a cell of TypeScript", rounds, || {
                self.first("typescript", &typescript)
            }),
        ];
        let finishes = race::run(contenders, order, || self.library.go_on())?;
        let mut table = Table::new("1. Start", &START_COLUMNS);
        rows(
            &mut table,
            &finishes.all,
            &[("desktop and a screenshot", &["Xvfb, openbox, x11vnc"])],
        );
        table.note("from the call to its answer; the sandbox is there already");
        Ok(table)
    }

    fn uses(&self, rounds: usize, order: &mut Order) -> anyhow::Result<Table> {
        let opened = self.library.wait(self.open())?;
        let place = &opened;
        let ready = async {
            self.call(place, "computer", json!({"action": "screenshot"})).await?;
            self.call(place, "python", json!({"code": "1"})).await?;
            self.call(place, "typescript", json!({"code": "1"})).await?;
            place.shell(THEIR_DESKTOP).await
        };
        self.library.wait(ready)?;
        let ours = |tool: &'static str, arguments: Value| {
            move || {
                self.library.wait(async {
                    let start = Instant::now();
                    self.call(place, tool, arguments.clone()).await?;
                    Ok(start.elapsed())
                })
            }
        };
        let theirs = |script: &str| {
            let script = script.to_owned();
            move || {
                self.library.wait(async {
                    let start = Instant::now();
                    place.shell(&script).await?;
                    Ok(start.elapsed())
                })
            }
        };
        // As the tool does it, but nobody waits for what the screen shows then.
        let bare_click = format!(
            r#"printf '{{"action": "left_click", "coordinate": [640, 400]}}' | {} desk act >/dev/null"#,
            self.program.display()
        );
        let groups: [(&str, &[&str]); 3] = [
            ("screenshot", &["import (ImageMagick)", "scrot", "xwd, no PNG"]),
            ("click", &["click, no picture", "xdotool"]),
            ("cell of Python", &["python3 -c", "cell of TypeScript"]),
        ];
        let contenders = vec![
            Contender::new("screenshot", rounds, ours("computer", json!({"action": "screenshot"}))),
            Contender::new(
                "import (ImageMagick)",
                rounds,
                theirs("import -display :77 -window root png:- >/dev/null"),
            ),
            Contender::new("scrot", rounds, theirs("DISPLAY=:77 scrot -o /tmp/shot.png")),
            Contender::new(
                "xwd, no PNG",
                rounds,
                theirs("xwd -display :77 -root -silent >/dev/null"),
            ),
            Contender::new(
                "click",
                rounds,
                ours("computer", json!({"action": "left_click", "coordinate": [640, 400]})),
            ),
            Contender::new("click, no picture", rounds, theirs(&bare_click)),
            Contender::new(
                "xdotool",
                rounds,
                theirs("DISPLAY=:77 xdotool mousemove 640 400 click 1"),
            ),
            Contender::new("cell of Python", rounds, ours("python", json!({"code": "1 + 1"}))),
            Contender::new("python3 -c", rounds, theirs("python3 -c 'print(1 + 1)' >/dev/null")),
            Contender::new(
                "cell of TypeScript",
                rounds,
                ours("typescript", json!({"code": "1 + 1"})),
            ),
        ];
        let finishes = race::run(contenders, order, || self.library.go_on())?;
        let mut table = Table::new("2. Use", &USE_COLUMNS);
        rows(&mut table, &finishes.all, &groups);
        table.note(format!(
            "1280x800; a click of ours waits until the screen is calm and brings a screenshot, \
             xdotool's does not; theirs on {THEIR_DISPLAY} of the same sandbox, started as a command \
             there as ours are"
        ));
        self.library.wait(opened.close())?;
        Ok(table)
    }

    fn memory(&self, _: usize, _: &mut Order) -> anyhow::Result<Table> {
        let mut table = Table::new("3. Memory", &["PSS of the sandbox's processes", "KiB"]);
        let place = self.library.wait(self.open())?;
        let mut row = |name: &str| {
            let bytes = sandbox_memory();
            table.row([name.to_owned(), kibibytes(bytes)]);
        };
        row("desktop off");
        self.library.wait(self.call(&place, "computer", json!({"action": "screenshot"})))?;
        row("desktop on");
        self.library.wait(place.stop_desktop(&self.aide))?;
        row("desktop stopped again");
        self.library.wait(self.call(&place, "python", json!({"code": "1 + 1"})))?;
        row("a kernel of Python");
        self.library.wait(self.call(&place, "typescript", json!({"code": "1 + 1"})))?;
        row("and one of TypeScript");
        self.library.wait(place.close())?;
        Ok(table)
    }
}

impl Workplace {
    async fn shell(&self, script: &str) -> anyhow::Result<()> {
        let ran = self.sandbox.run(self.sandbox.next_call_id(), self.sandbox.shell(script)).await?;
        if !ran.outcome.success() {
            bail!("{script}: {}", String::from_utf8_lossy(&ran.stderr).trim());
        }
        Ok(())
    }

    async fn stop_desktop(&self, aide: &Aide) -> anyhow::Result<()> {
        let program = aide.program.to_string_lossy();
        self.shell(&format!("{program} desk stop >/dev/null")).await
    }

    async fn close(self) -> anyhow::Result<()> {
        let Self { tools, sandbox } = self;
        drop(tools);
        let sandbox = Arc::into_inner(sandbox).context("somebody still holds the sandbox")?;
        Ok(sandbox.close().await?)
    }
}

/// Bytes of all processes below this one.
fn sandbox_memory() -> f64 {
    let below = process_table::below(process_table::own(), &process_table::all());
    below.iter().filter_map(|entry| process_table::memory(entry.process)).sum()
}

/// Adds a row for each; `x` is how many times as long as the first of its group.
fn rows(table: &mut Table, finishes: &[Finish], groups: &[(&str, &[&str])]) {
    let median = |name: &str| {
        let finish = finishes.iter().find(|finish| finish.name == name)?;
        finish.times.as_ref().ok()
    };
    for finish in finishes {
        let base = groups.iter().find(|(_, others)| others.contains(&finish.name.as_str()));
        let base = base.and_then(|(first, _)| median(first));
        match &finish.times {
            Ok(times) => table.row([
                finish.name.clone(),
                milliseconds(times.min()),
                milliseconds(times.median()),
                milliseconds(times.p95()),
                base.map(|base| digits(times.times(base))).unwrap_or_default(),
                times.count().to_string(),
            ]),
            Err(reason) => table.absent(&finish.name, reason),
        }
    }
}
