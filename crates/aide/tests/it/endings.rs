//! How cells end that do not end by themselves.

use std::time::Duration;

use cofferdam_aide_protocol::{Because, CellEnd, CellPiece};
use rustix::process::{Pid, Signal, kill_process};

use crate::aide::{Home, is_alive, wait_until};

/// A language: its kernel, and how things are said in it.
struct Language {
    kernel: &'static str,
    keep: &'static str,
    recall: &'static str,
    /// Prints `begun`, then never ends.
    endless: &'static str,
    /// As that, and does not heed interrupts.
    deaf: &'static str,
}

const LANGUAGES: [Language; 2] = [
    Language {
        kernel: "python3",
        keep: "kept = 5",
        recall: "kept",
        endless: "print('begun', flush=True)\nwhile True: pass",
        deaf: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
               print('begun', flush=True)\nwhile True: pass",
    },
    Language {
        kernel: "deno",
        keep: "const kept = 5",
        recall: "kept",
        endless: "console.log('begun'); while (true) {}",
        deaf: "console.log('begun'); await new Promise(() => {})",
    },
];

fn is_begun(piece: &CellPiece) -> bool {
    matches!(piece, CellPiece::Text { text, .. } if text.starts_with("begun"))
}

#[test]
fn an_endless_loop_is_interrupted_when_its_time_is_up_and_state_is_kept() {
    for language in LANGUAGES {
        let home = Home::new();
        let _kernel = home.start(language.kernel, "main");
        home.cell("main", language.keep);
        let given = home.begin("main", "1", language.endless).finish();
        assert_eq!(given.end(), &CellEnd::Interrupted(Because::TimeUp), "{given:?}");
        assert_eq!(given.stdout(), "begun\n");
        assert!(given.took < Duration::from_secs(10), "{:?}", given.took);
        assert_eq!(home.cell("main", language.recall).result(), "5");
    }
}

#[test]
fn a_signal_to_the_cell_interrupts_it() {
    for (language, signal) in LANGUAGES.iter().zip([Signal::TERM, Signal::INT]) {
        let home = Home::new();
        let _kernel = home.start(language.kernel, "main");
        home.cell("main", language.keep);
        let mut cell = home.begin("main", "600", language.endless);
        cell.wait_for(is_begun);
        kill_process(cell.pid(), signal).unwrap();
        assert_eq!(cell.finish().end(), &CellEnd::Interrupted(Because::Asked));
        assert_eq!(home.cell("main", language.recall).result(), "5");
    }
}

#[test]
fn code_that_heeds_no_interrupt_loses_its_kernel_and_the_next_use_has_a_new_one() {
    for language in LANGUAGES {
        let home = Home::new();
        let kernel = home.start(language.kernel, "main");
        home.cell("main", language.keep);
        let old = home.kernel_of("main");
        let args = ["--name", "main", "--seconds", "1", "--grace", "1"];
        let given = home.begin_with(&args, language.deaf).finish();
        assert_eq!(given.end(), &CellEnd::Killed(Because::TimeUp), "{given:?}");
        assert!(!is_alive(old));
        assert!(kernel.ended().contains("signal 9"));

        let without = home.cell("main", language.recall);
        let CellEnd::NoKernel { why } = without.end() else { panic!("{without:?}") };
        assert!(why.contains("did not heed an interrupt"), "{why}");
        let _kernel = home.start(language.kernel, "main");
        let given = home.cell("main", language.recall);
        assert!(matches!(given.error().0, "NameError" | "ReferenceError"), "{given:?}");
    }
}

#[test]
fn a_kernel_that_is_killed_in_the_middle_of_a_cell_is_reported() {
    for language in LANGUAGES {
        let home = Home::new();
        let kernel = home.start(language.kernel, "main");
        let mut cell = home.begin("main", "600", language.endless);
        cell.wait_for(is_begun);
        kill_process(Pid::from_raw(home.kernel_of("main")).unwrap(), Signal::KILL).unwrap();
        let given = cell.finish();
        let CellEnd::Died { how } = given.end() else { panic!("{given:?}") };
        assert!(how.contains("signal 9"), "{how}");
        assert!(kernel.ended().contains("signal 9"));
        let _kernel = home.start(language.kernel, "main");
        home.cell("main", language.keep);
        assert_eq!(home.cell("main", language.recall).result(), "5");
    }
}

#[test]
fn a_kernel_that_ends_by_itself_is_reported() {
    let home = Home::new();
    let _python = home.start("python3", "python");
    let given = home.cell("python", "import os; os._exit(3)");
    let CellEnd::Died { how } = given.end() else { panic!("{given:?}") };
    assert!(how.contains("exited with 3"), "{how}");
    let _deno = home.start("deno", "deno");
    let given = home.cell("deno", "Deno.exit(3)");
    assert!(matches!(given.end(), CellEnd::Died { .. }), "{given:?}");
}

#[test]
fn programs_of_an_interrupted_cell_are_interrupted_too() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let code = "import subprocess\nprogram = subprocess.Popen(['sleep', '600'])\n\
                print(program.pid, flush=True)\nprogram.wait()";
    let mut cell = home.begin("main", "600", code);
    let Some(CellPiece::Text { text, .. }) = cell.next() else { panic!("no number") };
    kill_process(cell.pid(), Signal::TERM).unwrap();
    assert_eq!(cell.finish().end(), &CellEnd::Interrupted(Because::Asked));
    // How it ended may be lost to Python when the interrupt falls into its waiting.
    let given = home.cell("main", "program.wait()");
    assert!(matches!(given.end(), CellEnd::Finished { .. }), "{given:?}");
    assert!(!is_alive(text.trim().parse().unwrap()));
}

/// When the cell's own process is killed, its code runs on.
#[test]
fn code_that_was_cut_off_and_heeds_no_interrupt_loses_its_kernel() {
    for language in LANGUAGES {
        let home = Home::new();
        let kernel = home.start(language.kernel, "main");
        let mut cell = home.begin("main", "600", language.deaf);
        cell.wait_for(is_begun);
        drop(cell);
        let given = home.cell("main", "1");
        let CellEnd::NoKernel { why } = given.end() else { panic!("{given:?}") };
        assert!(why.contains("code of an earlier cell"), "{why}");
        kernel.ended();
    }
}

#[test]
fn a_cell_that_was_cut_off_does_not_disturb_the_next() {
    for language in LANGUAGES {
        let home = Home::new();
        let _kernel = home.start(language.kernel, "main");
        home.cell("main", language.keep);
        let mut cell = home.begin("main", "600", language.endless);
        cell.wait_for(is_begun);
        drop(cell);
        let given = home.cell("main", language.recall);
        assert_eq!(given.result(), "5");
        assert_eq!(given.stdout(), "", "nothing of the other cell");
    }
}

#[test]
fn a_kernel_ends_with_what_it_started_when_its_keeper_is_asked() {
    let home = Home::new();
    let kernel = home.start("python3", "main");
    let code = "import subprocess\nsubprocess.Popen(['sleep', '600']).pid";
    let program: i32 = home.cell("main", code).result().parse().unwrap();
    assert!(is_alive(program));
    let pid = home.kernel_of("main");
    kill_process(kernel.pid(), Signal::TERM).unwrap();
    assert_eq!(kernel.ended(), "it was asked to end");
    wait_until("the kernel is gone", || !is_alive(pid));
    wait_until("its program is gone", || !is_alive(program));
}
