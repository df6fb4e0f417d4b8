//! `cofferdam status`.

use clap::Args;
use cofferdam_api::Job;
use cofferdam_view::{tame, tame_line};
use jiff::Timestamp;

use super::access::ServerOptions;
use super::list::age;
use super::which::Which;
use super::{Failed, print, print_json, problem};
use crate::streams::Writer;
use crate::{Product, exit};

/// The options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    which: Which,
    /// Print the job as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

pub(crate) async fn run(
    product: &Product,
    arguments: &StatusArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let client = arguments.server.client(product)?;
    let id = arguments.which.find(&client).await?;
    let job = client.job(id).await.map_err(problem::failed)?;
    if arguments.json {
        print_json(out, &job).await;
    } else {
        print(out, &told(&job, Timestamp::now())).await;
    }
    Ok(code(&job))
}

/// The exit code that a job has by now.
pub(crate) fn code(job: &Job) -> u8 {
    // What a job ended with before it was resumed is no news.
    exit::told(job.ending.filter(|_| job.status.is_over()))
}

/// The share of what was read that came from a cache. An older server says nothing.
fn cached(job: &Job) -> String {
    match (job.tokens_read, job.tokens_cached) {
        (None | Some(0), _) => String::new(),
        (Some(_), None) => " (cached share unknown)".to_owned(),
        (Some(read), Some(cached)) => format!(" ({}% cached)", cached.saturating_mul(100) / read),
    }
}

fn told(job: &Job, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let mut say = |name: &str, value: &str| {
        if !value.trim().is_empty() {
            lines.push(format!("{name:<10} {value}"));
        }
    };
    let moment = |moment: &str| format!("{} ({} ago)", tame_line(moment), age(moment, now));
    say("id", &job.id.to_string());
    let paused = if job.paused { " (paused)" } else { "" };
    say("status", &format!("{}{paused}", job.status.name()));
    if let Some(verified) = job.verified {
        say("verified", if verified { "yes" } else { "no" });
    }
    say("title", &tame_line(&job.title));
    say("created", &moment(&job.created));
    say("started", &job.started.as_deref().map(moment).unwrap_or_default());
    say("ended", &job.ended.as_deref().map(moment).unwrap_or_default());
    say("model", &tame_line(job.model.as_deref().unwrap_or_default()));
    if job.coder != job.model {
        say("coder", &tame_line(job.coder.as_deref().unwrap_or_default()));
    }
    if job.summariser.is_some() && job.summariser != job.model {
        say("summariser", &tame_line(job.summariser.as_deref().unwrap_or_default()));
    }
    for check in job.checks.iter().flatten() {
        say("check", &tame_line(check));
    }
    if job.turns > 0 {
        let seconds = job.time_ms / 1000;
        let (turns, tokens, cost) = (job.turns, job.tokens, job.cost);
        let cached = cached(job);
        say("used", &format!("{turns} answers, {tokens} tokens{cached}, {cost}, {seconds} s"));
    }
    say("error", &tame_line(job.error.as_deref().unwrap_or_default()));
    if job.result.is_some() {
        say("result", &format!("cofferdam download {}", job.id));
    }
    let summary = tame(job.summary.as_deref().unwrap_or_default());
    say("summary", &summary.trim().replace('\n', "\n           "));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn job(change: serde_json::Value) -> Job {
        let mut job = serde_json::json!({
            "id": "019a0000-0000-7000-8000-000000000000", "user": "u",
            "title": "a\u{1b}[31mred\u{7}", "status": "complete", "paused": false,
            "created": "2026-11-16T00:00:00Z", "priority": 0, "turns": 3, "tokens": 1200,
            "cost": "0.25", "time_ms": 61_000, "last_event": 9,
            "links": {"self": "/", "events": "/", "output": "/", "files": "/"},
        });
        job.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn a_job_is_told_without_control_characters() {
        let job = job(serde_json::json!({
            "verified": true, "ending": "complete", "summary": "one\ntwo\n", "model": "demo",
            "coder": "demo", "checks": ["make test"], "result": "/x", "summariser": "a/brief",
            "tokens_read": 1000, "tokens_cached": 600,
        }));
        let now = "2026-11-16T01:00:00Z".parse().unwrap();
        insta::assert_snapshot!(told(&job, now), @r"
        id         019a0000-0000-7000-8000-000000000000
        status     complete
        verified   yes
        title      ared␇
        created    2026-11-16T00:00:00Z (1h ago)
        model      demo
        summariser a/brief
        check      make test
        used       3 answers, 1200 tokens (60% cached), $0.2500, 61 s
        result     cofferdam download 019a0000-0000-7000-8000-000000000000
        summary    one
                   two
        ");
        assert_eq!(code(&job), 0);
    }

    #[test]
    fn what_was_cached_is_told_as_far_as_it_is_known() {
        let told = |change| cached(&job(change));
        assert_eq!(told(serde_json::json!({})), "");
        assert_eq!(told(serde_json::json!({"tokens_read": 0})), "");
        assert_eq!(told(serde_json::json!({"tokens_read": 9})), " (cached share unknown)");
        let none = serde_json::json!({"tokens_read": 9, "tokens_cached": 0});
        assert_eq!(told(none), " (0% cached)");
    }

    #[test]
    fn an_exit_code_tells_how_it_ended() {
        for (status, ending, expected) in [
            ("pending", None, 0),
            ("running", Some("limit_reached"), 0),
            ("complete", Some("complete"), 0),
            ("error", Some("failed"), 1),
            ("error", Some("unverified"), 3),
            ("error", Some("limit_reached"), 4),
            ("error", Some("model_unavailable"), 5),
            ("error", Some("sandbox_unavailable"), 6),
            ("cancelled", Some("cancelled"), 130),
        ] {
            let job = job(serde_json::json!({"status": status, "ending": ending}));
            assert_eq!(code(&job), expected, "{status} {ending:?}");
        }
    }
}
