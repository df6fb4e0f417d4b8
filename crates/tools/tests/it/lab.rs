//! Where tools are tried: a sandbox over a directory of its own, gone afterwards.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Sandbox, Spec, Workspace};
use cofferdam_sandbox_native::Native;
use cofferdam_tools::{Aide, Call, Outputs, Tools, Watcher};
use cofferdam_types::{CallId, Content, Limits, ThreadId, ToolOutput, ToolStatus};
use serde_json::Value;
use tempfile::TempDir;

/// A sandbox and its tools.
pub(crate) struct Lab {
    // Declared in the order in which they must go.
    pub(crate) tools: Tools,
    pub(crate) sandbox: Arc<Sandbox>,
    directory: TempDir,
    calls: AtomicU64,
}

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ToolStatus,
    pub(crate) text: String,
    pub(crate) output: ToolOutput,
    pub(crate) seen: Vec<u8>,
}

impl Answer {
    /// The text, if all went well.
    #[track_caller]
    pub(crate) fn done(&self) -> &str {
        assert_eq!(self.status, ToolStatus::Done, "{}", self.text);
        &self.text
    }

    /// The text, if it was tried and failed.
    #[track_caller]
    pub(crate) fn failed(&self) -> &str {
        assert_eq!(self.status, ToolStatus::Failed, "{}", self.text);
        &self.text
    }

    /// The text, if it was not tried.
    #[track_caller]
    pub(crate) fn refused(&self) -> &str {
        assert_eq!(self.status, ToolStatus::Refused, "{}", self.text);
        &self.text
    }
}

/// Keeps what it sees.
#[derive(Default)]
struct Eye(Mutex<Vec<u8>>);

impl Watcher for Eye {
    fn output(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }
}

/// Sees nothing.
pub(crate) struct Blind;

impl Watcher for Blind {
    fn output(&self, _: &[u8]) {}
}

impl Lab {
    async fn new(spec: Spec, aide: Option<Aide>, path: Option<&str>) -> Self {
        let directory = tempfile::Builder::new().prefix("cofferdam-tools-").tempdir().unwrap();
        let native = Native::new(directory.path().join("sandboxes"));
        let sandbox = Sandbox::open(&native, spec).await.unwrap();
        let sandbox = sandbox.with_variables(path.map(|path| ("PATH", path)));
        let sandbox = Arc::new(sandbox);
        let outputs = Arc::new(Outputs::in_directory(directory.path().join("outputs")));
        let tools = Tools::new(Arc::clone(&sandbox), outputs).with_aide(aide);
        Self { tools, sandbox, directory, calls: AtomicU64::new(1) }
    }

    /// Where outputs are kept.
    pub(crate) fn outputs(&self) -> PathBuf {
        self.directory.path().join("outputs")
    }

    /// Calls a tool in the first conversation.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.call_in(0, tool, arguments).await
    }

    /// Calls a tool in a conversation.
    pub(crate) async fn call_in(&self, thread: u32, tool: &str, arguments: Value) -> Answer {
        let eye = Eye::default();
        let answer = self.call_watched(thread, tool, arguments, &eye).await;
        Answer { seen: eye.0.into_inner().unwrap(), ..answer }
    }

    /// Calls a tool for somebody who watches.
    pub(crate) async fn call_watched(
        &self,
        thread: u32,
        tool: &str,
        arguments: Value,
        watcher: &dyn Watcher,
    ) -> Answer {
        let call = Call {
            call: CallId(self.calls.fetch_add(1, Ordering::Relaxed)),
            thread: ThreadId(thread),
            tool,
            arguments: arguments.as_object().unwrap(),
            watcher,
        };
        let output = self.tools.run(call).await;
        let text = match output.content.first() {
            Some(Content::Text { text }) => text.clone(),
            other => panic!("{other:?}"),
        };
        Answer { status: output.status, text, output, seen: Vec::new() }
    }

    /// Runs a command.
    pub(crate) async fn bash(&self, command: &str) -> Answer {
        self.call("bash", serde_json::json!({ "command": command })).await
    }

    /// What a command prints, without the tools' own shell.
    pub(crate) async fn sh(&self, script: &str) -> String {
        let command = self.sandbox.shell(script).timeout(Some(Duration::from_secs(60)));
        let result = self.sandbox.run(self.sandbox.next_call_id(), command).await.unwrap();
        assert!(result.outcome.success(), "{script}: {result:?}");
        String::from_utf8_lossy(&result.stdout).into_owned()
    }

    /// Writes a file into the workspace.
    pub(crate) async fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let bytes = bytes::Bytes::copy_from_slice(content.as_ref());
        let mode = cofferdam_guest_protocol::WriteMode::Replace;
        self.sandbox.files().write(path, bytes, mode, 0o644).await.unwrap();
    }

    /// The bytes of a file in the workspace.
    pub(crate) async fn get(&self, path: &str) -> Vec<u8> {
        let range = cofferdam_sandbox::Range::first(64 << 20);
        self.sandbox.files().read(path, range).await.unwrap().bytes.to_vec()
    }

    /// Waits until a script succeeds.
    pub(crate) async fn until(&self, script: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let command = self.sandbox.shell(script).timeout(Some(Duration::from_secs(60)));
            let result = self.sandbox.run(self.sandbox.next_call_id(), command).await.unwrap();
            if result.outcome.success() {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain until {script}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Tries something in an empty workspace.
pub(crate) fn in_lab(test: impl AsyncFnOnce(&Lab)) {
    in_lab_with(Spec::scratch(), test);
}

/// Tries something over a directory of the host.
pub(crate) fn in_lab_over(directory: PathBuf, test: impl AsyncFnOnce(&Lab)) {
    in_lab_with(Spec { workspace: Workspace::Directory(directory), ..Spec::scratch() }, test);
}

/// Tries something with limits.
pub(crate) fn in_lab_limited(limits: Limits, test: impl AsyncFnOnce(&Lab)) {
    in_lab_with(Spec { limits, ..Spec::scratch() }, test);
}

/// Tries something in a sandbox, which is closed afterwards.
pub(crate) fn in_lab_with(spec: Spec, test: impl AsyncFnOnce(&Lab)) {
    in_equipped_lab(spec, None, None, test);
}

/// Tries something with an aide, where programs are looked for in this path.
pub(crate) fn in_equipped_lab(
    spec: Spec,
    aide: Option<Aide>,
    path: Option<&str>,
    test: impl AsyncFnOnce(&Lab),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let lab = Lab::new(spec, aide, path).await;
        test(&lab).await;
        let Lab { tools, sandbox, directory, .. } = lab;
        drop(tools);
        // Nothing else holds the sandbox.
        let sandbox = Arc::into_inner(sandbox).unwrap();
        sandbox.close().await.unwrap();
        drop(directory);
    });
}
