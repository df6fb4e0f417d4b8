//! What must never be forgotten, gathered from the events as they come: what the user
//! said, what was decided, what was done, what is open.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cofferdam_types::{Arguments, CheckResult, ToolStatus};

use crate::conversation::Call;
use crate::done::Groups;

/// Files and commands that are remembered one by one; of older ones only how many there
/// were where.
const MOST: usize = 4_000;

/// Directories and programs of older ones.
const MOST_GROUPS: usize = 500;

/// Decisions that are remembered.
const MOST_DECISIONS: usize = 500;

/// Characters of a command that are remembered.
const LONGEST_DEED: usize = 240;

/// What came of a call, besides its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A file was read.
    Read {
        /// Its path.
        path: String,
        /// Whether it was read from its beginning to its end.
        whole: bool,
    },
    /// A file was written, changed or removed.
    Wrote {
        /// Its path.
        path: String,
    },
    /// Something was done that has effects: a command, a piece of work for the coder.
    Did {
        /// What.
        what: String,
    },
}

/// The facts of a call.
pub(crate) fn of_call(call: &Call<'_>) -> Vec<Fact> {
    let arguments = Arguments(call.arguments.to_owned()).object().unwrap_or_default();
    let text = |name: &str| arguments.get(name).and_then(|value| value.as_str());
    let path = || text("path").map(plain);
    match call.tool {
        "read_file" => {
            let whole = arguments.len() == 1;
            path().map(|path| Fact::Read { path, whole }).into_iter().collect()
        }
        "write_file" | "edit_file" => path().map(|path| Fact::Wrote { path }).into_iter().collect(),
        "apply_patch" => {
            let patch = arguments.values().find_map(|value| value.as_str()).unwrap_or_default();
            patched(patch).map(|path| Fact::Wrote { path }).collect()
        }
        "delegate" => text("instruction")
            .map(|what| Fact::Did { what: deed("delegated: ", what) })
            .into_iter()
            .collect(),
        "bash" if call.changes => {
            text("command").map(|what| Fact::Did { what: deed("$ ", what) }).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// A path as it is in the workspace, however it was written.
fn plain(path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    path.trim_start_matches("./").to_owned()
}

/// What names a deed. However long a command is, this is short, and another command has
/// another name.
fn deed(kind: &str, what: &str) -> String {
    let what = what.trim();
    match what.char_indices().nth(LONGEST_DEED) {
        Some((end, _)) => {
            let mut hasher = DefaultHasher::new();
            what.hash(&mut hasher);
            format!("{kind}{}\n{:016x}", what.split_at(end).0, hasher.finish())
        }
        None => format!("{kind}{what}"),
    }
}

/// The files that a patch is about.
fn patched(patch: &str) -> impl Iterator<Item = String> {
    let heads = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    patch.lines().filter_map(move |line| {
        let path = heads.iter().find_map(|head| line.strip_prefix(head))?;
        Some(plain(path))
    })
}

/// Everything that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// What the user said after the task, by its event.
    pub(crate) said: Vec<(u64, String)>,
    /// What was decided.
    pub(crate) decisions: Vec<(u64, String)>,
    /// Decisions that are no longer remembered one by one.
    pub(crate) older_decisions: usize,
    /// Files that were changed, with the last event of each.
    pub(crate) files: BTreeMap<String, u64>,
    /// What was done, once each.
    pub(crate) deeds: BTreeMap<String, Deed>,
    /// Checks that failed when the work was last handed in.
    pub(crate) failed_checks: Option<(u64, Vec<String>)>,
    /// What was done, and what went wrong, that is no longer remembered one by one. What is
    /// done again afterwards stays here too: this says what happened once, not how things are.
    pub(crate) done_before: Groups,
    pub(crate) failed_before: Groups,
}

/// Something that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// The last event of it.
    pub(crate) seq: u64,
    /// How it ended then.
    pub(crate) status: ToolStatus,
    /// How often it was done.
    pub(crate) times: u32,
}

impl Facts {
    /// Takes note of what came of a call.
    pub(crate) fn note(&mut self, call: &Call<'_>, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::Read { .. } => {}
                Fact::Wrote { path } => match call.status {
                    // What was stopped may have been done.
                    ToolStatus::Done | ToolStatus::Unknown | ToolStatus::Cancelled => {
                        self.files.insert(path.clone(), call.seq);
                    }
                    ToolStatus::Failed | ToolStatus::Refused => {}
                },
                Fact::Did { .. } if call.status == ToolStatus::Refused => {}
                Fact::Did { what } => {
                    let times = self.deeds.get(what).map_or(0, |deed| deed.times) + 1;
                    let deed = Deed { seq: call.seq, status: call.status, times };
                    self.deeds.insert(what.clone(), deed);
                }
            }
        }
        self.fold();
    }

    /// Takes note of the files that were changed elsewhere.
    pub(crate) fn adopt(&mut self, seq: u64, other: &Self) {
        self.files.extend(other.files.keys().map(|path| (path.clone(), seq)));
        self.fold();
    }

    /// Takes note of what was decided. What was decided before stays.
    pub(crate) fn decide(&mut self, seq: u64, decisions: &[String]) {
        for decision in decisions {
            if !self.decisions.iter().any(|(_, known)| known == decision) {
                self.decisions.push((seq, decision.clone()));
            }
        }
        let too_many = self.decisions.len().saturating_sub(MOST_DECISIONS);
        self.decisions.drain(..too_many);
        self.older_decisions += too_many;
    }

    /// Takes note of what checks have found.
    pub(crate) fn check(&mut self, seq: u64, results: &[CheckResult]) {
        let failed = results.iter().filter(|result| !result.passed());
        let failed: Vec<String> =
            failed.map(|result| format!("$ {}: {}", result.command, result.outcome)).collect();
        self.failed_checks = (!failed.is_empty()).then_some((seq, failed));
    }

    /// What was done and has not gone well so far, the latest last.
    pub(crate) fn open_failures(&self) -> Vec<(&String, &Deed)> {
        let bad = |status| {
            matches!(status, ToolStatus::Failed | ToolStatus::Unknown | ToolStatus::Cancelled)
        };
        let mut failed: Vec<_> = self.deeds.iter().filter(|(_, deed)| bad(deed.status)).collect();
        failed.sort_by_key(|(_, deed)| deed.seq);
        failed
    }

    /// The files that were changed by events in a range, the latest first.
    pub(crate) fn files_between(&self, from: u64, through: u64) -> Vec<&str> {
        let within = self.files.iter().filter(|(_, seq)| (from..=through).contains(seq));
        let mut within: Vec<(&String, &u64)> = within.collect();
        within.sort_by_key(|(_, seq)| std::cmp::Reverse(**seq));
        within.into_iter().map(|(path, _)| path.as_str()).collect()
    }

    fn fold(&mut self) {
        while self.files.len() > MOST {
            let oldest = self.files.iter().min_by_key(|(_, seq)| **seq);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else { break };
            if let Some(seq) = self.files.remove(&oldest) {
                self.done_before.add_file(&oldest, seq);
            }
        }
        while self.deeds.len() > MOST {
            let oldest = self.deeds.iter().min_by_key(|(_, deed)| deed.seq);
            let Some(oldest) = oldest.map(|(what, _)| what.clone()) else { break };
            match self.deeds.remove(&oldest) {
                Some(Deed { seq, status: ToolStatus::Done, .. }) => {
                    self.done_before.add_deed(&oldest, seq);
                }
                Some(Deed { seq, .. }) => self.failed_before.add_deed(&oldest, seq),
                None => {}
            }
        }
        self.done_before.at_most(MOST_GROUPS);
        self.failed_before.at_most(MOST_GROUPS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(seq: u64, tool: &'a str, arguments: &'a str, status: ToolStatus) -> Call<'a> {
        Call { seq, tool, arguments, status, changes: true }
    }

    #[test]
    fn what_a_call_did_is_read_from_its_arguments() {
        let facts = |tool, arguments| of_call(&call(1, tool, arguments, ToolStatus::Done));
        let wrote = |path: &str| Fact::Wrote { path: path.to_owned() };
        assert_eq!(facts("write_file", r#"{"path":"a.py","content":"x"}"#), [wrote("a.py")]);
        let patch = r#"{"patch":"*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n"}"#;
        assert_eq!(facts("apply_patch", patch), [wrote("a"), wrote("b")]);
        let did = Fact::Did { what: "$ make".to_owned() };
        assert_eq!(facts("bash", r#"{"command":"make"}"#), [did]);
        assert_eq!(facts("bash", "no json"), []);
    }

    #[test]
    fn a_file_has_one_name_and_a_long_command_a_short_one() {
        let facts = |tool, arguments: &str| of_call(&call(1, tool, arguments, ToolStatus::Done));
        for path in ["a/b.rs", "./a/b.rs", "/workspace/a/b.rs"] {
            let wrote = Fact::Wrote { path: "a/b.rs".to_owned() };
            assert_eq!(facts("edit_file", &format!(r#"{{"path":"{path}"}}"#)), [wrote]);
        }
        let long = |end: &str| {
            let command = format!(r#"{{"command":"cat > a <<E {}{end}"}}"#, "x".repeat(100_000));
            match &facts("bash", &command)[..] {
                [Fact::Did { what }] => what.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert!(long("y").len() < 300);
        assert_ne!(long("y"), long("z"));
    }

    #[test]
    fn what_was_stopped_midway_is_not_forgotten() {
        let mut facts = Facts::default();
        let call = call(1, "bash", r#"{"command":"make deploy"}"#, ToolStatus::Cancelled);
        facts.note(&call, &of_call(&call));
        assert_eq!(facts.open_failures().len(), 1);
    }

    #[test]
    fn a_failure_is_open_until_the_same_goes_well() {
        let mut facts = Facts::default();
        let make = r#"{"command":"make"}"#;
        for (seq, status, open) in [(1, ToolStatus::Failed, 1), (2, ToolStatus::Done, 0)] {
            let call = call(seq, "bash", make, status);
            facts.note(&call, &of_call(&call));
            assert_eq!(facts.open_failures().len(), open);
        }
        assert_eq!(facts.deeds["$ make"].times, 2);
    }
}
