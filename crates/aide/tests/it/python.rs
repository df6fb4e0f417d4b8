//! What cells in Python give.

use cofferdam_aide_protocol::{CellEnd, Role, Stream, strip_ansi};

use crate::aide::Home;

#[test]
fn state_is_kept_between_cells() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let first = home.cell("main", "x = 41");
    assert_eq!(first.end(), &CellEnd::Finished { count: 1 });
    assert_eq!(first.pieces.len(), 1, "{first:?}");
    let second = home.cell("main", "x + 1");
    assert_eq!(second.result(), "42");
    assert_eq!(second.end(), &CellEnd::Finished { count: 2 });
    // What the aide runs beside the cells is not seen by them.
    assert_eq!(home.cell("main", "_, len(In), Out").result(), "(42, 4, {2: 42})");
}

#[test]
fn printed_text_is_kept_apart_and_in_order_also_that_of_programs() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let code = "import os, sys, subprocess\n\
                for n in range(100):\n    print('out', n)\n    print('err', n, file=sys.stderr)\n\
                sys.stdout.flush()\n\
                subprocess.run(['sh', '-c', 'echo from a program; echo and its error >&2'])\n\
                None";
    for _ in 0..5 {
        let given = home.cell("main", code);
        let lines = |word: &str| -> String { (0..100).map(|n| format!("{word} {n}\n")).collect() };
        assert_eq!(given.stdout(), lines("out") + "from a program\n");
        // Ours and the program's go different ways within the kernel.
        let errors = given.text(Stream::Stderr);
        assert!(errors.contains(&lines("err")), "{errors}");
        assert!(errors.contains("and its error\n"), "{errors}");
    }
}

#[test]
fn results_come_in_their_forms() {
    let home = Home::new();
    let _kernel = home.start("python", "main");
    let given = home.cell("main", "from IPython.display import JSON, HTML\nJSON({'a': [1, None]})");
    let json = given.values("application/json");
    assert_eq!(json, [(Role::Result, br#"{"a":[1,null]}"#.to_vec())]);
    let given = home.cell("main", "HTML('<b>ä</b>')");
    assert_eq!(given.values("text/html"), [(Role::Result, "<b>ä</b>".as_bytes().to_vec())]);
    assert!(given.result().contains("HTML object"));

    let given = home.cell("main", "display(1); display('two'); 3");
    let values = given.values("text/plain");
    let expected = [(Role::Display, "1"), (Role::Display, "'two'"), (Role::Result, "3")];
    assert_eq!(values, expected.map(|(role, text)| (role, text.as_bytes().to_vec())));
}

#[test]
fn a_plot_is_an_image() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()\nprint('done')";
    let given = home.cell("main", code);
    let images = given.values("image/png");
    assert_eq!(images.len(), 1, "{given:?}");
    let (role, image) = images.first().unwrap();
    assert_eq!(*role, Role::Display);
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image.len() > 5_000, "{}", image.len());
    assert_eq!(given.stdout(), "done\n");

    // One of several megabytes, in many pieces.
    let code = "import numpy\nfrom IPython.display import Image\nimport io\n\
                noise = numpy.random.default_rng(1).integers(0, 255, (1000, 1000, 3), 'uint8')\n\
                file = io.BytesIO()\nplt.imsave(file, noise)\nImage(file.getvalue())";
    let given = home.cell("main", code);
    let images = given.values("image/png");
    assert!(images.first().unwrap().1.len() > 2_000_000, "{}", images.len());
    assert!(images.first().unwrap().1.ends_with(b"IEND\xaeB`\x82"));
}

#[test]
fn an_error_has_a_traceback_and_the_kernel_goes_on() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let given = home.cell("main", "print('before')\ndef divide(a):\n    return a / 0\ndivide(7)");
    let (name, value, traceback) = given.error();
    assert_eq!((name, value), ("ZeroDivisionError", "division by zero"));
    assert!(traceback.contains('\u{1b}'), "with colours: {traceback:?}");
    let plain = strip_ansi(&traceback);
    assert!(plain.contains("return a / 0") && !plain.contains('\u{1b}'), "{plain}");
    assert_eq!(given.stdout(), "before\n");
    assert_eq!(given.end(), &CellEnd::Failed { count: 1 });
    assert_eq!(home.cell("main", "1 +").error().0, "SyntaxError");
    assert_eq!(home.cell("main", "divide").end(), &CellEnd::Finished { count: 3 });
}

#[test]
fn input_is_refused() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let given = home.cell("main", "name = input('who? ')");
    assert_eq!(given.error().0, "StdinNotImplementedError");
    assert!(given.error().1.contains("does not support input requests"));
    assert_eq!(given.end(), &CellEnd::Failed { count: 1 });
}
