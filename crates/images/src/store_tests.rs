//! What is kept, found and removed, and what is left when it was not.

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn store() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::in_home(home.path());
    (home, store)
}

fn changing(store: &Store) -> Changing {
    store.change(PATIENCE, &AtomicBool::new(false), &mut || {}).unwrap()
}

fn about(content: &str, made_at: u64) -> About {
    let env = BTreeMap::from([("A".to_owned(), content.to_owned())]);
    let key = Key::of(&[content.as_bytes()]);
    About { key, made_with: "test".to_owned(), made_at, env, definition: None }
}

fn put(store: &Store, name: &str, content: &str, made_at: u64) -> Image {
    let changing = changing(store);
    let staging = changing.stage().unwrap();
    fs::create_dir(staging.root()).unwrap();
    fs::write(staging.root().join("content"), content).unwrap();
    fs::write(staging.place().join("beside"), "x").unwrap();
    staging.keep(name, about(content, made_at)).unwrap()
}

#[test]
fn an_image_is_found_by_name_and_by_key_and_nothing_else_stays() {
    let (_home, store) = store();
    assert_eq!(store.list().unwrap(), []);
    let kept = put(&store, "agent", "one", 5);
    assert_eq!(store.find("agent").unwrap(), kept);
    assert_eq!(store.find(kept.about.key.short()).unwrap(), kept);
    assert_eq!(fs::read(kept.root.join("content")).unwrap(), b"one");
    assert!(kept.bytes > 0);
    assert!(kept.root.parent().unwrap().read_dir().unwrap().count() == 2);
    assert!(!store.place.join(STAGING).exists());
    let error = store.find("agents").unwrap_err();
    assert!(error.help().unwrap().contains("one of: agent;"), "{:?}", error.help());
    for name in ["", "../agent", kept.about.key.as_str().split_at(3).0] {
        assert!(store.find(name).is_err(), "{name}");
    }
}

#[test]
fn a_newer_image_takes_the_name_and_the_old_one_can_be_pruned() {
    let (_home, store) = store();
    let old = put(&store, "agent", "one", 5);
    let new = put(&store, "agent", "two", 6);
    put(&store, "other", "two", 7);
    let listed = store.list().unwrap();
    let names: Vec<_> = listed.iter().map(|image| image.names.join("+")).collect();
    assert_eq!(names, ["agent+other", ""]);
    // The same content was not made again.
    assert_eq!(listed[0].about.made_at, 6);
    assert_eq!(store.find("other").unwrap().root, new.root);
    // What somebody uses stays until nobody does.
    store.note_use("native-1", &old.about.key).unwrap();
    assert_eq!(changing(&store).prune(false).unwrap().images, []);
    assert_eq!(store.used_by("native-1").unwrap().root, old.root);
    store.forget_use("native-1");
    assert_eq!(store.used_by("native-1"), None);
    let gone = changing(&store).prune(false).unwrap();
    assert_eq!((gone.images.len(), gone.kept), (1, Vec::new()));
    assert!(!old.root.exists() && new.root.exists());
    // A name that goes takes its image along only if it is the last.
    assert_eq!(changing(&store).remove("other").unwrap(), None);
    assert!(new.root.exists());
    assert_eq!(changing(&store).remove("agent").unwrap().map(|image| image.root), Some(new.root));
    assert!(changing(&store).remove("agent").is_err());
    put(&store, "agent", "one", 5);
    assert_eq!(changing(&store).prune(true).unwrap().images.len(), 1);
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn what_was_not_finished_is_no_image_and_goes_with_the_next_change() {
    let (_home, store) = store();
    let key = Key::of(&[b"broken"]);
    {
        let changing = changing(&store);
        let staging = changing.stage().unwrap();
        fs::create_dir(staging.root()).unwrap();
        // As if killed: nothing is dropped.
        std::mem::forget(staging);
    }
    fs::create_dir_all(store.place.join(LEAVING).join("x")).unwrap();
    fs::create_dir_all(store.place.join(key.as_str()).join(ROOT)).unwrap();
    fs::create_dir_all(store.place.join(NAMES)).unwrap();
    fs::write(store.place.join(NAMES).join("half"), key.as_str()).unwrap();
    assert_eq!(store.list().unwrap(), []);
    assert!(store.find("half").is_err());
    let pruned = changing(&store).prune(false).unwrap();
    assert_eq!(pruned.remains, [store.place.join(key.as_str())]);
    let left: Vec<_> = entries(&store.place).unwrap().iter().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| name == ".lock" || name == NAMES), "{left:?}");
    {
        let changing = changing(&store);
        drop(changing.stage().unwrap());
        assert!(!store.place.join(STAGING).exists());
    }
    put(&store, "half", "broken", 1);
    assert!(store.find("half").is_ok());
}

#[test]
fn what_is_being_made_is_nobody_elses_business_and_what_is_whole_is_everybodys() {
    let (_home, store) = store();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    {
        let changing = changing(&store);
        let staging = changing.stage().unwrap();
        assert_eq!(mode(staging.place()), 0o700);
    }
    let image = put(&store, "agent", "one", 1);
    assert_eq!((mode(image.root.parent().unwrap()), mode(&image.root)), (0o755, 0o755));
}

#[test]
fn one_at_a_time_and_a_stop_is_heard() {
    let (_home, store) = store();
    let first = changing(&store);
    let mut told = 0;
    let busy = store.change(Duration::ZERO, &AtomicBool::new(false), &mut || told += 1);
    assert!(matches!(busy, Err(ImageError::Busy { .. })));
    let stopped = store.change(PATIENCE, &AtomicBool::new(true), &mut || {});
    assert!(matches!(stopped, Err(ImageError::Stopped)));
    let again = first.store().clone();
    drop(first);
    drop(changing(&again));
}

#[test]
fn a_bad_name_is_refused_before_anything_is_kept() {
    let (_home, store) = store();
    let changing = changing(&store);
    let staging = changing.stage().unwrap();
    fs::create_dir(staging.root()).unwrap();
    assert!(staging.keep("../x", about("one", 1)).is_err());
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn an_image_that_cannot_be_read_stays_and_is_told() {
    let (_home, store) = store();
    let newer = put(&store, "newer", "one", 1);
    let damaged = put(&store, "damaged", "two", 1);
    let odd = put(&store, "odd", "three", 1);
    let described = |image: &Image| image.root.with_file_name(ABOUT);
    let text = fs::read_to_string(described(&newer)).unwrap();
    fs::write(described(&newer), text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    fs::write(described(&damaged), "{").unwrap();
    // Something that no reading gets at, whoever reads.
    fs::remove_file(described(&odd)).unwrap();
    fs::create_dir(described(&odd)).unwrap();
    for all in [false, true] {
        let pruned = changing(&store).prune(all).unwrap();
        assert_eq!((pruned.images, pruned.remains), (Vec::new(), Vec::new()));
        let mut why: Vec<_> = pruned.kept.into_iter().map(|kept| kept.why).collect();
        why.sort();
        assert!(why[0].contains("another version"), "{why:?}");
        assert!(why[1].contains("cannot be read") && why[2].contains("damaged"), "{why:?}");
    }
    assert!([&newer, &damaged, &odd].iter().all(|image| image.root.exists()));
    // Nor is it said that there is none, or another put in its place.
    let error = store.find("newer").unwrap_err();
    assert!(matches!(error, ImageError::Unreadable { .. }), "{error:?}");
    assert!(error.help().unwrap().contains(newer.about.key.as_str()), "{error:?}");
    let changing = changing(&store);
    let staging = changing.stage().unwrap();
    fs::create_dir(staging.root()).unwrap();
    assert!(staging.keep("newer", about("one", 2)).is_err());
    assert!(newer.root.join("content").exists());
}

#[test]
fn an_image_that_is_held_is_not_pruned_until_it_is_let_go() {
    let (_home, store) = store();
    let old = put(&store, "agent", "one", 5);
    let (image, hold) = store.take("agent").unwrap();
    assert_eq!(image, old);
    let second = store.take(old.about.key.short()).unwrap();
    put(&store, "agent", "two", 6);
    drop(hold);
    let pruned = changing(&store).prune(false).unwrap();
    assert_eq!(pruned.images, []);
    assert!(pruned.kept[0].why.contains("a sandbox uses it"), "{pruned:?}");
    assert!(old.root.exists());
    drop(second);
    assert_eq!(changing(&store).prune(false).unwrap().images.len(), 1);
    assert!(!old.root.exists());
}

#[test]
fn what_is_being_removed_is_not_taken() {
    let (_home, store) = store();
    let old = put(&store, "agent", "one", 5);
    let place = old.root.parent().unwrap();
    let pruning = hold::alone(place).unwrap().unwrap();
    let (begun, taken) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            begun.send(()).unwrap();
            store.take("agent")
        });
        taken.recv().unwrap();
        changing(&store).leave(&old.about.key).unwrap();
        drop(pruning);
        let error = taking.join().unwrap().unwrap_err();
        assert!(matches!(error, ImageError::Unknown { .. }), "{error:?}");
    });
}

#[test]
fn no_image_gets_the_name_that_stands_for_a_tasks() {
    let (_home, store) = store();
    let changing = changing(&store);
    let staging = changing.stage().unwrap();
    fs::create_dir(staging.root()).unwrap();
    let error = staging.keep("task", about("one", 5)).unwrap_err();
    assert!(matches!(error, ImageError::Reserved { .. }), "{error:?}");
    assert_eq!(store.list().unwrap(), []);
    let definition = Definition { name: "task".to_owned(), ..Definition::agent().unwrap() };
    assert!(matches!(definition.check(), Err(ImageError::Reserved { .. })));
}

#[test]
fn an_image_that_a_job_began_with_and_that_is_gone_is_told_as_such() {
    let (_home, store) = store();
    let error = store.find(about("one", 5).key.as_str()).unwrap_err();
    assert!(error.help().unwrap().contains("it was removed"), "{:?}", error.help());
}

#[test]
fn of_the_images_of_tasks_the_newest_stay_and_those_in_use() {
    let (_home, store) = store();
    let name = |number: u64| format!("job-{number:012x}");
    let images: Vec<Image> = (0..5).map(|at| put(&store, &name(at), &at.to_string(), at)).collect();
    put(&store, "job-mine", "mine", 0);
    put(&store, "own", "3", 0);
    store.note_use("native-1", &images[1].about.key).unwrap();
    let (_, hold) = store.take(&name(2)).unwrap();
    let gone = changing(&store).prune_tasks(1).unwrap();
    // The third of them has a name of its own besides.
    assert_eq!(gone, images[..1]);
    drop(hold);
    store.forget_use("native-1");
    assert_eq!(changing(&store).prune_tasks(1).unwrap(), [images[2].clone(), images[1].clone()]);
    assert_eq!(changing(&store).prune_tasks(1).unwrap(), []);
    assert_eq!(store.list().unwrap().len(), 3);
}

#[test]
fn everything_in_an_image_is_counted_and_a_file_with_two_names_once() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let mut paths = vec![root.to_owned()];
    for directory in ["a", "a/b", "a/b/c", "d"] {
        fs::create_dir(root.join(directory)).unwrap();
        fs::write(root.join(directory).join("file"), [7; 10_000]).unwrap();
        paths.extend([root.join(directory), root.join(directory).join("file")]);
    }
    let blocks = |path: &PathBuf| path.symlink_metadata().unwrap().blocks() * 512;
    let all: u64 = paths.iter().map(blocks).sum();
    assert!(all >= 40_000, "{all}");
    fs::hard_link(root.join("a/file"), root.join("d/again")).unwrap();
    assert_eq!(size(root).unwrap(), all);
}
