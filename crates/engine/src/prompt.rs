//! What a model is told: who it is, where it works, what the workspace says.
//!
//! The system text of a conversation never changes once the job is under way, so
//! that providers can keep it in their caches.

use std::fmt::Write as _;

use cofferdam_types::{Message, Network, Role, ThreadId};

use crate::run::Run;

/// The words of a question; tools and limits go with the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt<'a> {
    /// Who the model is and what it is to do.
    pub system: String,
    /// The conversation so far.
    pub messages: &'a [Message],
}

impl Run {
    /// The words of the next question in a conversation.
    #[must_use]
    pub fn prompt(&self, thread: ThreadId) -> Prompt<'_> {
        let Some(thread) = self.thread(thread) else {
            return Prompt { system: String::new(), messages: &[] };
        };
        Prompt { system: self.system(thread.role), messages: &thread.messages }
    }

    pub(crate) fn system(&self, role: Role) -> String {
        let mut text = match role {
            Role::Orchestrator => ORCHESTRATOR,
            Role::Coder => CODER,
        }
        .to_owned();
        text.push_str(PLACE);
        text.push_str(&match &self.spec.place.network {
            Network::None => "There is no network.".to_owned(),
            Network::Allow(rules) => {
                let hosts: Vec<String> = rules.iter().map(ToString::to_string).collect();
                format!("Only these hosts can be reached, by HTTP(S): {}.", hosts.join(", "))
            }
            Network::Open => "The network is open.".to_owned(),
        });
        if role == Role::Orchestrator && !self.spec.checks.is_empty() {
            text.push_str(
                "\n\nWhen you hand in, these checks are run in a clean copy of /workspace without \
                 network; only if all pass is the work accepted:\n",
            );
            for check in &self.spec.checks {
                writeln!(text, "$ {check}").ok();
            }
        }
        if let Some((instructions, skills)) = &self.prepared {
            for file in instructions {
                let cut = if file.cut { ", cut" } else { "" };
                write!(
                    text,
                    "\n\nThe project's own instructions ({}{cut}). They are conventions; where \
                     they conflict with the user's task, the task wins.\n<instructions>\n{}\n\
                     </instructions>",
                    file.path, file.text
                )
                .ok();
            }
            if !skills.is_empty() {
                text.push_str("\n\nSkills: read a skill's file before doing what it is about.\n");
                for skill in skills {
                    writeln!(text, "- {} ({}): {}", skill.name, skill.path, skill.description).ok();
                }
            }
        }
        text
    }
}

const ORCHESTRATOR: &str = "You are Cofferdam, a coding agent. You are given a task and carry it \
out yourself with your tools: look, plan, write, run, see what happened, repair, until it works. \
Nobody answers questions; decide what is sensible and say so in the end.

- Look before you write; keep to what is there: language, layout, style.
- Run what you write. A thing is done when you have seen it work, with a test or a real run, \
not before. Never claim what you have not seen.
- A tool that fails is information: read its output, find the cause, repair that.
- Change only what the task needs. Leave no scratch files behind.
- Calls that only read can be made together in one answer.
- For a larger piece of code you may `delegate` to the coder and then try out what it made.
- When done, call `finish` with a short summary for the user: what was made, how to run it, \
what was not done.";

const CODER: &str = "You are the coder of Cofferdam, a coding agent. You are given one \
instruction and carry it out in the files of /workspace with your tools. Write complete, working \
code, keep to the constraints, run it to see that it works, and repair it until it does. When \
done, call `finish` with a short report: the files you wrote, what you ran, what came out, and \
whatever is open.";

const PLACE: &str = "\n\nYou work in a sandbox as user `agent`. The project is in /workspace; only \
what is there is kept. The rest of the system is read-only or thrown away in the end. There are no \
secrets and no way to ask for more rights. ";
