//! What cells in TypeScript give.

use cofferdam_aide_protocol::{CellEnd, CellPiece, Role, Stream, strip_ansi};

use crate::aide::Home;

#[test]
fn state_is_kept_between_cells() {
    let home = Home::new();
    let _kernel = home.start("deno", "main");
    let first = home.cell("main", "let x: number = 41; const f = (n: number): number => n + 1");
    assert_eq!(first.end(), &CellEnd::Finished { count: 1 });
    assert_eq!(first.pieces.len(), 1, "{first:?}");
    let second = home.cell("main", "f(x)");
    assert_eq!(second.result(), "42");
    assert_eq!(second.end(), &CellEnd::Finished { count: 2 });
}

/// Deno says that it is idle before it publishes what was printed.
#[test]
fn what_is_published_late_is_there_and_in_its_own_cell() {
    let home = Home::new();
    let _kernel = home.start("typescript", "main");
    for n in 0..40 {
        let code = format!("console.log('out {n}'); console.error('err {n}'); {n} + 1");
        let given = home.cell("main", &code);
        assert_eq!(given.stdout(), format!("out {n}\n"));
        assert_eq!(given.text(Stream::Stderr), format!("err {n}\n"));
        assert_eq!(given.result(), (n + 1).to_string());
        assert_eq!(given.pieces.len(), 4, "{given:?}");
    }
}

#[test]
fn results_come_in_their_forms() {
    let home = Home::new();
    let _kernel = home.start("deno", "main");
    let given = home.cell("main", "({a: [1, null]})");
    assert_eq!(given.result(), "{ a: [ 1, null ] }");
    let given = home.cell("main", "Deno.jupyter.html`<b>ä</b>`");
    assert_eq!(given.values("text/html"), [(Role::Result, "<b>ä</b>".as_bytes().to_vec())]);
    let code = "await Deno.jupyter.display({'application/json': {a: 1}, \
                'image/png': 'iVBORw0KGgo='}, {raw: true})";
    let given = home.cell("main", code);
    assert_eq!(given.values("application/json"), [(Role::Display, br#"{"a":1}"#.to_vec())]);
    assert_eq!(given.values("image/png"), [(Role::Display, b"\x89PNG\r\n\x1a\n".to_vec())]);
}

#[test]
fn an_error_has_a_traceback_and_the_kernel_goes_on() {
    let home = Home::new();
    let _kernel = home.start("deno", "main");
    let code = "console.log('before'); function fail(): never { throw new RangeError('too far') }\n\
                fail()";
    let given = home.cell("main", code);
    let (name, value, traceback) = given.error();
    assert_eq!((name, value), ("RangeError", "too far"));
    assert!(traceback.contains("at fail"), "{traceback}");
    assert_eq!(given.stdout(), "before\n");
    assert_eq!(given.end(), &CellEnd::Failed { count: 1 });
    assert!(matches!(home.cell("main", "let let = ").end(), CellEnd::Failed { .. }));
    assert_eq!(home.cell("main", "1 + 1").result(), "2");
}

#[test]
fn input_is_refused() {
    let home = Home::new();
    let _kernel = home.start("deno", "main");
    for ask in ["prompt('who?')", "confirm('sure?')"] {
        let given = home.cell("main", ask);
        let (_, value, _) = given.error();
        assert!(value.contains("needs input, and a cell has none"), "{value}");
        assert!(matches!(given.end(), CellEnd::Failed { .. }));
    }
}

/// Lines go together, and stay in their places.
#[test]
fn printed_text_keeps_its_order() {
    let home = Home::new();
    let _kernel = home.start("deno", "main");
    let code = "console.log('%s is %d', 'n', 1, {a: [1]}); console.log('two'); console.error('three');\n\
                console.log('four'); await Deno.jupyter.display({'text/plain': 'five'}, {raw: true});\n\
                console.group('six'); console.log('seven'); console.groupEnd(); console.log('eight');\n\
                'nine'";
    for _ in 0..3 {
        let given = home.cell("main", code);
        let mut order = String::new();
        for piece in &given.pieces {
            match piece {
                CellPiece::Text { stream: Stream::Stdout, text } => order += text,
                CellPiece::Text { text, .. } => order += &format!("error: {text}"),
                CellPiece::Part(part) => {
                    order += &format!("{}\n", String::from_utf8_lossy(&part.bytes))
                }
                _ => {}
            }
        }
        let expected =
            "n is 1 { a: [ 1 ] }\ntwo\nerror: three\nfour\nfive\nsix\n  seven\neight\n\"nine\"\n";
        assert_eq!(strip_ansi(&order), expected);
    }
}
