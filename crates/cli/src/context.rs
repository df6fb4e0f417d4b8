//! `cofferdam context`: what the model of a job sees now, and what was cut from it.
//!
//! It is computed from the job's log alone, so it can be looked at while the job runs
//! and long after.

mod look;
mod told;

use clap::Args;
use cofferdam_client::Client;
use cofferdam_config::{Flags, Settings, Sources, load};
use cofferdam_runtime::JournalPast;
use cofferdam_types::{JobId, Record};

use crate::problem::Problem;
use crate::remote::{Failed, ServerOptions, failed, find, print, print_json};
use crate::run::engine;
use crate::streams::Writer;
use crate::whose::{nowhere, transcript};
use crate::{Product, exit};

use look::Look;

/// Events of one page.
const PAGE: u32 = 200;

/// The options of `context`.
#[derive(Debug, Args)]
pub(crate) struct ContextArguments {
    /// The job: its id, the beginning or end of it, or its transcript
    #[arg(value_name = "ID", required_unless_present = "last")]
    id: Option<String>,
    /// The job that was begun last here; with --server, that you submitted last
    #[arg(long, conflicts_with = "id")]
    last: bool,
    /// Print the very text that goes before the model
    #[arg(long)]
    full: bool,
    /// Print one JSON object; with --full the text is in it
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

pub(crate) async fn run(
    product: &Product,
    arguments: &ContextArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let usage = |problem: Problem| (problem, exit::USAGE);
    let sources = Sources::of_this_process(Flags::default())
        .map_err(|error| usage(Problem::option(format!("the current directory: {error}"))))?;
    let settings = load(&sources).map_err(|error| usage(Problem::config(&error)))?;
    let look = match local(product, arguments)? {
        Some(look) => look,
        None => remote(product, arguments).await?,
    };
    show(look, &settings, arguments, out).await;
    Ok(0)
}

async fn show(look: Look, settings: &Settings, arguments: &ContextArguments, out: &mut Writer) {
    let engine = engine(settings, look.spec());
    let seen = look.seen(&engine);
    if arguments.json {
        print_json(out, &seen.json(arguments.full)).await;
    } else {
        let mut text = told::overview(&seen);
        if arguments.full {
            text.push_str(&told::text(&seen));
        }
        print(out, text.trim_end()).await;
    }
}

/// The job of a transcript; none if there is no such transcript here, or if a server was
/// named.
fn local(product: &Product, arguments: &ContextArguments) -> Result<Option<Look>, Failed> {
    let usage = |problem: Problem| (problem, exit::USAGE);
    let name = arguments.id.as_deref();
    let Some(path) = transcript(product, name, &arguments.server)? else { return Ok(None) };
    let (mut look, mut broken) = (None, None);
    let read = JournalPast::of(&path).each(|record| {
        if broken.is_none() {
            broken = Look::follow(&mut look, record).err();
        }
    });
    read.map_err(|error| usage(Problem::transcript(&error)))?;
    match (look, broken) {
        (Some(look), None) => Ok(Some(look)),
        (_, Some(error)) => Err(usage(Problem::unusable(&path, &error.to_string()))),
        (None, None) => Err(usage(Problem::unusable(&path, "the log is empty"))),
    }
}

/// The job of a server.
async fn remote(product: &Product, arguments: &ContextArguments) -> Result<Look, Failed> {
    let name = arguments.id.as_deref();
    let read = async {
        let client = arguments.server.client(product)?;
        let job = find(&client, name).await?;
        events(&client, job).await
    };
    read.await.map_err(|failed| nowhere(failed, name, &arguments.server))
}

async fn events(client: &Client, job: JobId) -> Result<Look, Failed> {
    let mut look = None;
    let mut after = 0;
    loop {
        let page = client.events(job, after, PAGE).await.map_err(failed)?;
        for event in &page.events {
            let unusable = |cause: &str| (Problem::unusable_log(job, cause), exit::FAILED);
            let record: Record = serde_json::from_str(event.get())
                .map_err(|error| unusable(&format!("event {}: {error}", after + 1)))?;
            Look::follow(&mut look, &record).map_err(|error| unusable(&error.to_string()))?;
        }
        if !page.more || page.after <= after {
            break;
        }
        after = page.after;
    }
    look.ok_or_else(|| (Problem::unusable_log(job, "the log is empty"), exit::FAILED))
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
