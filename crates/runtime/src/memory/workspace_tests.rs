//! How much is read into an index at each look at a workspace.

use std::sync::Mutex;
use std::time::Instant;

use cofferdam_recall::{Hit, Question, RecallError};
use cofferdam_sandbox::Spec;
use cofferdam_sandbox_native::Native;
use cofferdam_types::CallId;
use futures_util::future::BoxFuture;

use super::*;

/// Keeps the names of the files that are written into it, and nothing else.
#[derive(Default)]
struct Names {
    written: Mutex<Vec<Vec<String>>>,
    /// Never ends to write after so many times.
    stuck_after: Option<usize>,
}

impl Names {
    /// Those written since the last question, and how often something was.
    fn taken(&self) -> (Vec<String>, usize) {
        let written = std::mem::take(&mut *self.written.lock().unwrap());
        (written.concat(), written.len())
    }
}

impl Index for Names {
    fn reaches(&self) -> BoxFuture<'_, Result<u64, RecallError>> {
        Box::pin(async { Ok(0) })
    }

    fn add(&self, _: u64, _: Vec<Document>) -> BoxFuture<'_, Result<(), RecallError>> {
        Box::pin(async { Ok(()) })
    }

    fn replace_files(
        &self,
        files: BTreeMap<String, Vec<Document>>,
    ) -> BoxFuture<'_, Result<(), RecallError>> {
        let mut written = self.written.lock().unwrap();
        written.push(files.into_keys().collect());
        if self.stuck_after.is_some_and(|times| written.len() > times) {
            return Box::pin(std::future::pending());
        }
        Box::pin(async { Ok(()) })
    }

    fn find(&self, _: Question) -> BoxFuture<'_, Result<Vec<Hit>, RecallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read(&self, _: u64) -> BoxFuture<'_, Result<Vec<Document>, RecallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

struct World {
    sandbox: Sandbox,
    _place: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let native = Native::new(place.path().join("sandboxes"));
        let sandbox = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        Self { sandbox, _place: place }
    }

    /// Runs a script, and waits until the trail shows all of it.
    async fn run(&self, script: &str) {
        let end = format!("/tmp/end-{}", script.len());
        let script = format!("set -e; {script}; : > {end}");
        let result =
            self.sandbox.run(CallId(1), self.sandbox.shell(script.as_str())).await.unwrap();
        assert!(result.outcome.success(), "{script}: {:?}", result.outcome);
        let is_end = |record: &AuditRecord| matches!(&record.act, AuditAct::OpenedForWriting { path } if *path == end);
        let begun = Instant::now();
        while !self.sandbox.audit().await.unwrap().iter().any(is_end) {
            assert!(begun.elapsed().as_secs() < 60, "the trail of {script} has no end");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn only_what_has_changed_is_read_again() {
    let world = World::new().await;
    world.run("mkdir src; for n in 1 2 3 4 5 6; do echo file $n > src/$n.txt; done").await;
    let (mut workspace, index) = (Workspace::default(), Names::default());
    let look = async |workspace: &mut Workspace| {
        assert_eq!(workspace.read(&world.sandbox, &index).await, Ok(None));
        index.taken()
    };
    let (first, times) = look(&mut workspace).await;
    assert_eq!((first.len(), times), (6, 1), "{first:?}");
    assert_eq!(look(&mut workspace).await, (vec![], 0));
    world.run("echo more >> src/3.txt").await;
    assert_eq!(look(&mut workspace).await, (vec!["src/3.txt".to_owned()], 1));
    // One that looks as it did, which only the trail tells.
    world
        .run("touch -r src/4.txt /tmp/then; echo FILE 4 > src/4.txt; touch -r /tmp/then src/4.txt")
        .await;
    assert_eq!(look(&mut workspace).await, (vec!["src/4.txt".to_owned()], 1));
    world.run("rm src/5.txt; mv src/6.txt src/7.txt").await;
    let gone = vec!["src/5.txt".to_owned(), "src/6.txt".to_owned(), "src/7.txt".to_owned()];
    assert_eq!(look(&mut workspace).await, (gone, 2));
    assert_eq!(look(&mut workspace).await, (vec![], 0));
}

#[tokio::test]
async fn a_look_that_is_given_up_is_gone_on_with() {
    let world = World::new().await;
    // Three go into the index at once.
    world.run("for n in 1 2 3 4 5 6 7; do seq -w 1 16000 > $n.txt; done").await;
    let mut workspace = Workspace::default();
    let index = Names { stuck_after: Some(1), ..Names::default() };
    let stuck = async {
        while index.written.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = stuck => {}
        read = workspace.read(&world.sandbox, &index) => panic!("{read:?}"),
    }
    let (begun, _) = index.taken();
    assert_eq!(begun, ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt", "6.txt"]);
    let index = Names::default();
    assert_eq!(workspace.read(&world.sandbox, &index).await, Ok(None));
    assert_eq!(index.taken().0, ["4.txt", "5.txt", "6.txt", "7.txt"], "and not from the beginning");
    assert_eq!(workspace.read(&world.sandbox, &index).await, Ok(None));
    assert_eq!(index.taken().1, 0);
}

/// More files than are listed, and more beyond the end of the list than are looked at.
const CROWDED: &str = "mkdir a m z; for n in $(seq 1 2000); do : > a/$n; done; \
                       for n in $(seq 1 250); do : > m/$n; done";

#[tokio::test]
async fn in_a_large_workspace_what_was_just_written_comes_first() {
    let world = World::new().await;
    world.run(CROWDED).await;
    let (mut workspace, index) = (Workspace::default(), Names::default());
    let look = async |workspace: &mut Workspace| {
        let note = workspace.read(&world.sandbox, &index).await.unwrap();
        assert!(note.is_some_and(|note| note.contains("only the first 2000 files")));
        index.taken()
    };
    let has = |workspace: &Workspace, path: &str| workspace.known.contains_key(path);
    let beyond = |workspace: &Workspace| {
        workspace.known.keys().filter(|path| !path.starts_with("a/")).count()
    };
    look(&mut workspace).await;
    assert_eq!(workspace.known.len(), 2_000 + MOST_BEYOND);
    assert!(has(&workspace, "m/250") && !has(&workspace, "m/1"), "the latest are there");
    assert_eq!(look(&mut workspace).await, (vec![], 0));

    // One that sorts after all, with letters that mean something in a pattern.
    world.run("echo late > 'z/[id], {late}*.txt'").await;
    let (read, _) = look(&mut workspace).await;
    assert!(read.contains(&"z/[id], {late}*.txt".to_owned()), "{read:?}");
    assert_eq!(beyond(&workspace), MOST_BEYOND);
    assert_eq!(look(&mut workspace).await, (vec![], 0));
    assert!(has(&workspace, "z/[id], {late}*.txt") && workspace.written.is_empty());

    // Those that were pushed out of the list stay, and what is ignored takes nobody's place.
    world
        .run(
            "echo /c/ > .gitignore; mkdir c; for n in $(seq 1 2500); do : > c/$n; done; \
             echo b > b.txt; echo z > z/z.txt",
        )
        .await;
    look(&mut workspace).await;
    for path in ["z/[id], {late}*.txt", "b.txt", "z/z.txt", "m/250"] {
        assert!(has(&workspace, path), "{path}");
    }
    assert!(!has(&workspace, "c/1"));
    world.run("rm z/z.txt").await;
    look(&mut workspace).await;
    assert!(!has(&workspace, "z/z.txt") && has(&workspace, "b.txt"));
}

#[test]
fn what_is_beyond_the_list_is_asked_for_at_once() {
    let paths: Vec<String> = (0..MOST_BEYOND).map(|n| format!("src/{n}.rs")).collect();
    let paths: Vec<&String> = paths.iter().collect();
    let [(pattern, of)] = &patterns(&paths)[..] else { panic!("more than one") };
    assert!(pattern.starts_with("{src/0.rs,src/1.rs,") && pattern.ends_with(",src/199.rs}"));
    assert_eq!(of.len(), MOST_BEYOND);
    // Long names are spread over several, and each is in one of them.
    let long: Vec<String> = (0..40).map(|n| format!("{n}{}", "x".repeat(4_000))).collect();
    let long: Vec<&String> = long.iter().collect();
    let several = patterns(&long);
    assert!(several.iter().all(|(pattern, _)| pattern.len() <= LONGEST_PATTERN + 2));
    assert_eq!(several.iter().map(|(_, of)| of.len()).sum::<usize>(), 40);
    assert!(patterns(&[]).is_empty());
}

#[tokio::test]
async fn a_file_that_could_not_be_read_is_read_the_next_time() {
    let world = World::new().await;
    world.run("echo one > a.txt; echo two > b.txt").await;
    let (mut workspace, index) = (Workspace::default(), Names::default());
    assert_eq!(workspace.read(&world.sandbox, &index).await, Ok(None));
    index.taken();
    // It looks as it did, and cannot be read for a while.
    world
        .run(
            "touch -r a.txt /tmp/then; echo ONE > a.txt; touch -r /tmp/then a.txt; chmod 0 a.txt; \
             ! cat a.txt",
        )
        .await;
    assert_eq!(workspace.read(&world.sandbox, &index).await, Ok(None));
    assert_eq!(index.taken(), (vec![], 0));
    world.run("chmod 644 a.txt").await;
    assert_eq!(workspace.read(&world.sandbox, &index).await, Ok(None));
    assert_eq!(index.taken(), (vec!["a.txt".to_owned()], 1));
    assert!(workspace.written.is_empty());
}

#[test]
fn no_more_is_noted_than_there_is_room_for() {
    let mut workspace = Workspace::default();
    for number in (0..MOST_WRITTEN + 5).rev() {
        workspace.note(format!("{number}"));
    }
    workspace.forget_oldest();
    assert_eq!(workspace.written.len(), MOST_WRITTEN);
    assert!(workspace.written.contains_key("0"), "the latest stay");
}
