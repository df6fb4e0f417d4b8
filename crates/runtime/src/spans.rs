//! Spans of a job's work, named as the GenAI conventions of OpenTelemetry have it.
//! None holds what was said: no task, prompt, answer, argument or output.

use cofferdam_engine::Input;
use cofferdam_types::{CallId, ModelName, ToolStatus};
use tracing::Span;
use tracing::field::Empty;

/// One question to a model.
pub(crate) fn turn(model: &ModelName, max_output: u32) -> Span {
    tracing::info_span!(
        "turn",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.provider(),
        gen_ai.request.model = model.model(),
        gen_ai.request.max_tokens = max_output,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
    )
}

/// What became of it.
pub(crate) fn answered(span: &Span, input: &Input) {
    let tokens = match input {
        Input::ModelAnswered { answer, .. } => answer.tokens,
        Input::ModelFailed { failure, tokens, .. } => {
            span.record("error.type", tracing::field::debug(failure.kind));
            *tokens
        }
        _ => return,
    };
    span.record("gen_ai.usage.input_tokens", tokens.input + tokens.cache_read + tokens.cache_write);
    span.record("gen_ai.usage.output_tokens", tokens.output);
}

/// One call of a tool.
pub(crate) fn tool(name: &str, call: CallId) -> Span {
    tracing::info_span!(
        "tool",
        otel.name = format!("execute_tool {name}"),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.call.id = call.0,
        error.type = Empty,
    )
}

/// What became of it.
pub(crate) fn ended(span: &Span, status: ToolStatus) {
    if status != ToolStatus::Done {
        span.record("error.type", tracing::field::debug(status));
    }
}
