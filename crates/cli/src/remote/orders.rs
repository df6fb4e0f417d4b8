//! `cofferdam cancel`, `pause`, `resume` and `say`.

use clap::Args;
use cofferdam_api::{Job, Message, Resume};
use cofferdam_types::Usd;

use super::access::ServerOptions;
use super::submit::duration_text;
use super::which::{self, Which};
use super::{Failed, print_json, problem};
use crate::arguments::some_money;
use crate::problem::Problem;
use crate::run::read_task;
use crate::streams::{self, Writer};
use crate::{Product, exit};

/// The options of `cancel` and `pause`.
#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    #[command(flatten)]
    which: Which,
    /// Print the job as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// The options of `resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The job: its id, or the beginning or end of it. Not with --last
    #[arg(value_name = "ID", required_unless_present = "last")]
    id: Option<String>,
    /// What to tell the agent before it goes on; `-` reads it from stdin
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
    /// The job that you submitted last
    #[arg(long)]
    last: bool,
    /// Stop after so many answers of models, in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Stop before this much money is spent, in all
    #[arg(long, value_name = "USD", value_parser = some_money)]
    max_cost: Option<Usd>,
    /// Stop before so many tokens are used, in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Stop after this time, in all
    #[arg(long, value_name = "TIME", value_parser = duration_text)]
    timeout: Option<String>,
    /// Print the job as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// The options of `say`.
#[derive(Debug, Args)]
pub(crate) struct SayArguments {
    /// The job: its id, or the beginning or end of it. Not with --last
    #[arg(value_name = "ID", required = true)]
    id: Option<String>,
    /// What to say; `-` reads it from stdin
    #[arg(value_name = "MESSAGE", required_unless_present = "last")]
    message: Option<String>,
    /// The job that you submitted last
    #[arg(long)]
    last: bool,
    /// Print the job as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// The job's name and the words: with --last, the only words are the message.
fn split<'a>(
    last: bool,
    id: Option<&'a str>,
    message: Option<&'a str>,
) -> Result<(Option<&'a str>, Option<&'a str>), Failed> {
    match (last, id, message) {
        (false, id, message) => Ok((id, message)),
        (true, message, None) => Ok((None, message)),
        (true, _, Some(_)) => {
            let cause = "--last names the job: give no id with it".to_owned();
            Err((Problem::option(cause), exit::USAGE))
        }
    }
}

async fn words(message: Option<&str>) -> Result<Option<String>, Failed> {
    match message {
        Some(text) => read_task(text).await.map(Some).map_err(|problem| (problem, exit::USAGE)),
        None => Ok(None),
    }
}

pub(crate) async fn cancel(
    product: &Product,
    arguments: &OrderArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let client = arguments.server.client(product)?;
    let id = arguments.which.find(&client).await?;
    let job = client.cancel(id).await.map_err(problem::failed)?;
    told(arguments.json, &job, "is stopped", out).await
}

pub(crate) async fn pause(
    product: &Product,
    arguments: &OrderArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let client = arguments.server.client(product)?;
    let id = arguments.which.find(&client).await?;
    let job = client.pause(id).await.map_err(problem::failed)?;
    told(arguments.json, &job, "rests as soon as nothing is under way", out).await
}

pub(crate) async fn resume(
    product: &Product,
    arguments: &ResumeArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let (id, message) =
        split(arguments.last, arguments.id.as_deref(), arguments.message.as_deref())?;
    let client = arguments.server.client(product)?;
    let how = Resume {
        message: words(message).await?,
        max_turns: arguments.max_turns,
        max_tokens: arguments.max_tokens,
        max_cost: arguments.max_cost.map(String::from),
        timeout: arguments.timeout.clone(),
    };
    let id = which::find(&client, id).await?;
    let job = client.resume(id, &how).await.map_err(problem::failed)?;
    told(arguments.json, &job, "goes on", out).await
}

pub(crate) async fn say(
    product: &Product,
    arguments: &SayArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let (id, message) =
        split(arguments.last, arguments.id.as_deref(), arguments.message.as_deref())?;
    let client = arguments.server.client(product)?;
    let Some(text) = words(message).await? else {
        return Err((Problem::option("there is nothing to say".to_owned()), exit::USAGE));
    };
    let id = which::find(&client, id).await?;
    let job = client.say(id, &Message { text }).await.map_err(problem::failed)?;
    told(arguments.json, &job, "hears it before its next step", out).await
}

async fn told(json: bool, job: &Job, what: &str, out: &mut Writer) -> Result<u8, Failed> {
    if json {
        print_json(out, job).await;
    } else {
        streams::tell(&format!("Job {} {what}.", job.id));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_last_the_only_words_are_the_message() {
        let check = |last, id, message| split(last, id, message).ok();
        assert_eq!(check(false, Some("a"), Some("m")), Some((Some("a"), Some("m"))));
        assert_eq!(check(false, Some("a"), None), Some((Some("a"), None)));
        assert_eq!(check(true, Some("m"), None), Some((None, Some("m"))));
        assert_eq!(check(true, None, None), Some((None, None)));
        assert_eq!(check(true, Some("a"), Some("m")), None);
    }
}
