//! The programs that the demo writes, executed.

use super::workbench::Workbench;
use super::{csv_filter, health, hello, todo};

#[track_caller]
fn assert_ends(workbench: &Workbench, command: &str, code: i32) -> String {
    let (_, output) = workbench.bash(command);
    assert!(output.ends_with(&format!("exit code: {code}")), "{command}\n{output}");
    output
}

/// Python with a Flask that cannot be imported.
const WITHOUT_FLASK: &str = "python3 -B -c '
import sys, unittest
sys.modules[\"flask\"] = None
unittest.main(\"test_app\", argv=[\"test_app\", \"-v\"])'";

#[test]
fn hello_greets_the_world_or_somebody() {
    let workbench = Workbench::new();
    workbench.put("hello.py", hello::PROGRAM);
    assert_eq!(assert_ends(&workbench, "python3 hello.py", 0), "Hello, world!\nexit code: 0");
    assert_eq!(assert_ends(&workbench, "python3 hello.py Ada", 0), "Hello, Ada!\nexit code: 0");
}

#[test]
fn the_health_api_passes_its_tests_with_what_is_installed_and_without_flask() {
    let workbench = Workbench::new();
    workbench.put("app.py", health::PROGRAM);
    workbench.put("test_app.py", health::TEST);
    assert_ends(&workbench, "python3 -B -m unittest test_app", 0);
    let output = assert_ends(&workbench, WITHOUT_FLASK, 0);
    assert!(output.contains("Ran 3 tests"), "{output}");
}

#[test]
fn the_health_api_s_tests_notice_a_service_that_is_ill() {
    let workbench = Workbench::new();
    workbench.put("app.py", &health::PROGRAM.replace("\"status\": \"ok\"", "\"status\": \"ill\""));
    workbench.put("test_app.py", health::TEST);
    let output = assert_ends(&workbench, "python3 -B -m unittest test_app", 1);
    assert!(output.contains("AssertionError: 'ill' != 'ok'"), "{output}");
}

#[test]
fn the_csv_tests_fail_before_the_repair_and_pass_after_it() {
    assert_eq!(csv_filter::PROGRAM.matches(csv_filter::MISTAKE).count(), 1);
    let workbench = Workbench::new();
    workbench.put("products.csv", csv_filter::SAMPLE);
    workbench.put("test_csv_filter.py", csv_filter::TEST);
    let run = "python3 -B -m unittest test_csv_filter";

    workbench.put("csv_filter.py", csv_filter::PROGRAM);
    let output = assert_ends(&workbench, run, 1);
    assert!(output.contains("FAILED (failures=2)"), "{output}");

    workbench.put("csv_filter.py", &csv_filter::repaired());
    let output = assert_ends(&workbench, run, 0);
    assert!(output.contains("Ran 8 tests"), "{output}");
}

#[test]
fn the_csv_filter_explains_mistakes_of_its_user() {
    let workbench = Workbench::new();
    workbench.put("csv_filter.py", &csv_filter::repaired());
    workbench.put("products.csv", csv_filter::SAMPLE);
    for (arguments, expected) in [
        ("missing.csv", "csv_filter: [Errno 2] No such file or directory: 'missing.csv'"),
        ("products.csv price", "csv_filter: not a condition: 'price'; write it like 'price<20'"),
        ("products.csv x=1", "csv_filter: no column 'x'; there are: name, category, price, stock"),
    ] {
        let output = assert_ends(&workbench, &format!("python3 csv_filter.py {arguments}"), 1);
        assert_eq!(output, format!("{expected}\nexit code: 1"));
    }
    let output = assert_ends(&workbench, "python3 csv_filter.py products.csv 'price > 100'", 0);
    assert_eq!(output, "name,category,price,stock\nDesk lamp,light,119.00,7\nexit code: 0");
}

/// A workbench with the todo app, changed in this way.
fn todo_app(change: (&str, &str)) -> Workbench {
    let workbench = Workbench::new();
    assert!(todo::PAGE.contains(change.0));
    workbench.put("index.html", &todo::PAGE.replace(change.0, change.1));
    workbench.put("check.mjs", todo::CHECK_BY_NODE);
    workbench.put("check.py", todo::CHECK_BY_PYTHON);
    workbench
}

#[test]
fn the_todo_app_passes_the_check_by_python_and_a_broken_one_does_not() {
    assert_ends(&todo_app(("", "")), "python3 check.py", 0);
    for broken in [
        ("id=\"list\"", "id=\"lost\""),
        ("</ul>", ""),
        ("data-filter=\"done\"", ""),
        ("toggle(todos, id)", "tuggle(todos, id)"),
        ("<meta charset", "<script src=\"elsewhere.js\"></script><meta charset"),
        ("localStorage", "sessionStorage"),
    ] {
        assert_ends(&todo_app(broken), "python3 check.py", 1);
    }
}

/// Where there is no Node, the demo itself does without, and so does this test:
/// the check by Python is the one that counts then.
#[test]
fn the_todo_app_passes_the_check_by_node_and_a_broken_one_does_not() {
    let node = todo_app(("", "")).bash("command -v node");
    if node.0 {
        println!("there is no Node on this machine: its check was not tried");
        return;
    }
    let output = assert_ends(&todo_app(("", "")), "node check.mjs", 0);
    assert!(output.contains("6 checks passed"), "{output}");
    for broken in [
        ("id=\"list\"", "id=\"lost\""),
        ("done: !todo.done", "done: todo.done"),
        ("function show() {", "function show( {"),
        ("title.trim()", "title"),
    ] {
        assert_ends(&todo_app(broken), "node check.mjs", 1);
    }
}
