//! `cofferdam doctor`: what this machine can do, tried for real.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cofferdam_sandbox::{AUTO, Backend, Fact, Grade, Isolation, Sandbox, Spec, choose};
use cofferdam_setup::{Host, found, prefix_in};
use serde::Serialize;

use crate::arguments::DoctorArguments;
use crate::problem::Problem;
use crate::streams::{self, Writer};
use crate::{Product, exit, provisions};

/// The exit code when no sandbox can be made.
const NO_SANDBOX: u8 = 6;

/// Programs that tasks commonly need, looked for inside a sandbox.
const COMMON_PROGRAMS: &[&str] =
    &["bash", "git", "python3", "pip3", "node", "npm", "cc", "make", "cargo", "curl"];

/// What was found out about one back end.
#[derive(Debug, Serialize)]
struct Examined {
    backend: &'static str,
    machine: Vec<Fact>,
    trial: Trial,
}

/// What became of `/bin/true` in a fresh sandbox.
#[derive(Debug, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum Trial {
    Works { milliseconds: f64, isolation: Isolation, missing_programs: Vec<String> },
    Fails { problem: Problem },
}

#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    backends: Vec<Examined>,
    chosen: Option<&'static str>,
    /// What code cells and the desktop need.
    provisions: Vec<Fact>,
}

/// Tries every back end and says what was found.
pub(crate) async fn run(product: &Product, arguments: &DoctorArguments) -> ExitCode {
    let mut backends = Vec::new();
    for backend in &product.backends {
        backends.push(examine(backend).await);
    }
    let auto = choose(&product.backends, AUTO, Grade::Contained).ok();
    let chosen = auto.map(|backend| backend.name()).filter(|name| works(&backends, name));
    let provisions = provisions(product);
    let version = env!("CARGO_PKG_VERSION");
    let findings = Findings { version, backends, chosen, provisions };
    let text = if arguments.json {
        serde_json::to_string_pretty(&findings).unwrap_or_default() + "\n"
    } else {
        render(&findings)
    };
    let mut stdout = Writer::stdout();
    stdout.write(Bytes::from(text)).await;
    // Who sees a part of it only cannot rely on it.
    if let Err(error) = stdout.close().await {
        if !streams::reader_went(&error) {
            streams::tell(&Problem::output(&error).to_string());
        }
        return ExitCode::from(exit::FAILED);
    }
    ExitCode::from(if chosen.is_some() { 0 } else { NO_SANDBOX })
}

fn works(backends: &[Examined], name: &str) -> bool {
    let tried = backends.iter().find(|examined| examined.backend == name);
    tried.is_some_and(|examined| matches!(examined.trial, Trial::Works { .. }))
}

/// What code cells and the desktop need, as it is here. Without it there is still a sandbox.
fn provisions(product: &Product) -> Vec<Fact> {
    let host = Host::here(std::env::var_os("PATH").as_ref());
    let mut facts = provisions::parts(&found(&prefix_in(&product.home), &host));
    facts.extend(provisions::desktop(&host));
    facts
}

async fn examine(backend: &Arc<dyn Backend>) -> Examined {
    let trial = match attempt(backend.as_ref()).await {
        Ok(trial) => trial,
        Err(problem) => Trial::Fails { problem },
    };
    Examined { backend: backend.name(), machine: backend.examine(), trial }
}

async fn attempt(backend: &dyn Backend) -> Result<Trial, Problem> {
    let begun = Instant::now();
    let sandbox = Sandbox::open(backend, Spec::scratch()).await.map_err(|e| Problem::open(&e))?;
    let command =
        sandbox.command(cofferdam_guest_protocol::Program::Argv(vec!["/bin/true".into()]));
    let result = sandbox
        .run(sandbox.next_call_id(), command)
        .await
        .map_err(|error| Problem::call(&error, "/bin/true"))?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1000.0;
    if !result.outcome.success() {
        let error = cofferdam_sandbox::CallError::ConnectionLost {
            reason: format!("/bin/true ended with {:?}", result.outcome),
        };
        return Err(Problem::call(&error, "/bin/true"));
    }
    let script = format!(
        "for p in {}; do command -v $p >/dev/null || echo $p; done",
        COMMON_PROGRAMS.join(" ")
    );
    let missing = sandbox
        .run(sandbox.next_call_id(), sandbox.shell(script))
        .await
        .map_err(|error| Problem::call(&error, "/bin/sh"))?;
    let missing_programs =
        String::from_utf8_lossy(&missing.stdout).lines().map(str::to_owned).collect();
    let isolation = sandbox.isolation().clone();
    sandbox.close().await.map_err(|error| Problem::close(&error))?;
    Ok(Trial::Works { milliseconds, isolation, missing_programs })
}

fn render(findings: &Findings) -> String {
    let mut text = String::new();
    for examined in &findings.backends {
        render_backend(&mut text, examined).ok(); // writing to a string does not fail
    }
    text.push_str("code cells and desktop\n");
    render_facts(&mut text, &findings.provisions).ok();
    text.push('\n');
    let last = match findings.chosen {
        Some(name) => format!("Sandboxes will be made by: {name}\n"),
        None => {
            let names = findings.backends.iter().map(|examined| examined.backend);
            let working: Vec<&str> = names.filter(|name| works(&findings.backends, name)).collect();
            match working.as_slice() {
                [] => "No sandbox can be made on this machine; see above for what would mend it.\n"
                    .to_owned(),
                _ => format!(
                    "No sandbox can be made without being told how: see above for what would mend \
                     that, or say --sandbox {}.\n",
                    working.join(" or --sandbox ")
                ),
            }
        }
    };
    text + &last
}

fn render_backend(text: &mut String, examined: &Examined) -> std::fmt::Result {
    writeln!(text, "{}", examined.backend)?;
    writeln!(text, "  this machine")?;
    render_facts(text, &examined.machine)?;
    match &examined.trial {
        Trial::Works { milliseconds, isolation, missing_programs } => {
            writeln!(
                text,
                "  trial: /bin/true ran in a fresh sandbox in {milliseconds:.1} ms; grade {}",
                isolation.grade
            )?;
            render_facts(text, &isolation.facts)?;
            if !missing_programs.is_empty() {
                writeln!(
                    text,
                    "    not found inside    {} (install them system-wide, or show a directory \
                     with --read)",
                    missing_programs.join(", ")
                )?;
            }
        }
        Trial::Fails { problem } => {
            writeln!(text, "  trial: failed")?;
            for line in problem.to_string().lines() {
                writeln!(text, "    {line}")?;
            }
        }
    }
    writeln!(text)
}

fn render_facts(text: &mut String, facts: &[Fact]) -> std::fmt::Result {
    for fact in facts {
        writeln!(text, "    {:<19} {}", fact.part, fact.value)?;
        for (index, line) in fact.weakness.iter().flat_map(|text| text.lines()).enumerate() {
            let mark = if index == 0 { "! " } else { "  " };
            writeln!(text, "    {:<19} {mark}{line}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_only_when_asked_for_is_not_promised() {
        let works = |backend: &'static str| Examined {
            backend,
            machine: Vec::new(),
            trial: Trial::Works {
                milliseconds: 1.0,
                isolation: Isolation {
                    backend: backend.to_owned(),
                    grade: Grade::Contained,
                    facts: Vec::new(),
                },
                missing_programs: Vec::new(),
            },
        };
        let fails = |backend| {
            let problem = Problem::option("there are no user namespaces".to_owned());
            Examined { backend, machine: Vec::new(), trial: Trial::Fails { problem } }
        };
        let last = |backends: Vec<Examined>| {
            let findings =
                Findings { version: "0", backends, chosen: None, provisions: Vec::new() };
            render(&findings).lines().last().unwrap_or_default().to_owned()
        };
        let told = last(vec![fails("native"), works("docker"), fails("crun"), works("podman")]);
        assert!(told.ends_with("say --sandbox docker or --sandbox podman."), "{told}");
        let told = last(vec![fails("native"), fails("docker")]);
        assert!(told.starts_with("No sandbox can be made on this machine"), "{told}");
    }

    #[test]
    fn what_is_weak_is_marked_and_the_choice_comes_last() {
        let fact = |part: &str, value: &str, weakness: Option<&str>| Fact {
            part: part.to_owned(),
            value: value.to_owned(),
            weakness: weakness.map(str::to_owned),
        };
        let findings = Findings {
            version: "0",
            backends: vec![Examined {
                backend: "native",
                machine: vec![fact("kernel", "6.1.0", None)],
                trial: Trial::Works {
                    milliseconds: 4.21,
                    isolation: Isolation {
                        backend: "native".to_owned(),
                        grade: Grade::Contained,
                        facts: vec![fact("memory", "a limit on each process", Some("run as root"))],
                    },
                    missing_programs: vec!["node".to_owned()],
                },
            }],
            chosen: Some("native"),
            provisions: vec![
                fact("python", "/data/prefix/python-1/bin/python", None),
                fact("typescript", "missing", Some("install it: cofferdam setup typescript")),
            ],
        };
        insta::assert_snapshot!(render(&findings), @"
        native
          this machine
            kernel              6.1.0
          trial: /bin/true ran in a fresh sandbox in 4.2 ms; grade contained
            memory              a limit on each process
                                ! run as root
            not found inside    node (install them system-wide, or show a directory with --read)

        code cells and desktop
            python              /data/prefix/python-1/bin/python
            typescript          missing
                                ! install it: cofferdam setup typescript

        Sandboxes will be made by: native
        ");
    }
}
