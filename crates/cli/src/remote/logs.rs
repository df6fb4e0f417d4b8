//! `cofferdam logs`: what happened in a job, as text or as it is stored.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use cofferdam_types::{Event, Record};
use cofferdam_view::{Happening, Style, View};

use super::access::ServerOptions;
use super::which::Which;
use super::{Failed, problem, status};
use crate::streams::Writer;
use crate::{Product, exit};

/// Events of one page.
const PAGE: u32 = 200;

/// The exit code of somebody whose reader has gone: 128 and the number of SIGPIPE.
const READER_GONE: u8 = 141;

/// The options of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    which: Which,
    /// Go on with what happens, until the job is over
    #[arg(long, short)]
    follow: bool,
    /// Print the events as they are stored: one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only events after the one of this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    server: ServerOptions,
}

pub(crate) async fn run(
    product: &Product,
    arguments: &LogsArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let client = arguments.server.client(product)?;
    let job = arguments.which.find(&client).await?;
    let view = (!arguments.json).then(|| Box::new(View::new(Style::Plain).of_a_server()));
    let mut log = Log { view, ending: None, out };
    if arguments.follow {
        let mut events = client.follow(job, arguments.after);
        while let Some(stored) = events.next().await.map_err(problem::failed)? {
            if !log.show(&stored.line).await {
                return Ok(READER_GONE);
            }
        }
        // An end that was not among the events asked for, or not understood.
        if log.ending.is_none() {
            let job = client.job(job).await.map_err(problem::failed)?;
            return Ok(status::code(&job));
        }
        return Ok(log.ending.unwrap_or(exit::FAILED));
    }
    let mut after = arguments.after;
    loop {
        let page = client.events(job, after, PAGE).await.map_err(problem::failed)?;
        for event in &page.events {
            if !log.show(event.get()).await {
                return Ok(READER_GONE);
            }
        }
        // One that does not get further would never end.
        if !page.more || page.after <= after {
            return Ok(0);
        }
        after = page.after;
    }
}

/// Where a job's events are shown.
struct Log<'a> {
    /// None where they are printed as they are.
    view: Option<Box<View>>,
    /// The exit code of the last ending.
    ending: Option<u8>,
    out: &'a mut Writer,
}

impl Log<'_> {
    /// Shows an event. `false` when nobody reads any more.
    async fn show(&mut self, line: &str) -> bool {
        let record: Option<Record> = serde_json::from_str(line).ok();
        if let Some(Record { event: Event::Ended { ending, .. }, .. }) = &record {
            self.ending = Some(exit::of(ending));
        }
        let text = match (&mut self.view, &record) {
            (None, _) => format!("{line}\n"),
            (Some(view), Some(record)) => {
                // Pauses between events say nothing to who reads them later.
                view.happen(Duration::ZERO, Happening::Record(record))
            }
            // An event of a newer server has no words here.
            (Some(_), None) => String::new(),
        };
        text.is_empty() || self.out.write(Bytes::from(text)).await
    }
}
