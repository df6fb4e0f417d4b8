//! Plain data shared by every part of Cofferdam. No I/O, no async, no clock.

mod audit;
mod chain;
mod conversation;
mod cut;
mod event;
mod ids;
mod job;
mod limits;
mod millis;
mod money;
mod network;
mod outcome;
mod quantity;
mod redacted;

pub use audit::{AuditAct, AuditRecord};
pub use chain::error_chain;
pub use conversation::{
    Answer, Arguments, ArgumentsError, Block, Content, Message, ModelName, Seal, StopReason,
    Tokens, ToolCall, ToolResult, ToolSpec, Toolbox,
};
pub use cut::{Cut, Reading, Span, Summariser};
pub use event::{
    Cancel, ChangeKind, CheckResult, Ending, Event, FailureKind, FileChange, Instructions,
    LOG_VERSION, Limit, ModelFailure, PlanStep, Record, Rest, Skill, Spent, StepStatus, Timestamp,
    ToolOutput, ToolStatus,
};
pub use ids::{CallId, JobId, RequestId, SandboxId, ThreadId};
pub use job::{Budget, JobSpec, Place, Role};
pub use limits::{Kept, Limits};
pub use money::{Price, Usd, UsdError};
pub use network::{HostPattern, HostRule, Network, NetworkError};
pub use outcome::{Outcome, Usage};
pub use quantity::{QuantityError, parse_bytes, parse_cpus, parse_duration, parse_memory};
pub use redacted::Redacted;
