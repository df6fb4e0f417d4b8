//! The task of a CSV filter, with a mistake in it at first: numbers are compared
//! as text. Its tests show it, and it is repaired.

use serde_json::json;

use super::moment::Conversation;
use super::outputs::Outputs;
use super::script::{
    Call, Next, Script, Step, bash, look, on_or_give_up, plan, read_file, write_file,
};

/// The program as it is written first.
pub(super) const PROGRAM: &str = include_str!("programs/csv_filter.py");
pub(super) const TEST: &str = include_str!("programs/csv_filter_test.py");
pub(super) const SAMPLE: &str = include_str!("programs/products.csv");

/// The mistake.
pub(super) const MISTAKE: &str = "        compare = COMPARISONS[self.comparison]
        return compare(row[self.column], self.value)
";

/// What stands in its place afterwards.
pub(super) const REPAIR: &str = "        compare = COMPARISONS[self.comparison]
        left, right = row[self.column], self.value
        try:
            # As text, \"119.00\" comes before \"20\".
            left, right = float(left), float(right)
        except ValueError:
            pass
        return compare(left, right)
";

const PLAN: [&str; 3] = [
    "Write the filter, sample data and tests",
    "Run the tests and repair what they find",
    "Use the filter on the sample data",
];
const RUN_TESTS: &str = "python3 -B -m unittest test_csv_filter";
const USE: &str = "python3 csv_filter.py products.csv 'price<20' 'category=writing'";
const CHEAP: &str = "Pencil,writing,0.80,400\nInk bottle,writing,12.00,48\n";

/// The program without the mistake.
pub(super) fn repaired() -> String {
    PROGRAM.replacen(MISTAKE, REPAIR, 1)
}

pub(super) fn script(conversation: &Conversation<'_>) -> Script {
    let repaired = repaired();
    let mut first = look(
        "command -v python3",
        &[
            ("csv_filter.py", PROGRAM),
            ("csv_filter.py", &repaired),
            ("products.csv", SAMPLE),
            ("test_csv_filter.py", TEST),
        ],
    );
    first.calls.insert(0, plan(&PLAN, 0));
    let complaint = complaint(&conversation.heard_from("test"));
    let repair = json!({
        "path": "csv_filter.py", "old_string": MISTAKE, "new_string": REPAIR,
    });
    let mut steps = vec![
        first,
        Step::new(
            "write",
            "I write some sample data, the filter, and its tests.",
            vec![
                write_file("products.csv", SAMPLE),
                write_file("csv_filter.py", PROGRAM),
                write_file("test_csv_filter.py", TEST),
            ],
        ),
        Step::new("test", "Now the tests.", vec![plan(&PLAN, 1), bash(RUN_TESTS)]).judged(tested),
        Step::new(
            "examine",
            format!(
                "The tests found a mistake:{complaint}\n\nI look at the filter and the data \
                     again."
            ),
            vec![read_file("csv_filter.py"), read_file("products.csv")],
        ),
        Step::new(
            "repair",
            "Everything in a CSV file is text, and I compared prices as text: \"119.00\" comes \
                 before \"20\" because 1 comes before 2. Where both sides are numbers, they have \
                 to be compared as numbers.",
            vec![Call { tool: "edit_file", arguments: repair }],
        )
        .in_doubt(vec![write_file("csv_filter.py", &repaired)]),
        Step::new("retest", "The same tests again.", vec![bash(RUN_TESTS)]),
        Step::new(
            "use",
            "All tests pass. What can I write with for less than 20?",
            vec![plan(&PLAN, 2), bash(USE)],
        )
        .judged(used),
    ];
    if conversation.offers("plan") {
        // How the plan is drawn changes nothing about the work.
        steps.push(Step::new("done", "That is right.", vec![plan(&PLAN, 3)]).judged(|_| Next::On));
    }
    Script {
        name: "csv",
        steps,
        summary: "Wrote `csv_filter.py`, sample data in `products.csv` and `test_csv_filter.py`. \
                  The tests found that numbers were compared as text; that is repaired, and all \
                  tests pass. Try: `python3 csv_filter.py products.csv 'price<20'`."
            .to_owned(),
    }
}

/// Failing tests are expected here; anything else that fails is not.
fn tested(outputs: &Outputs<'_>) -> Next {
    if outputs.ended_with(1, "test_prices_are_compared_as_numbers") {
        Next::On
    } else if let Some(failure) = outputs.first_failure() {
        Next::GiveUp(failure)
    } else {
        Next::GiveUp("the tests passed although the filter has a mistake in it.".to_owned())
    }
}

/// The output has to be the right one, not just there.
fn used(outputs: &Outputs<'_>) -> Next {
    match on_or_give_up(outputs) {
        Next::On if !outputs.ended_with(0, CHEAP) => {
            Next::GiveUp(format!("the filter chose the wrong rows:\n\n{}", outputs.text()))
        }
        next => next,
    }
}

/// What the tests complain about, as a quotation.
fn complaint(output: &str) -> String {
    let mut lines = output.lines().map(str::trim);
    let line = lines.rfind(|line| line.starts_with("AssertionError"));
    line.map(|line| format!("\n\n> {line}")).unwrap_or_default()
}
