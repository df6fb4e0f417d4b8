//! What is written for a model is read again, whatever it holds.

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    let marks: &[&str] =
        &[STDOUT, "[error \"a\" \"b\"]\n", "\n", "[+ text/html]", "\u{1b}[31m", "\0", "\r\n"];
    let piece = prop_oneof![any::<String>(), prop::sample::select(marks).prop_map_into()];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn bundle() -> impl Strategy<Value = Bundle> {
    let form =
        |mime: &'static str| prop::option::of(text().prop_map(move |data| Part::new(mime, data)));
    let forms = (form(Part::PLAIN), form("text/html"), form("application/json"), form("image/png"));
    forms.prop_map(|(a, b, c, d)| Bundle([a, b, c, d].into_iter().flatten().collect()))
}

fn output() -> impl Strategy<Value = Output> {
    prop_oneof![
        text().prop_map(|text| Output::Printed { stream: Stream::Stdout, text }),
        text().prop_map(|text| Output::Printed { stream: Stream::Stderr, text }),
        bundle().prop_map(Output::Result),
        bundle().prop_map(Output::Display),
        (text(), text(), text()).prop_map(|(name, value, traceback)| Output::Error {
            name,
            value,
            traceback
        }),
        text().prop_map(Output::Note),
        text().prop_map(Output::Started),
        text().prop_map(Output::Restarted),
    ]
}

proptest! {
    #[test]
    fn what_was_written_is_read_again(written in prop::collection::vec(output(), 0..8)) {
        prop_assert_eq!(outputs(&contents(&written)), written);
    }

    #[test]
    fn any_text_can_be_read(texts in prop::collection::vec(text(), 0..8)) {
        let shown: Vec<Content> = texts.iter().map(Content::text).collect();
        prop_assert_eq!(outputs(&shown).is_empty(), texts.is_empty());
    }
}

#[test]
fn a_model_sees_plain_words() {
    let figure = "<Figure size 640x480 with 1 Axes>";
    let shown = contents(&[
        Output::Printed { stream: Stream::Stdout, text: "hello\n".into() },
        Output::Display(Bundle(vec![
            Part::new("image/png", "aGk="),
            Part::new(Part::PLAIN, figure),
        ])),
        Output::Display(Bundle(vec![Part::new("image/png", "aGk=")])),
        Output::Error {
            name: "NameError".into(),
            value: "name 'x' is not defined".into(),
            traceback: "Traceback …\nNameError: name 'x' is not defined".into(),
        },
        Output::Restarted("the cell ran longer than 30 s".into()),
    ]);
    let lines: Vec<String> = shown
        .iter()
        .map(|content| match content {
            Content::Text { text } => text.clone(),
            Content::Image { media_type, data } => format!("({media_type} {data})"),
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    [stdout]
    hello

    [display]
    <Figure size 640x480 with 1 Axes>
    (image/png aGk=)
    [display]
    (image/png aGk=)
    [error "NameError" "name 'x' is not defined"]
    Traceback …
    NameError: name 'x' is not defined
    [kernel restarted]
    the cell ran longer than 30 s
    "#);
}

#[test]
fn what_is_no_piece_is_what_the_host_says() {
    for text in
        ["", "refused: no kernel", "[error 1 2]\nx", "[+ a]\nx", "[+ image/png]\nx", "[stdout] x"]
    {
        assert_eq!(outputs(&[Content::text(text)]), [Output::Note(text.into())], "{text}");
    }
}
