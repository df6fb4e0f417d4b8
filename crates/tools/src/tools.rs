//! The tools of one job in its sandbox: which there are, and how a call finds its
//! own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cofferdam_notebook::Language;
use cofferdam_sandbox::{Files, Sandbox};
use cofferdam_types::{CallId, ThreadId, ToolOutput, ToolSpec, ToolStatus};
use serde_json::{Map, Value};

use crate::aide::Aide;
use crate::arguments::Arguments;
use crate::bash::Shells;
use crate::hands::Hands;
use crate::outputs::Outputs;
use crate::read_file::Reads;
use crate::trouble::Trouble;
use crate::{
    apply_patch, bash, cells, cut, desk, edit_file, list_files, read_file, search_files, write_file,
};

/// How long a call that is no command may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Which editing tools a model is offered: those it was trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Editing {
    /// `edit_file`: text for text.
    Replacements,
    /// `apply_patch`: patches over several files.
    Patches,
}

/// The tools a model is offered, always in the same order.
#[must_use]
pub fn specs(editing: Editing) -> Vec<ToolSpec> {
    let edit = match editing {
        Editing::Replacements => edit_file::spec(),
        Editing::Patches => apply_patch::spec(),
    };
    vec![
        bash::spec(),
        read_file::spec(),
        write_file::spec(),
        edit,
        list_files::spec(),
        search_files::spec(),
        cells::spec(Language::Python),
        cells::spec(Language::TypeScript),
        desk::spec(),
    ]
}

/// A spec with the schema of an object; `required` of its properties must be
/// there.
pub(crate) fn spec(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
) -> ToolSpec {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.into());
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: Value::Object(schema),
    }
}

/// A call of a tool.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Names it.
    pub call: CallId,
    /// The conversation it came up in. Each has a shell of its own.
    pub thread: ThreadId,
    /// Which tool.
    pub tool: &'a str,
    /// With what.
    pub arguments: &'a Map<String, Value>,
    /// Who sees its output as it comes.
    pub watcher: &'a dyn Watcher,
}

/// Somebody who looks at output as it comes.
pub trait Watcher: Send + Sync {
    /// Some bytes of output came. Must not block.
    fn output(&self, bytes: &[u8]);
}

/// The tools of one job in its sandbox.
pub struct Tools {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) shells: Shells,
    pub(crate) reads: Reads,
    pub(crate) aide: Option<Aide>,
    pub(crate) hands: Arc<Hands>,
    /// Who changes files holds this: between reading and writing a file no other
    /// call of ours may write it.
    changing: tokio::sync::Mutex<()>,
    /// Whether a tool has left something running in the sandbox.
    stays: AtomicBool,
}

impl Tools {
    /// Tools that work in this sandbox, and keep long outputs there.
    #[must_use]
    pub fn new(sandbox: Arc<Sandbox>, outputs: Arc<Outputs>) -> Self {
        Self {
            sandbox,
            outputs,
            shells: Shells::default(),
            reads: Reads::default(),
            aide: None,
            hands: Arc::default(),
            changing: tokio::sync::Mutex::default(),
            stays: AtomicBool::new(false),
        }
    }

    /// With code cells and a desktop, run by this aide in the sandbox.
    #[must_use]
    pub fn with_aide(self, aide: Option<Aide>) -> Self {
        Self { aide, ..self }
    }

    /// Whose hands are on its desktop.
    #[must_use]
    pub fn hands(&self) -> Arc<Hands> {
        Arc::clone(&self.hands)
    }

    /// Whether a call in a sandbox is one of a tool's, which [`Tools::take_up`] finds
    /// again.
    #[must_use]
    pub fn is_call(call: CallId) -> bool {
        let first = crate::bash::guest_call(CallId(0));
        let last = crate::desk::guest_call(first);
        (first..last).contains(&call)
    }

    /// Runs a call. It never fails: what goes wrong is an output for the model.
    /// Dropping it before its end ends the command in the sandbox.
    pub async fn run(&self, call: Call<'_>) -> ToolOutput {
        let began = Instant::now();
        let outcome = self.dispatch(call).await;
        let output = outcome.unwrap_or_else(Trouble::output);
        ToolOutput { took: began.elapsed(), ..output }
    }

    /// Takes up the command, the cell or the action of a call that an earlier process
    /// began and did not see the end of. `None` when the sandbox knows of no such command.
    /// What of its output the earlier process had already taken it has left beside its
    /// outputs; only what it could not write there is missing, and said to be.
    pub async fn take_up(&self, call: CallId, watcher: &dyn Watcher) -> Option<ToolOutput> {
        // A person who takes over waits for an action, as for any other. Should one have been
        // quicker, it is followed all the same.
        let turn = self.hands.turn(Duration::ZERO).await;
        // Without an answer the shell's own attempt says what is wrong.
        let known = self.sandbox.calls().await.unwrap_or_default();
        let is_known = |name: CallId| known.iter().any(|state| state.call == name.0);
        if is_known(desk::guest_call(call)) {
            return desk::take_up(self, call).await;
        }
        drop(turn);
        if is_known(cells::guest_call(call)) {
            cells::take_up(self, call, watcher).await
        } else {
            bash::take_up(self, call, watcher).await
        }
    }

    /// Whether something that a tool has started may still run, and listen.
    #[must_use]
    pub fn may_listen(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    /// Something that was started runs on.
    pub fn something_stays(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// A conversation has become shorter: what it was shown is shown again when it is
    /// asked for.
    pub fn shortened(&self, thread: ThreadId) {
        self.reads.forget(thread);
    }

    /// Lets the sandbox forget a call whose output is in safe hands. Until then it
    /// can be taken up.
    pub fn acknowledge(&self, call: CallId) {
        bash::acknowledge(self, call);
        cells::acknowledge(self, call);
        desk::acknowledge(self, call);
        self.outputs.forget(call);
    }

    async fn dispatch(&self, call: Call<'_>) -> Result<ToolOutput, Trouble> {
        let arguments = Arguments::new(call.tool, call.arguments);
        if call.tool == bash::NAME {
            return bash::run(self, &call, arguments).await;
        }
        if let Some(language) = Language::of_tool(call.tool) {
            return cells::run(self, &call, arguments, language).await;
        }
        if call.tool == desk::NAME {
            return desk::run(self, &call).await;
        }
        let answer = async {
            let _turn = match call.tool {
                write_file::NAME | edit_file::NAME | apply_patch::NAME => {
                    Some(self.changing.lock().await)
                }
                _ => None,
            };
            match call.tool {
                read_file::NAME => read_file::run(self, &call, arguments).await,
                write_file::NAME => write_file::run(self, arguments).await,
                edit_file::NAME => edit_file::run(self, arguments).await,
                apply_patch::NAME => apply_patch::run(self, arguments).await,
                list_files::NAME => list_files::run(self, &call, arguments).await,
                search_files::NAME => search_files::run(self, &call, arguments).await,
                other => Err(unknown(other)),
            }
        };
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let (tool, seconds) = (call.tool, DEADLINE.as_secs());
                Err(Trouble::Unknown(format!("{tool}: no answer within {seconds} s; given up")))
            }
        }
    }

    pub(crate) fn files(&self) -> Files {
        self.sandbox.files()
    }

    /// An answer of text that went well, cut if it is long.
    pub(crate) async fn done(&self, call: CallId, text: &str) -> ToolOutput {
        cut::output(&self.outputs, call, ToolStatus::Done, text).await
    }
}

fn unknown(tool: &str) -> Trouble {
    let names: Vec<&str> = vec![
        bash::NAME,
        read_file::NAME,
        write_file::NAME,
        edit_file::NAME,
        apply_patch::NAME,
        list_files::NAME,
        search_files::NAME,
        Language::Python.tool(),
        Language::TypeScript.tool(),
        desk::NAME,
    ];
    let names = names.join(", ");
    Trouble::Refused(format!("there is no tool `{tool}`; the tools are {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_move_between_threads() {
        fn is_send<T: Send>(_: impl Fn(&'static Tools, Call<'static>) -> T) {}
        is_send(Tools::run);
    }

    #[test]
    fn the_specs_are_few_short_and_always_the_same() {
        for editing in [Editing::Replacements, Editing::Patches] {
            let specs = specs(editing);
            let json = serde_json::to_string(&specs).unwrap();
            assert!(json.len() <= 5_000, "{} bytes", json.len());
            assert_eq!(json, serde_json::to_string(&super::specs(editing)).unwrap());
            for spec in specs {
                let properties = spec.schema["properties"].as_object().unwrap();
                for name in spec.schema["required"].as_array().unwrap() {
                    assert!(properties.contains_key(name.as_str().unwrap()), "{}", spec.name);
                }
            }
        }
    }
}
