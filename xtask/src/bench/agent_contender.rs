//! Those who are compared: the product, and what there is besides.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use cofferdam_testkit::{Dialect, ScriptedServer};

use super::program;

/// More turns than any script here has.
const MAX_TURNS: &str = "200";

/// The least that works: a loop that speaks Messages and runs what it is told,
/// on the bare host.
const FLOOR: &str = r#"
import http.client, json, subprocess, sys

TOOL = {"name": "bash", "description": "Runs a command.", "input_schema": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}

def ask(server, messages):
    body = {"model": "scripted", "max_tokens": 4096, "stream": True, "tools": [TOOL],
            "messages": messages}
    server.request("POST", "/v1/messages", json.dumps(body), {"content-type": "application/json"})
    blocks, texts = [], []
    for line in server.getresponse():
        event = json.loads(line[5:]) if line.startswith(b"data:") else {"type": None}
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
            texts.append("")
        elif event["type"] == "content_block_delta":
            texts[-1] += event["delta"].get("text") or event["delta"].get("partial_json") or ""
    for block, text in zip(blocks, texts):
        block.update({"input": json.loads(text)} if block["type"] == "tool_use" else {"text": text})
    return blocks

def run(call):
    done = subprocess.run(["bash", "-c", call["input"]["command"]], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return {"type": "tool_result", "tool_use_id": call["id"], "content": done.stdout}

server = http.client.HTTPConnection(sys.argv[1])
messages = [{"role": "user", "content": sys.argv[2]}]
while True:
    blocks = ask(server, messages)
    results = [run(block) for block in blocks if block["type"] == "tool_use"]
    if not results:
        break
    messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
"#;

/// What every agent is asked to do; the script decides what it does.
const TASK: &str = "Do what has to be done.";

/// Agents that people use, with their program and what was measured of them
/// elsewhere, on a comparable but busy machine.
pub(super) const OTHERS: [(&str, &str, &str); 2] = [
    (
        "Codex",
        "codex",
        "codex 0.166.0, sandboxed: first request after 0.30 s, start-up 0.37 s, 178 ms a turn, gap \
         167 (236) ms, PSS 181 MB, four sleeps 1.2 s, first request 39 KB",
    ),
    (
        "Claude Code",
        "claude",
        "claude 2.1.197, sandboxed: first request after 0.99 s, start-up 1.10 s, 122 ms a turn, gap \
         107 (186) ms, PSS 312 MB, first request 118 KB; not sandboxed: four sleeps 4.3 s",
    ),
];

/// An agent that can be measured.
pub(super) enum Agent {
    /// `cofferdam run`, with its home.
    Product { binary: PathBuf, home: PathBuf },
    /// The loop in Python.
    Floor { python: PathBuf, script: PathBuf },
}

impl Agent {
    /// What the report calls the loop in Python, also where there is no Python.
    pub(super) const FLOOR: &str = "a loop in Python, no sandbox";

    /// The product; its files are kept below the directory.
    pub(super) fn product(binary: &Path, directory: &Path) -> Self {
        Self::Product { binary: binary.to_owned(), home: directory.join("home") }
    }

    /// The loop in Python; it is written into the directory.
    ///
    /// # Errors
    /// When there is no Python.
    pub(super) fn floor(directory: &Path) -> anyhow::Result<Self> {
        // What is called so may be a script that looks for the real one each time.
        let mut which = program::command(program::find("python3")?);
        let real = program::output(which.args(["-c", "import sys; print(sys.executable)"]))?;
        let script = directory.join("floor.py");
        fs::write(&script, FLOOR).with_context(|| script.display().to_string())?;
        Ok(Self::Floor { python: PathBuf::from(real.trim()), script })
    }

    /// As the report calls it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Product { .. } => "cofferdam run, sandboxed",
            Self::Floor { .. } => Self::FLOOR,
        }
    }

    /// The program that has this server for a model and works in this workspace.
    pub(super) fn command(
        &self,
        server: &ScriptedServer,
        dialect: Dialect,
        workspace: &Path,
    ) -> Command {
        let mut command = match self {
            Self::Product { binary, home } => {
                let mut command = program::command(binary);
                command.args(["run", "--max-turns", MAX_TURNS]);
                command.env("COFFERDAM_HOME", home).env("HOME", home.join("user"));
                for (name, value) in model_variables(&server.base_url(), dialect) {
                    command.env(name, value);
                }
                command
            }
            Self::Floor { python, script } => {
                let mut command = program::command(python);
                command.arg(script).arg(server.address().to_string());
                command
            }
        };
        command.arg(TASK).current_dir(workspace);
        command
    }
}

/// The variables by which the product finds the model.
fn model_variables(base: &str, dialect: Dialect) -> [(&'static str, String); 3] {
    let openai = |provider: &str| {
        [
            ("MODEL", format!("{provider}/scripted")),
            ("OPENAI_BASE_URL", format!("{base}/v1")),
            ("OPENAI_API_KEY", "none".to_owned()),
        ]
    };
    match dialect {
        Dialect::Messages => [
            ("MODEL", "anthropic/scripted".to_owned()),
            ("ANTHROPIC_BASE_URL", base.to_owned()),
            ("ANTHROPIC_API_KEY", "none".to_owned()),
        ],
        Dialect::Responses => openai("openai"),
        Dialect::Chat => openai("openai-compatible"),
    }
}

/// Why one of the others has no numbers of this run.
pub(super) fn why_not(program: &str) -> String {
    let Ok(path) = program::find(program) else {
        return "it is not installed here".to_owned();
    };
    let version = program::output(program::command(path).arg("--version"));
    let version = version.ok().and_then(|text| text.lines().next().map(str::to_owned));
    let version = version.unwrap_or_else(|| "version unknown".to_owned());
    format!("it is installed ({version}), but this program does not drive it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_not_installed() {
        assert_eq!(why_not("no-such-program"), "it is not installed here");
        assert!(why_not("cargo").contains("cargo 1."), "{}", why_not("cargo"));
    }

    #[test]
    fn each_wire_has_its_provider() {
        let providers = Dialect::ALL.map(|dialect| {
            let [(_, model), (_, base), _] = model_variables("http://127.0.0.1:1", dialect);
            format!("{model} {base}")
        });
        assert_eq!(
            providers,
            [
                "anthropic/scripted http://127.0.0.1:1",
                "openai/scripted http://127.0.0.1:1/v1",
                "openai-compatible/scripted http://127.0.0.1:1/v1",
            ]
        );
    }
}
