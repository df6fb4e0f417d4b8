//! `search_files`, also through very many files.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::lab::{in_lab, in_lab_over};

#[test]
fn lines_are_found_and_grouped_by_file() {
    in_lab(async |lab| {
        lab.put("a.rs", "fn one() {}\nlet x;\nfn two() {}\n").await;
        lab.put("b/c.rs", "FN three\n").await;
        lab.put("ignored/d.rs", "fn four\n").await;
        lab.put("e.txt", "fn five (a.b)\n").await;
        lab.put(".gitignore", "ignored\n").await;
        lab.put("binary", b"fn \0 six").await;
        let search = async |arguments| lab.call("search_files", arguments).await;
        assert_eq!(
            search(json!({"pattern": "^fn \\w+"})).await.done(),
            "a.rs\n     1: fn one() {}\n     3: fn two() {}\n\ne.txt\n     1: fn five (a.b)\n"
        );
        let answer =
            search(json!({"pattern": "fn", "glob": "*.rs", "path": "b", "ignore_case": true}))
                .await;
        assert_eq!(answer.done(), "b/c.rs\n     1: FN three\n");
        assert_eq!(
            search(json!({"pattern": "(a.b)", "literal": true})).await.done(),
            "e.txt\n     1: fn five (a.b)\n"
        );
        assert_eq!(
            search(json!({"pattern": "let", "context": 1, "path": "a.rs"})).await.done(),
            "a.rs\n     1- fn one() {}\n     2: let x;\n     3- fn two() {}\n"
        );
        assert!(
            search(json!({"pattern": "seven"}))
                .await
                .done()
                .starts_with("nothing in . matches seven")
        );
        assert!(search(json!({"pattern": "("})).await.failed().contains("set `literal`"));
        assert!(search(json!({"pattern": ""})).await.refused().contains("empty"));
        assert!(
            search(json!({"pattern": "x", "path": "/etc"})).await.failed().contains("leads out")
        );
        assert!(
            search(json!({"pattern": "x", "path": "a.r"}))
                .await
                .failed()
                .contains("Did you mean a.rs?")
        );
    });
}

#[test]
fn many_matches_and_long_lines_are_cut() {
    in_lab(async |lab| {
        lab.sh("for i in $(seq 1000); do echo match $i; done > many; \
                (printf match; head -c 100000 /dev/zero | tr '\\0' x) > long")
            .await;
        let answer = lab.call("search_files", json!({"pattern": "match", "path": "many"})).await;
        assert!(answer.done().contains("[the first 200 matches; narrow the search for more]"));
        let answer = lab.call("search_files", json!({"pattern": "match", "path": "long"})).await;
        assert!(answer.done().len() < 500, "{}", answer.text.len());
    });
}

#[test]
fn a_hundred_thousand_files_are_searched_quickly() {
    // In memory, where that can be had: making the files takes longest.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for outer in 0..1_000 {
        let place = directory.path().join(format!("d{outer}"));
        std::fs::create_dir(&place).unwrap();
        for inner in 0..100 {
            std::fs::write(
                place.join(format!("f{inner}.txt")),
                format!("content {outer} {inner}\n"),
            )
            .unwrap();
        }
    }
    in_lab_over(directory.path().to_owned(), async |lab| {
        let began = Instant::now();
        let answer = lab.call("search_files", json!({"pattern": "content 999 99$"})).await;
        let searched = began.elapsed();
        assert_eq!(answer.done(), "d999/f99.txt\n     1: content 999 99\n");
        let began = Instant::now();
        let answer = lab.call("list_files", json!({"depth": 1})).await;
        let listed = began.elapsed();
        assert!(answer.done().contains("d0/  100 files"), "{}", answer.text);
        println!("searched in {searched:?}, listed in {listed:?}");
        assert!(searched + listed < Duration::from_secs(30), "{searched:?} {listed:?}");
    });
}
