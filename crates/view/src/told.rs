//! Events told in lines, whoever reads them. Answers and calls, which a terminal
//! sees while they come, are told by those who know how they are seen.

use cofferdam_types::{
    Budget, CheckResult, Cut, Event, ModelFailure, ModelName, PlanStep, StepStatus, Summariser,
};

use crate::closing::Closing;
use crate::fold;
use crate::line::{Line, Tone};
use crate::result::output_line;
use crate::story::{Again, Story};
use crate::tame::{tame, tame_line};
use crate::text::{clock, count, cut, shrunk, size, span};
use crate::words;

/// Lines shown of a failing check's end.
const CHECK_TAIL: usize = 8;

/// Cells shown of what is looked for.
const RECALLED: usize = 80;

/// Tells an event that concerns the whole job.
pub(crate) fn event(story: &Story, event: &Event) -> Vec<Line> {
    match event {
        Event::Created { spec } => {
            let models = models(&spec.orchestrator, &spec.coder);
            let task = Line::new(0).own(Tone::Faint, "› ").beginning(Tone::Strong, &spec.task);
            let model = Line::below(0).foreign(Tone::Faint, &models);
            vec![task.wrapped(), model.own(Tone::Faint, format!(" · job {}", spec.job))]
        }
        Event::TakenUp { only_delivers: true, .. } => {
            vec![note().own(Tone::Faint, "the work is done, and is handed over now")]
        }
        Event::TakenUp { .. } if story.taken_up > 1 => {
            vec![note().own(Tone::Faint, "the job is taken up again")]
        }
        Event::ImageStep { step } => {
            vec![note().own(Tone::Faint, "the image: ").foreign(Tone::Faint, step)]
        }
        Event::ImageReady { image } => {
            vec![Line::below(0).own(Tone::Faint, "image ").foreign(Tone::Faint, image)]
        }
        Event::SandboxOpened { backend, grade, weaknesses, .. } => {
            let opened = Line::below(0).own(Tone::Faint, "sandbox ").foreign(Tone::Faint, backend);
            let mut lines = vec![opened.own(Tone::Faint, ", ").foreign(Tone::Faint, grade)];
            lines.extend(weaknesses.iter().map(|weakness| {
                warning()
                    .own(Tone::Plain, "the sandbox is weaker than it could be: ")
                    .foreign(Tone::Plain, weakness)
            }));
            lines
        }
        Event::Prepared { instructions, skills } => {
            let instructions = instructions.iter().map(|file| {
                let cut = if file.cut { " (cut)" } else { "" };
                Line::below(0)
                    .own(Tone::Faint, "instructions from ")
                    .foreign(Tone::Faint, &file.path)
                    .own(Tone::Faint, cut)
            });
            let skills = skills.iter().map(|skill| {
                Line::below(0).own(Tone::Faint, "skill ").foreign(Tone::Faint, &skill.name)
            });
            instructions.chain(skills).collect()
        }
        Event::UserSaid { text } => {
            vec![Line::new(0).own(Tone::Faint, "› ").beginning(Tone::Strong, text).wrapped()]
        }
        Event::CheckStarted { attempt } => {
            let which = format!("  hand-in {attempt}");
            vec![
                Line::new(0)
                    .own(Tone::Faint, "● ")
                    .own(Tone::Strong, "checks")
                    .own(Tone::Faint, which),
            ]
        }
        Event::CheckEnded { results, .. } => checks(story, results),
        Event::BudgetChanged { budget } => vec![note().own(Tone::Faint, allowance(budget))],
        Event::ModelsChanged { orchestrator, coder, summariser } => {
            let mut models = models(orchestrator, coder);
            if let Some(summariser) = summariser {
                models.push_str(&format!(", summariser {summariser}"));
            }
            vec![note().own(Tone::Faint, "the job goes on with ").foreign(Tone::Faint, &models)]
        }
        Event::ContextCut { cut, tokens: (before, after), .. } => {
            let how = match cut {
                Cut::Pruned { .. } => "long outputs were cut",
                Cut::Summarised { by: Summariser::Model, .. } => "older parts were summarised",
                Cut::Summarised { by: Summariser::Rule, .. } => {
                    "older parts were summarised by rule"
                }
            };
            let text = format!("{how} to save room: {}", shrunk(*before, *after));
            vec![note().own(Tone::Faint, text)]
        }
        Event::RecallAsked { words, .. } => {
            let words = words.lines().next().unwrap_or_default();
            let words = cut(&tame_line(words), RECALLED);
            vec![note().own(Tone::Faint, format!("looking back for: {words}"))]
        }
        Event::Offered { text, .. } if !text.is_empty() => {
            let found = size(text.len() as u64);
            vec![note().own(
                Tone::Faint,
                format!("{found} that were let go may be needed: shown to the model again"),
            )]
        }
        Event::Listening { ports } => vec![note().own(Tone::Faint, words::listening(ports))],
        Event::Noted { text } => vec![note().foreign(Tone::Faint, text).wrapped()],
        Event::Paused => vec![note().own(Tone::Plain, words::PAUSED)],
        Event::Resumed => vec![note().own(Tone::Plain, words::RESUMED)],
        Event::CancelAsked { by } => vec![warning().own(Tone::Plain, words::stopping(*by))],
        Event::Ended { ending, spent, changes, delivery_problem } => Closing {
            site: story.site,
            job: story.job,
            budget: story.budget.as_ref(),
            checks: story.checks,
            ending,
            spent,
            changes,
            listed: story.listed(),
            delivery_problem: delivery_problem.as_deref(),
        }
        .lines(),
        // Told elsewhere, or seen by what follows from it.
        Event::TakenUp { .. }
        | Event::Delegated { .. }
        | Event::ModelAsked { .. }
        | Event::ModelAnswered { .. }
        | Event::ModelFailed { .. }
        | Event::ModelUsed { .. }
        | Event::ToolStarted { .. }
        | Event::ToolEnded { .. }
        | Event::Planned { .. }
        | Event::Offered { .. }
        | Event::Ending { .. } => Vec::new(),
    }
}

/// Tells that a model has not answered, and what follows.
pub(crate) fn failure(
    depth: usize,
    failure: &ModelFailure,
    again: Option<Again>,
    summary: bool,
) -> Vec<Line> {
    let then = match again {
        Some(Again { after, attempt }) => {
            format!("; asking again {} (attempt {attempt})", words::wait(after))
        }
        None => String::new(),
    };
    let told = Line::new(depth).own(Tone::Warning, "! ");
    let missing = if summary { "no summary: " } else { "" };
    let words = format!("{missing}{}{then}", words::failure(failure.kind));
    let told = told.own(Tone::Plain, words);
    let mut lines = vec![told.wrapped().problem()];
    if !failure.message.trim().is_empty() {
        let reason = Line::below(depth).foreign(Tone::Faint, &failure.message);
        lines.push(reason.wrapped().problem());
    }
    lines
}

/// A plan as a list to be ticked off.
pub(crate) fn plan(steps: &[PlanStep]) -> Vec<Line> {
    let mut lines = vec![Line::new(0).own(Tone::Faint, "● ").own(Tone::Strong, "plan")];
    lines.extend(steps.iter().map(|step| {
        let (sign, tone, text) = match step.status {
            StepStatus::Pending => ("○ ", Tone::Faint, Tone::Plain),
            StepStatus::InProgress => ("▸ ", Tone::Warning, Tone::Strong),
            StepStatus::Completed => ("✓ ", Tone::Good, Tone::Faint),
        };
        Line::below(0).own(tone, sign).foreign(text, &step.step)
    }));
    lines
}

/// A plan in one line.
pub(crate) fn plan_briefly(steps: &[PlanStep]) -> Line {
    let done = steps.iter().filter(|step| step.status == StepStatus::Completed).count();
    let line = Line::new(0).own(Tone::Plain, format!("● plan  {done} of {} done", steps.len()));
    match steps.iter().find(|step| step.status == StepStatus::InProgress) {
        Some(step) => line.own(Tone::Plain, ", now: ").beginning(Tone::Plain, &step.step),
        None => line,
    }
}

fn checks(story: &Story, results: &[CheckResult]) -> Vec<Line> {
    let mut lines = Vec::new();
    for result in results {
        let took = span(result.took);
        if result.passed() {
            let line = Line::below(0).own(Tone::Good, "✓ ").foreign(Tone::Plain, &result.command);
            lines.push(line.aside(Tone::Faint, &took));
            continue;
        }
        let outcome = crate::tame::tame_line(&words::outcome(&result.outcome));
        let line = Line::below(0).own(Tone::Bad, "✗ ").foreign(Tone::Plain, &result.command);
        lines.push(line.aside(Tone::Bad, &outcome).aside(Tone::Faint, &took).problem());
        let output = tame(&result.output);
        let (hidden, tail) = fold::tail(&output.lines().collect::<Vec<_>>(), CHECK_TAIL);
        let before = (hidden > 0).then(|| format!("… {} before", count(hidden, "line")));
        let shown = before.iter().map(String::as_str).chain(tail);
        lines.extend(shown.map(|text| output_line(1, text).problem()));
    }
    if let Some(missing @ 1..) = story.checks.checked_sub(results.len()) {
        let missing = format!("– {} not run", count(missing as u64, "more check"));
        lines.push(Line::below(0).own(Tone::Faint, missing));
    }
    lines
}

fn models(orchestrator: &ModelName, coder: &ModelName) -> String {
    if orchestrator == coder {
        orchestrator.to_string()
    } else {
        format!("{orchestrator}, coder {coder}")
    }
}

fn allowance(budget: &Budget) -> String {
    let mut parts = vec![count(u64::from(budget.turns), "turn")];
    parts.extend(budget.tokens.map(|tokens| count(tokens, "token")));
    parts.extend(budget.cost.map(|cost| cost.to_string()));
    parts.extend(budget.time.map(clock));
    format!("the job may now use {}", parts.join(", "))
}

fn note() -> Line {
    Line::new(0).own(Tone::Faint, "· ")
}

fn warning() -> Line {
    Line::new(0).own(Tone::Warning, "! ").wrapped().problem()
}
