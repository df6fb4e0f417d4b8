//! A log that is read event by event, for one notebook.

use cofferdam_notebook::{Limits, NoNotebook, Notebook, Reader, notebooks};
use cofferdam_types::{ToolOutput, ToolStatus};
use proptest::prelude::*;
use serde_json::json;

use crate::bounds::job;
use crate::checked::checked;
use crate::world::{MAIN, World, stdout};

fn read(world: &World, wanted: Option<&str>, limits: &Limits) -> Result<Notebook, NoNotebook> {
    let mut reader = Reader::new(wanted, limits);
    for record in &world.records {
        reader.read(&record.event);
    }
    reader.notebook()
}

fn one(world: &World, wanted: Option<&str>) -> Result<Notebook, NoNotebook> {
    read(world, wanted, &Limits::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn it_is_the_same_as_of_the_whole_log(world in job()) {
        let whole = notebooks(&world.records, &Limits::default()).remove(0);
        prop_assert_eq!(one(&world, None).unwrap().to_json(), whole.to_json());
        prop_assert_eq!(one(&world, Some("python")).unwrap(), whole);
    }

    #[test]
    fn it_is_valid_and_bounded_however_little_is_kept(world in job(), file in 10..18usize) {
        let limits = Limits { file: 1 << file, ..Limits::default() };
        let text = read(&world, None, &limits).unwrap().to_json();
        checked(&text);
        prop_assert!(text.len() <= limits.file.max(16 << 10));
    }
}

#[test]
fn a_job_with_several_kernels_has_to_be_asked_for_one() {
    let mut world = World::new("Compare");
    world.python("1", &[]);
    world.cell("typescript", &json!({"code": "2"}), &[]);
    world.cell("python", &json!({"code": "3", "kernel": "a b"}), &[]);
    let all = ["python", "typescript", "python-a-b"].map(str::to_owned).to_vec();
    assert_eq!(one(&world, None), Err(NoNotebook::Several { names: all.clone() }));
    for name in &all {
        let notebook = one(&world, Some(name)).unwrap();
        assert_eq!((&notebook.name, notebook.cells), (name, 1));
    }
    let wanted = "perl".to_owned();
    assert_eq!(one(&world, Some("perl")), Err(NoNotebook::Unknown { wanted, names: all }));
}

#[test]
fn a_kernel_that_never_ran_does_not_make_it_ambiguous() {
    let mut world = World::new("Try");
    let arguments = json!({"code": "x", "kernel": "no such name!"}).to_string();
    let refused = world.begins(MAIN, "python", &arguments);
    world.ends(MAIN, refused, ToolOutput::text(ToolStatus::Refused, "python: no"));
    world.python("1", &[]);
    assert_eq!(one(&world, None).unwrap().name, "python");
}

#[test]
fn without_cells_there_is_none() {
    let mut world = World::new("Talk");
    world.says("Hello");
    assert_eq!(one(&world, None), Err(NoNotebook::NoCells));
    assert_eq!(one(&world, Some("python")), Err(NoNotebook::NoCells));
}

#[test]
fn a_log_that_is_larger_than_a_notebook_is_not_kept_whole() {
    let mut world = World::new("Print");
    for number in 0..200 {
        world.python(&format!("print({number})"), &[stdout("0123456789".repeat(10_000))]);
    }
    let limits = Limits { file: 1 << 20, ..Limits::default() };
    let notebook = read(&world, None, &limits).unwrap();
    let text = notebook.to_json();
    checked(&text);
    assert!(text.len() <= limits.file, "{}", text.len());
    assert!(text.contains("100009 bytes of output are left out"), "{text}");
    // Code stays where outputs do not, and none is missing between.
    assert!(notebook.cells > 50, "{}", notebook.cells);
    assert!(text.contains(&format!("print({})", notebook.cells - 1)));
    assert!(text.contains(&format!("*{} more cells are left out", 200 - notebook.cells)));
}
