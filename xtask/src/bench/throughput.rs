//! Throughput: how fast a command's output gets out of a sandbox.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::Setting;
use super::order::Order;
use super::process_table;
use super::program::{self, Companion};
use super::report::{Table, digits};
use super::sample::Samples;

/// How much is read at once.
const PIECE: usize = 256 << 10;

/// How often the program's memory is looked at, in bytes that were read.
const LOOK: u64 = 16 << 20;

/// How long the program may take to end once its output has.
const GRACE: Duration = Duration::from_secs(30);

/// What became of one transfer.
struct Transfer {
    taken: Duration,
    /// Bytes of memory that the program ever had at once.
    memory: f64,
}

/// Measures and tells.
pub(super) fn measure(setting: &Setting, order: &mut Order) -> anyhow::Result<Table> {
    let bytes = setting.scale.output;
    let size = format!("{} MiB of output", bytes >> 20);
    let columns = [&size, "MiB/s median", "MiB/s best", "x plain pipe", "VmHWM MiB", "samples"];
    let mut table = Table::new("5. Throughput", &columns);
    let amount = bytes.to_string();
    let words = ["head", "-c", &amount, "/dev/zero"];
    let mut plain = program::command(program::find("head")?);
    plain.args(words.iter().skip(1));
    let mut product = program::command(&setting.binary);
    product.env("COFFERDAM_HOME", setting.directory.join("product"));
    product.args(["exec", "--"]).args(words);

    let mut contenders = [
        ("plain pipe", plain, Vec::new(), 0.0_f64),
        ("cofferdam exec", product, Vec::new(), 0.0_f64),
    ];
    for number in order.turns(&[setting.scale.transfers; 2]) {
        let Some((name, command, times, memory)) = contenders.get_mut(number) else { continue };
        let transfer = transfer(command, bytes).with_context(|| (*name).to_owned())?;
        times.push(transfer.taken);
        *memory = memory.max(transfer.memory);
    }
    let mut reference: Option<Samples> = None;
    for (name, _, times, memory) in contenders {
        let Some(times) = Samples::of(times) else { continue };
        let speed = |taken: Duration| digits((bytes >> 20) as f64 / taken.as_secs_f64());
        let plain = reference.get_or_insert_with(|| times.clone());
        table.row([
            name.to_owned(),
            speed(times.median()),
            speed(times.min()),
            digits(plain.times(&times)),
            digits(memory / f64::from(1 << 20)),
            times.count().to_string(),
        ]);
    }
    table.note("VmHWM: of the program that writes into the pipe, `head` or `cofferdam`");
    Ok(table)
}

/// Reads all that a program writes, to its end.
fn transfer(command: &mut Command, expected: u64) -> anyhow::Result<Transfer> {
    let start = Instant::now();
    let mut child = Companion(command.stdout(Stdio::piped()).spawn()?);
    let mut output = child.stdout.take().context("the program has no stdout")?;
    let process = child.pid().as_raw_nonzero().get();
    let mut piece = vec![0; PIECE];
    let (mut count, mut look, mut memory) = (0, 0, 0.0_f64);
    loop {
        let read = output.read(&mut piece)?;
        if read == 0 {
            break;
        }
        count += u64::try_from(read)?;
        if count >= look {
            look = count + LOOK;
            memory = memory.max(process_table::most_memory(process).unwrap_or_default());
        }
    }
    let status = child.ends_within(GRACE)?.context("the program does not end")?;
    let taken = start.elapsed();
    if !status.success() || count != expected {
        bail!("{count} bytes of {expected} came, and the program ended with {status}");
    }
    Ok(Transfer { taken, memory })
}
