//! Much output, many cells, several kernels.

use std::time::Duration;

use cofferdam_aide_protocol::{Because, CellEnd, CellPiece};

use crate::aide::Home;

const KERNELS: [&str; 2] = ["python3", "deno"];

#[test]
fn output_comes_while_the_cell_runs() {
    let home = Home::new();
    let go = home.path("go");
    let path = go.to_str().unwrap();
    let codes = [
        format!(
            "import os, time\nprint('first')\nwhile not os.path.exists({path:?}):\n    \
                 time.sleep(0.01)\nprint('second')"
        ),
        format!(
            "console.log('first'); while (true) {{ try {{ Deno.statSync({path:?}); break }} \
                 catch {{ await new Promise((done) => setTimeout(done, 10)) }} }}\n\
                 console.log('second')"
        ),
    ];
    for (kernel, code) in KERNELS.iter().zip(codes) {
        let _kernel = home.start(kernel, kernel);
        let mut cell = home.begin(kernel, "60", &code);
        cell.wait_for(
            |piece| matches!(piece, CellPiece::Text { text, .. } if text.starts_with("first")),
        );
        std::fs::write(&go, "").unwrap();
        let given = cell.finish();
        assert_eq!(given.stdout().trim_start(), "second\n");
        assert!(matches!(given.end(), CellEnd::Finished { .. }));
        std::fs::remove_file(&go).unwrap();
    }
}

#[test]
fn a_hundred_cells() {
    let home = Home::new();
    let _kernels = KERNELS.map(|kernel| home.start(kernel, kernel));
    home.cell("python3", "total = 0");
    home.cell("deno", "let total = 0");
    for n in 1..=100_u32 {
        for (kernel, print) in [("python3", "print"), ("deno", "console.log")] {
            let given = home.cell(kernel, &format!("total += {n}; {print}(total)"));
            assert_eq!(given.stdout(), format!("{}\n", n * (n + 1) / 2));
            assert_eq!(given.end(), &CellEnd::Finished { count: n + 1 });
        }
    }
}

#[test]
fn kernels_run_beside_each_other_and_know_nothing_of_each_other() {
    let home = Home::new();
    let names = [("python3", "a"), ("python3", "b"), ("deno", "c"), ("deno", "d")];
    let _kernels = names.map(|(spec, name)| home.start(spec, name));
    // Each waits until all have begun: one after the other they would wait for ever.
    let directory = home.path("begun");
    std::fs::create_dir(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let cells = names.map(|(spec, name)| {
        let code = match spec {
            "python3" => format!(
                "import os, time\nme = '{name}'\nopen({path:?} + '/' + me, 'w').close()\n\
                 while len(os.listdir({path:?})) < 4: time.sleep(0.01)\nprint(me)"
            ),
            _ => format!(
                "const me = '{name}'; Deno.writeTextFileSync({path:?} + '/' + me, '');\n\
                 while ([...Deno.readDirSync({path:?})].length < 4) \
                 await new Promise((done) => setTimeout(done, 10));\nconsole.log(me)"
            ),
        };
        home.begin(name, "60", &code)
    });
    for (cell, (_, name)) in cells.into_iter().zip(names) {
        assert_eq!(cell.finish().stdout(), format!("{name}\n"));
    }
    for (_, name) in names {
        let given = home.cell(name, "me");
        assert_eq!(given.result().trim_matches(['"', '\'']), name);
    }
}

#[test]
fn cells_of_one_kernel_wait_for_each_other() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    home.cell("main", "import time\norder = []");
    let cells: Vec<_> = (0..6)
        .map(|n| {
            let code =
                format!("order.append({n}); time.sleep(0.05); order.append({n}); print({n})");
            home.begin("main", "60", &code)
        })
        .collect();
    for (n, cell) in cells.into_iter().enumerate() {
        assert_eq!(cell.finish().stdout(), format!("{n}\n"));
    }
    let given = home.cell("main", "order[::2] == order[1::2], sorted(order[::2])");
    assert_eq!(given.result(), "(True, [0, 1, 2, 3, 4, 5])");

    // One that would have to wait too long is not run.
    let mut busy = home.begin("main", "60", "print('busy', flush=True)\ntime.sleep(1)");
    busy.wait_for(|piece| matches!(piece, CellPiece::Text { .. }));
    let given = home.begin("main", "0.2", "order.clear()").finish();
    let CellEnd::Broken { why } = given.end() else { panic!("{given:?}") };
    assert!(why.contains("was not run"), "{why}");
    busy.finish();
    assert_eq!(home.cell("main", "len(order)").result(), "12");
}

#[test]
fn ten_megabytes_arrive_whole() {
    let home = Home::new();
    let codes = [
        "for n in range(100_000): print(f'{n:06}', 'x' * 92)",
        "for (let n = 0; n < 100_000; n++) \
         console.log(String(n).padStart(6, '0') + ' ' + 'x'.repeat(92))",
    ];
    let filler = "x".repeat(92);
    let expected: String = (0..100_000).map(|n| format!("{n:06} {filler}\n")).collect();
    for (kernel, code) in KERNELS.iter().zip(codes) {
        let _kernel = home.start(kernel, kernel);
        let given = home.begin(kernel, "110", code).finish();
        assert!(matches!(given.end(), CellEnd::Finished { .. }), "{:?}", given.pieces.last());
        assert_eq!(given.dropped(), 0, "{kernel}");
        let stdout = given.stdout();
        assert_eq!(stdout.len(), expected.len(), "{kernel}");
        assert!(stdout == expected, "{kernel}");
    }

    let _kernel = home.start("python3", "one");
    let given = home.cell("one", "print('y' * 10_000_000)\n'z' * 10_000_000");
    assert_eq!(given.stdout().len(), 10_000_001);
    assert_eq!(given.result().len(), 10_000_002);
}

#[test]
fn a_flood_is_cut_and_counted_and_takes_no_more_memory() {
    let home = Home::new();
    let codes = ["while True: print('x' * 10_000)", "while (true) console.log('x'.repeat(10_000))"];
    for (kernel, code) in KERNELS.iter().zip(codes) {
        let _kernel = home.start(kernel, kernel);
        let args = ["--name", kernel, "--seconds", "2", "--limit", "1000000"];
        let given = home.begin_with(&args, code).finish();
        assert_eq!(given.end(), &CellEnd::Interrupted(Because::TimeUp), "{kernel}");
        assert!(given.stdout().len() <= 1_000_000);
        assert!(given.dropped() > 0);
        assert!(given.took < Duration::from_secs(20), "{:?}", given.took);
        let given = home.begin(kernel, "100", "1 + 1").finish();
        assert_eq!(given.result(), "2", "nothing of the flood: {:?}", given.stdout().len());
        assert_eq!(given.stdout(), "");
    }
}

/// Nobody reads: the cell holds a part of it, and leaves out the rest.
#[test]
fn a_flood_that_nobody_reads_neither_grows_nor_stops_the_cell() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let path = home.path("printed");
    let code = format!(
        "for n in range(2_000): print('x' * 50_000)\nopen({:?}, 'w').close()",
        path.to_str().unwrap()
    );
    let args = ["--name", "main", "--seconds", "100", "--limit", "1000000000"];
    let cell = home.begin_with(&args, &code);
    crate::aide::wait_until("all is printed", || path.exists());
    assert!(cell.peak() < 150 << 20, "{} MiB", cell.peak() >> 20);
    let given = cell.finish();
    assert!(matches!(given.end(), CellEnd::Finished { .. }), "{:?}", given.end());
    // Of what is left out before it is taken apart, the size is that on the wire.
    let (all, known) = (2_000 * 50_001, given.stdout().len() as u64 + given.dropped());
    assert!((all..all + all / 1_000).contains(&known), "{known}");
}
