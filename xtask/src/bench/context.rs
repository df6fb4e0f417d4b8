//! Context beyond the window: how fast the next question is put together, how fast and
//! how well what was let go is found again, and what memory a long job takes.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::context_memory;
use super::context_prompt;
use super::context_recall;
use super::interruption::Interruption;
use super::report::Table;
use super::{host, product, publish, rounds};

#[derive(Args)]
pub(super) struct ContextBench {
    /// How often each time is taken, where it is short
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rounds)]
    rounds: usize,
    /// Less of everything: to see that it works, not for numbers to keep
    #[arg(long)]
    quick: bool,
    /// Measure this alone; can be given more than once
    #[arg(long, value_name = "SECTION")]
    only: Vec<Section>,
    /// The product's binary [default: it is built]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Write the report to this file as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    Prompt,
    Recall,
    Memory,
}

/// How much of everything, in thousands of tokens.
pub(super) struct Scale {
    /// Of the history whose next question is put together.
    pub(super) prompt: u64,
    /// Of the history that is searched.
    pub(super) recall: u64,
    /// Of the jobs whose memory is looked at.
    pub(super) memory: [u64; 3],
    /// Facts that are looked for.
    pub(super) needles: usize,
}

const FULL: Scale =
    Scale { prompt: 1_000, recall: 3_000, memory: [300, 1_000, 3_000], needles: 480 };

const QUICK: Scale = Scale { prompt: 200, recall: 200, memory: [50, 100, 200], needles: 48 };

/// Rounds of a quick run.
const QUICK_ROUNDS: usize = 3;

/// Bytes of text that count as a token.
pub(super) const BYTES_A_TOKEN: u64 = 4;

impl ContextBench {
    /// Measures and prints the report.
    pub(super) fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        let wanted = |section| self.only.is_empty() || self.only.contains(&section);
        let binary = match wanted(Section::Memory) {
            true => Some(product(root, self.binary.as_deref())?),
            false => None,
        };
        // Before anything of ours runs.
        let machine = host::describe();
        let directory = tempfile::Builder::new().prefix("cofferdam-bench-").tempdir()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let interruption = Interruption::listen(&runtime)?;
        let scale = if self.quick { QUICK } else { FULL };
        let rounds = if self.quick { self.rounds.min(QUICK_ROUNDS) } else { self.rounds };
        let mut text = format!("# Context benchmark\n\n- {machine}");
        if self.quick {
            text += "\n- a quick run: its numbers are not to be kept";
        }
        let mut well = true;
        for section in [Section::Prompt, Section::Recall, Section::Memory] {
            if !wanted(section) {
                continue;
            }
            interruption.check(&runtime)?;
            writeln!(io::stderr(), "measuring: {section:?}")?;
            let measured: anyhow::Result<Vec<Table>> = match (section, &binary) {
                (Section::Prompt, _) => context_prompt::measure(&scale, rounds, directory.path()),
                (Section::Recall, _) => {
                    runtime.block_on(context_recall::measure(&scale, rounds, directory.path()))
                }
                (Section::Memory, Some(binary)) => {
                    context_memory::measure(&scale, binary, directory.path(), &runtime)
                }
                (Section::Memory, None) => Ok(Vec::new()),
            };
            interruption.check(&runtime)?;
            match measured {
                Ok(tables) => {
                    for table in tables {
                        text += &format!("\n\n{}", table.markdown().trim_end());
                    }
                }
                Err(error) => {
                    well = false;
                    text += &format!("\n\n## {section:?}: failed\n\n- {error:#}");
                }
            }
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
