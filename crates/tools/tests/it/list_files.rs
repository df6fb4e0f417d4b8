//! `list_files`.

use serde_json::json;

use crate::lab::in_lab;

#[test]
fn a_directory_is_a_tree_without_what_is_ignored() {
    in_lab(async |lab| {
        assert_eq!(lab.call("list_files", json!({})).await.done(), ". is empty");
        lab.sh(
            "mkdir -p src/deep/er build hollow; echo 12345 > src/deep/er/x; echo 1 > src/main.rs; \
                echo a > README; echo b > build/out; echo build > .gitignore; ln -s README link",
        )
        .await;
        assert_eq!(
            lab.call("list_files", json!({})).await.done(),
            ".gitignore  6 B\nREADME  2 B\nbuild/  (empty or ignored)\nhollow/  (empty or ignored)\n\
             link  -> README\nsrc/  2 files, 8 B\n  deep/  1 file, 6 B\n  main.rs  2 B\n"
        );
        assert_eq!(
            lab.call("list_files", json!({"path": "/workspace/src", "depth": 3})).await.done(),
            "deep/  1 file, 6 B\n  er/  1 file, 6 B\n    x  6 B\nmain.rs  2 B\n"
        );
    });
}

#[test]
fn a_pattern_lists_files() {
    in_lab(async |lab| {
        lab.sh("mkdir -p a/b; echo 1 > a/b/x.py; echo 1 > y.py; echo 1 > z.rs").await;
        let list = async |pattern: &str| lab.call("list_files", json!({"pattern": pattern})).await;
        assert_eq!(list("*.py").await.done(), "a/b/x.py  2 B\ny.py  2 B\n");
        assert_eq!(list("a/**").await.done(), "a/b/x.py  2 B\n");
        assert!(list("*.go").await.done().starts_with("no file in . matches *.go"));
        assert!(list("[").await.failed().contains("invalid pattern"));
    });
}

#[test]
fn a_long_list_says_how_much_more_there_is() {
    in_lab(async |lab| {
        lab.sh("mkdir many; cd many; for i in $(seq 1000); do : > f$i; done").await;
        let answer = lab.call("list_files", json!({"path": "many"})).await;
        assert!(answer.done().contains("… and 800 more"), "{}", answer.text);
        let answer = lab.call("list_files", json!({"pattern": "f*"})).await;
        assert!(answer.done().contains("… and 800 files"), "{}", answer.text);
    });
}

#[test]
fn what_is_no_directory_is_told() {
    in_lab(async |lab| {
        lab.sh("echo x > file; ln -s / root").await;
        for (path, reason) in [
            ("file", "is a file; read_file"),
            ("fle", "Did you mean file?"),
            ("root", "leads out of the workspace"),
            ("..", "leads out of the workspace"),
            ("/etc", "leads out of the workspace"),
        ] {
            let answer = lab.call("list_files", json!({ "path": path })).await;
            assert!(answer.failed().contains(reason), "{path}: {}", answer.text);
        }
    });
}
