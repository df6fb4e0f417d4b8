//! `bash` where there is no `bash`: a plain shell does most of it.

use std::path::Path;

use cofferdam_sandbox::{Root, Spec};
use serde_json::json;

use crate::lab::in_lab_with;

#[test]
fn a_plain_shell_keeps_directory_and_variables_too() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path();
    for place in ["etc", "workspace", "usr/bin", "usr/lib", "usr/lib64"] {
        std::fs::create_dir_all(image.join(place)).unwrap();
    }
    std::fs::write(image.join("etc/passwd"), "somebody:x:0:0::/:/bin/sh\n").unwrap();
    for (link, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        std::os::unix::fs::symlink(target, image.join(link)).unwrap();
    }
    for program in ["dash", "mkdir", "sleep"] {
        copy_program(image, program);
    }
    std::os::unix::fs::symlink("dash", image.join("usr/bin/sh")).unwrap();
    let spec = Spec {
        root: Root::Image { directory: image.to_owned(), readable: Vec::new() },
        ..Spec::scratch()
    };
    in_lab_with(spec, async |lab| {
        let answer =
            lab.bash("mkdir 'a b'; cd 'a b'; export V=\"it's\n$((1+1)) lines\"; unset LANG").await;
        assert_eq!(answer.done(), "exit code: 0");
        assert_eq!(
            lab.bash("pwd; echo \"$V\"; echo \"[$LANG]\"; false").await.failed(),
            "/workspace/a b\nit's\n2 lines\n[]\nexit code: 1"
        );
        assert_eq!(lab.bash("cd /; exit 3").await.failed(), "exit code: 3");
        assert_eq!(lab.bash("pwd").await.done(), "/workspace/a b\nexit code: 0");
        let answer =
            lab.call("bash", json!({"command": "echo up; sleep 600", "background": true})).await;
        assert_eq!(answer.done(), "up\np1 has started and is running");
        let stopped = lab.call("bash", json!({"process": "p1", "stop": true})).await;
        assert!(stopped.done().contains("p1 has ended"), "{}", stopped.text);
    });
}

/// Copies a program and the libraries it needs.
#[expect(clippy::disallowed_methods, reason = "asks which libraries a program needs")]
fn copy_program(image: &Path, name: &str) {
    let program = format!("/usr/bin/{name}");
    std::fs::copy(&program, image.join(program.trim_start_matches('/'))).unwrap();
    let output = std::process::Command::new("ldd").arg(&program).output().unwrap();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let path = line.split_ascii_whitespace().find(|word| word.starts_with('/'));
        if let Some(path) = path {
            let place = image.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::copy(std::fs::canonicalize(path).unwrap(), place).unwrap();
        }
    }
}
