//! Whatever came out of cells: the notebook is valid, and no larger than it may be.

use cofferdam_notebook::{Bundle, Limits, Output, Part, notebooks};
use proptest::prelude::*;

use crate::checked::checked;
use crate::world::{PIXEL, World, stderr, stdout};

pub(crate) fn hostile() -> impl Strategy<Value = String> {
    let fixed: &[&str] = &[
        "\0",
        "\u{1b}[31m",
        "\u{1b}]0;x\u{7}",
        "\r",
        "\n",
        "\r\n",
        "\u{2028}",
        "\u{feff}",
        "\u{fffd}",
        "\"",
        "\\",
        "\\ud800",
        "</script>",
        "]]>",
        "```",
        "\u{10ffff}",
        "\u{85}",
        "[stdout]\n",
        "# ",
        "![",
    ];
    let piece = prop_oneof![
        any::<String>(),
        prop::sample::select(fixed).prop_map_into(),
        (prop::sample::select(fixed), 1..3_000usize).prop_map(|(text, times)| text.repeat(times)),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn part() -> impl Strategy<Value = Part> {
    let mimes: &[&str] = &[
        "text/plain",
        "text/html",
        "application/json",
        "application/vnd.x+json",
        "image/png",
        "image/svg+xml",
        "application/pdf",
        "no mime",
        "",
    ];
    let data = prop_oneof![
        hostile(),
        Just(PIXEL.to_owned()),
        Just("[".repeat(50) + &"]".repeat(50)),
        Just("[[0,0,0,0],{\"\\u0000\":1e5}]".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        Just("1e999".to_owned()),
    ];
    (prop::sample::select(mimes), data).prop_map(|(mime, data)| Part::new(mime, data))
}

pub(crate) fn output() -> impl Strategy<Value = Output> {
    let bundle = || prop::collection::vec(part(), 0..5).prop_map(Bundle);
    prop_oneof![
        hostile().prop_map(stdout),
        hostile().prop_map(stderr),
        bundle().prop_map(Output::Result),
        bundle().prop_map(Output::Display),
        (hostile(), hostile(), hostile()).prop_map(|(name, value, traceback)| Output::Error {
            name,
            value,
            traceback
        }),
        hostile().prop_map(Output::Note),
        hostile().prop_map(Output::Started),
        hostile().prop_map(Output::Restarted),
    ]
}

/// A job in which cells did anything.
pub(crate) fn job() -> impl Strategy<Value = World> {
    let cell = (hostile(), hostile(), prop::collection::vec(output(), 0..5));
    let cells = prop::collection::vec(cell, 1..6);
    (hostile(), cells, hostile()).prop_map(|(task, cells, summary)| {
        let mut world = World::new(&task);
        for (said, code, outputs) in cells {
            world.says(&said);
            world.python(&code, &outputs);
        }
        world.completes(&summary);
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_outputs_make_a_valid_notebook_of_bounded_size(world in job(), file in 10..20usize) {
        for limits in [
            Limits { file: 1 << file, output: 1 << 12, said: 300 },
            Limits { file: 1 << file, ..Limits::default() },
        ] {
            for notebook in notebooks(&world.records, &limits) {
                let text = notebook.to_json();
                checked(&text);
                let most = limits.file.max(16 << 10);
                prop_assert!(text.len() <= most, "{} of {most}", text.len());
            }
        }
    }
}

#[test]
fn five_megabytes_are_cut_and_both_ends_stay() {
    let mut world = World::new("Print");
    world.python("flood()", &[stdout(format!("begin\n{}end", "line\n".repeat(1_000_000)))]);
    world.python("empty()", &[stdout("\n".repeat(5_000_000))]);
    world.python("zeros()", &[stdout("\0".repeat(5_000_000))]);
    let text = world.notebook();
    checked(&text);
    assert!(text.len() < 13 << 20, "{}", text.len());
    assert!(text.contains("begin") && text.contains("end"), "both ends");
    assert_eq!(text.matches("bytes are left out here").count(), 3);
}

#[test]
fn cells_that_do_not_fit_are_counted_and_none_is_missing_between() {
    let mut world = World::new("Many");
    for number in 0..5_000 {
        world.python(&format!("print({number})"), &[stdout(format!("{number}\n"))]);
    }
    world.completes("Done.");
    let limits = Limits { file: 256 << 10, ..Limits::default() };
    let notebook = notebooks(&world.records, &limits).remove(0);
    let text = notebook.to_json();
    assert!(text.len() <= limits.file, "{}", text.len());
    assert!(notebook.cells > 200, "{}", notebook.cells);
    assert!(text.contains(&format!("print({})", notebook.cells - 1)));
    let words = format!("*{} more cells are left out", 5_000 - notebook.cells);
    assert!(text.contains(&words) && text.contains("Done."));
}

#[test]
fn a_picture_that_is_too_large_or_none_is_replaced_by_words() {
    let mut world = World::new("Look");
    let show = |data: String| Output::Display(Bundle(vec![Part::new("image/png", data)]));
    world.python("a", &[show("A".repeat(5 << 20)), show("<script>".to_owned())]);
    let text = world.notebook();
    checked(&text);
    assert!(text.contains("[image/png of 5242880 bytes is left out]"));
    assert!(text.contains("[image/png that cannot be read]"));
}
