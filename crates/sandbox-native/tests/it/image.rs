//! Images as roots: what is in one is shown, nothing of the host's besides, and nothing in one
//! leads out of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_sandbox::{Root, Sandbox, Spec};

use crate::home::{Home, block_on};
use crate::ordinary_user;

/// An image with these programs of this machine.
fn image(home: &Home, programs: &[&str]) -> PathBuf {
    let image = home.directory("image");
    for directory in ["etc", "usr/bin", "usr/lib", "usr/lib64"] {
        fs::create_dir_all(image.join(directory)).unwrap();
    }
    for (link, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        symlink(target, image.join(link)).unwrap();
    }
    programs.iter().for_each(|name| copy_program(&image, name));
    image
}

/// Copies a program and the libraries it needs.
fn copy_program(image: &Path, name: &str) {
    let program = format!("/usr/bin/{name}");
    fs::copy(&program, image.join(program.trim_start_matches('/'))).unwrap();
    let output = Command::new("ldd").arg(&program).output().unwrap();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let path = line.split_ascii_whitespace().find(|word| word.starts_with('/'));
        if let Some(path) = path {
            let place = image.join(path.trim_start_matches('/'));
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::copy(fs::canonicalize(path).unwrap(), place).unwrap();
        }
    }
}

/// What a script prints in a sandbox made of an image.
async fn prints(home: &Home, image: &Path, readable: &[PathBuf], script: &str) -> String {
    let root = Root::Image { directory: image.to_owned(), readable: readable.to_vec() };
    let spec = Spec { root, ..Spec::scratch() };
    let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
    let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    sandbox.close().await.unwrap();
    home.assert_empty();
    String::from_utf8(result.stdout.to_vec()).unwrap()
}

#[test]
fn an_image_directory_is_the_root() {
    block_on(async {
        let home = Home::new();
        let image = image(&home, &["sh", "cat", "id"]);
        for directory in ["workspace", "opt", "var/lib/dpkg", "var/tmp"] {
            fs::create_dir_all(image.join(directory)).unwrap();
        }
        fs::write(image.join("opt/only-here"), "image\n").unwrap();
        fs::write(image.join("etc/passwd"), "somebody:x:0:0::/:/bin/sh\n").unwrap();
        fs::write(image.join("var/lib/beside"), "beside\n").unwrap();
        // Directories of the host are shown between those that the image has, where it has
        // nothing and where it has a file. Essential packages of Debian have made these.
        fs::write(image.join("usr/share"), "gives way\n").unwrap();
        let seen = ["/usr/share/base-files", "/var/lib/dpkg"].map(PathBuf::from);
        for readable in [&[][..], &seen] {
            let script = "cat /opt/only-here; id -un; echo x > /opt/x || echo refused; \
                          cat /var/lib/beside; echo x > /var/tmp/x && cat /tmp/x";
            let printed = prints(&home, &image, readable, script).await;
            assert_eq!(printed, "image\nagent\nrefused\nbeside\nx\n", "beside {readable:?}");
        }
        let script = "test -f /usr/share/base-files/profile && test -f /var/lib/dpkg/status \
                      && echo seen; echo x > /var/lib/dpkg/x || echo refused";
        assert_eq!(prints(&home, &image, &seen, script).await, "seen\nrefused\n");
    });
}

/// An image is anybody's. While a room is made of it, its links are met by a process that
/// may do more than what will run in there.
#[test]
fn nothing_in_an_image_leads_out_of_it() {
    block_on(async {
        let home = Home::new();
        let image = image(&home, &["sh", "cat", "find", "ls"]);
        let canary = home.directory("host").join("canary-of-the-host");
        fs::write(&canary, "of the host\n").unwrap();
        // What the room's own parts are called.
        let vault = image.join(".cofferdam");
        fs::create_dir(&vault).unwrap();
        for (name, target) in [
            ("base", Path::new("/")),
            ("empty", Path::new("/")),
            ("s0", Path::new("/")),
            ("group", &canary),
            ("hostname", &canary),
            ("hosts", &canary),
            ("passwd", &canary),
        ] {
            symlink(target, vault.join(name)).unwrap();
        }
        // What the sandbox shows in place of the image's.
        for name in ["group", "passwd"] {
            symlink(&canary, image.join("etc").join(name)).unwrap();
        }
        for name in ["hostname", "hosts"] {
            fs::write(image.join("etc").join(name), "the image's\n").unwrap();
        }
        for (name, target) in [("home", "/"), ("host", "/"), ("sys", "/"), ("var", "/")] {
            symlink(target, image.join(name)).unwrap();
        }
        let readable = [home.directory("seen")];
        for readable in [&[][..], &readable] {
            let script = "cat /etc/hostname; find / -name canary-of-the-host 2>/dev/null; \
                          ls /.cofferdam /proc/acpi /proc/asound /proc/scsi 2>/dev/null | cat; \
                          echo x > /home/agent/x && cat /home/agent/x";
            let printed = prints(&home, &image, readable, script).await;
            let shown = printed.lines().filter(|line| !line.starts_with("/proc/"));
            let shown: Vec<&str> = shown.filter(|line| !line.is_empty()).collect();
            assert_eq!(shown, ["cofferdam", "x"], "{printed}");
            assert_eq!(fs::read_to_string(&canary).unwrap(), "of the host\n");
        }
    });
}

/// The host's files below a directory that the sandbox has of its own.
#[test]
fn what_is_to_be_read_below_a_temporary_directory_is_shown_there() {
    block_on(async {
        let home = Home::new();
        let below = tempfile::Builder::new().prefix("cofferdam-").tempdir_in("/var/tmp").unwrap();
        fs::write(below.path().join("file"), "below\n").unwrap();
        let name = below.path().file_name().unwrap();
        let root = Root::Host { readable: vec![below.path().to_owned()] };
        let spec = Spec { root, ..Spec::scratch() };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        let script = format!("cat {}/file", below.path().display());
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert_eq!(&result.stdout[..], b"below\n");
        assert!(!Path::new("/tmp").join(name).exists(), "it was made on the host");
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn images_are_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "image::an_image_directory_is_the_root",
        "image::nothing_in_an_image_leads_out_of_it",
    ]);
}
