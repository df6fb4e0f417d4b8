//! What is said of calls and answers however they are seen.

use cofferdam_types::{StopReason, ToolStatus};

use crate::line::{Line, Tone};
use crate::story::Call;
use crate::text::{cells, cut};

/// The least that is shown of what a call is about.
const LEAST: usize = 8;

/// `● bash  cargo test  0.4s`, in at most so many cells: what a call is about is
/// cut before what became of it is.
pub(crate) fn call_line(mark: (Tone, &str), call: &Call, aside: &str, width: usize) -> Line {
    let line = Line::new(call.depth);
    let taken = line.indent + cells(mark.1) + 1 + cells(&call.tool) + 2 + 2 + cells(aside);
    let about = cut(&call.about, width.saturating_sub(taken).max(LEAST));
    let aside_tone = if mark.0 == Tone::Bad { Tone::Bad } else { Tone::Faint };
    line.own(mark.0, format!("{} ", mark.1))
        .own(Tone::Strong, call.tool.as_str())
        .aside(Tone::Plain, &about)
        .aside(aside_tone, aside)
}

/// Whether a call is seen by its consequences alone: the plan, the checks, the end.
pub(crate) fn is_silent(call: &Call, status: ToolStatus) -> bool {
    matches!(call.asked.name.as_str(), "plan" | "finish") && status != ToolStatus::Refused
}

/// What is said of an answer that is not what it should be.
pub(crate) fn cut_short(depth: usize, stop: StopReason) -> Vec<Line> {
    let text = match stop {
        StopReason::Done | StopReason::Tools => return Vec::new(),
        StopReason::OutputLimit => "the answer reached the model's output limit and is cut",
        StopReason::Refused => "the model declined to answer",
    };
    vec![Line::new(depth).own(Tone::Warning, "! ").own(Tone::Plain, text).wrapped().problem()]
}
