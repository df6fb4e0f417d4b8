//! Patches of real workspaces, applied by git.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use cofferdam_bundle::{PatchSummary, patch_to};

use crate::lab::{Lab, block_on};

type Tree = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// Files and links, with what git keeps of their modes.
fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if about.is_dir() {
                directories.push(path);
            } else if about.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                tree.insert(name, (0o120_000, target.as_os_str().as_bytes().to_vec()));
            } else if about.is_file() {
                let mode = 0o100_644 | about.permissions().mode() & 0o111;
                tree.insert(name, (mode, fs::read(&path).unwrap()));
            }
        }
    }
    tree
}

/// What a script changes in the project as a patch, and the project after git
/// has applied it to a copy and after the sandbox has written it back.
fn change(lab: &Lab, script: &str) -> (PatchSummary, String, Tree, Tree) {
    let copy = lab.path("copy");
    let run = |program: &str, arguments: &[&str], directory: &Path| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory);
        command.env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("cp", &["-a", "project", "copy"], copy.parent().unwrap());
    let mut out = Vec::new();
    let summary = block_on(async {
        let (before, after) = (lab.view().await, lab.open().await);
        let result = after.run(after.next_call_id(), after.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{}", String::from_utf8_lossy(&result.stderr));
        let summary = patch_to(&before.files(), &after.files(), &mut out).await.unwrap();
        before.close().await.unwrap();
        after.close().await.unwrap();
        summary
    });
    assert_eq!(summary.patch_bytes, out.len() as u64);
    let patch = lab.path("patch");
    fs::write(&patch, &out).unwrap();
    if summary.added + summary.modified + summary.deleted > 0 {
        let patch = patch.to_str().unwrap();
        run("git", &["apply", "--binary", "--whitespace=nowarn", patch], &copy);
    }
    let text = String::from_utf8_lossy(&out).into_owned();
    (summary, text, tree(&copy), tree(&lab.path("project")))
}

#[test]
fn what_a_job_did_is_done_again_by_git() {
    let lab = Lab::new();
    lab.put("src/main.rs", "fn main() {\n    old();\n}\n");
    lab.put("same", "same");
    lab.put("touched", "touched");
    lab.put("gone", "gone\n");
    lab.put("dir/to/gone", "gone too");
    lab.put("program", "#!/bin/sh\n");
    lab.put("binary", [0, 1, 2, 255]);
    lab.put("was-directory/x", "x");
    lab.put("was-file", "x");
    symlink("same", lab.place("link")).unwrap();
    symlink("dir", lab.place("was-link")).unwrap();
    let (summary, text, applied, written) = change(
        &lab,
        r"sed -i s/old/new/ src/main.rs; touch touched; rm -r gone dir; chmod +x program
          printf '\000\001\003' > binary; rm -r was-directory was-file was-link
          echo now > was-directory; mkdir was-file was-link; echo y > was-file/y; echo z > was-link/z
          ln -sfn touched link; ln -s ../same src/up; : > empty; printf 'no end' > 'with space'
          printf x > 'naïve'; printf x > $(printf 'a\nb'); head -c 100000 /dev/urandom > noise
          printf '\377' > $(printf '\377')",
    );
    assert_eq!(applied, written);
    assert!(written.contains_key(b"a\nb".as_slice()) && written.contains_key(b"\xff".as_slice()));
    assert!(text.contains("-    old();\n+    new();\n"), "{text}");
    assert!(text.contains("diff --git \"a/na\\303\\257ve\" \"b/na\\303\\257ve\"\n"));
    assert!(!text.contains("touched b/touched"), "{text}");
    assert!(summary.compared_all && summary.left_out == 0, "{summary:?}");
    // `was-file` and `was-link` are gone as such, and so is what was in directories.
    assert_eq!((summary.deleted, summary.modified), (5, 4));
}

#[test]
fn what_cannot_be_in_a_patch_is_named_at_its_top() {
    let lab = Lab::new();
    lab.put("file", "1\n");
    let (summary, text, applied, written) = change(
        &lab,
        r#"echo 2 > file; head -c 9000000 /dev/zero > large; ln -s /etc/passwd out
           ln -s ../../x up; mkfifo pipe; mkdir .GIT; echo x > .GIT/config
           mkdir 'git~1'; echo x > 'git~1/y'; echo x > "$(printf 'evil\ndiff --git a')"
           ln -s /x "$(printf 'evil\n--- file')""#,
    );
    let top: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
    let expected = [
        "\".GIT/config\": git takes its name for its own directory",
        "\"evil\\n--- file\": a link to an absolute path",
        "\"git~1/y\": git takes its name for its own directory",
        "\"large\": it is larger than 8 MiB",
        "\"out\": a link to an absolute path",
        "\"pipe\": it is no file and no link",
        "\"up\": a link that leads out of the workspace",
    ]
    .map(|words| format!("# not in this patch: {words}"));
    assert_eq!(top, expected);
    assert_eq!((summary.left_out, summary.modified), (7, 1));
    assert_eq!(applied[b"file".as_slice()].1, b"2\n");
    assert_eq!(written[b"file".as_slice()].1, b"2\n");
}

#[test]
fn what_is_ignored_is_no_change_and_rules_that_change_delete_nothing() {
    let lab = Lab::new();
    lab.put(".gitignore", "*.log\n");
    lab.put("a.log", "1\n");
    lab.put("later-ignored", "1\n");
    lab.put("later-ignored-and-changed", "1\n");
    symlink("a.log", lab.place("ignored-link")).unwrap();
    let (summary, text, applied, _) = change(
        &lab,
        "echo 2 > a.log; echo x > b.log; echo 2 > later-ignored-and-changed
         printf 'later-*\\nignored-link\\n' >> .gitignore; ln -sfn x ignored-link",
    );
    assert!(!text.contains("b.log") && !text.contains("later-ignored b"), "{text}");
    assert_eq!((summary.modified, summary.added, summary.deleted), (3, 0, 0), "{text}");
    assert_eq!(applied[b"later-ignored-and-changed".as_slice()].1, b"2\n");
    assert_eq!(applied[b"a.log".as_slice()].1, b"1\n");
    assert_eq!(applied[b"ignored-link".as_slice()].1, b"x");
}

#[test]
fn no_change_is_an_empty_patch() {
    let lab = Lab::new();
    lab.put("file", "1\n");
    let (summary, text, ..) = change(&lab, "touch file");
    assert_eq!((text.as_str(), summary.patch_bytes), ("", 0));
}
