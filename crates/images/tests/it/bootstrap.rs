//! Images made by mmdebstrap, for real.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cofferdam_testkit::AgentImage;

/// Every file below a directory, without following links.
fn each(root: &Path, look: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let about = path.symlink_metadata().unwrap();
        if about.is_dir() {
            left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
        look(&path, &about);
    }
}

#[test]
fn the_agent_image_has_what_agents_need_and_nothing_of_the_machine_that_made_it() {
    let agent = AgentImage::for_tests().unwrap();
    let root = &agent.image.root;
    for program in [
        "usr/bin/python3",
        "usr/bin/python",
        "usr/bin/node",
        "usr/bin/git",
        "usr/bin/cc",
        "usr/bin/Xvnc",
        "usr/bin/Xvfb",
        "usr/bin/openbox",
        "usr/bin/xdotool",
        "usr/bin/xterm",
        "usr/bin/chromium",
        "usr/bin/ffmpeg",
        "usr/local/bin/deno",
        "usr/local/bin/npm",
        "usr/local/bin/jupyter-lab",
        "usr/local/share/jupyter/kernels/python3/kernel.json",
    ] {
        assert!(root.join(program).symlink_metadata().is_ok(), "{program}");
    }
    let (mut odd, mut files, mut locks) = (Vec::<PathBuf>::new(), 0, 0);
    each(root, &mut |path, about| {
        let kind = about.file_type();
        let device = kind.is_block_device() || kind.is_char_device() || kind.is_socket();
        let others = about.uid() == 62541 || about.gid() == 62541;
        let set_id = !about.is_symlink() && about.permissions().mode() & 0o6000 != 0;
        let lock = path.file_name().is_some_and(|name| name == ".package-lock.json")
            && path.starts_with(root.join("usr/local/lib/cofferdam"));
        if lock {
            let text = fs::read_to_string(path).unwrap();
            assert!(!text.contains("\"resolved\""), "{}", path.display());
            locks += 1;
        }
        if device || others || set_id {
            odd.push(path.to_owned());
        }
        files += 1;
    });
    assert!(odd.is_empty(), "{odd:?}");
    assert!(files > 10_000 && locks > 0, "{files} {locks}");
    for name in ["etc/resolv.conf", "etc/hostname", "etc/machine-id"] {
        assert_eq!(fs::read(root.join(name)).unwrap(), b"", "{name}");
    }
    for name in ["etc/apt/sources.list.d", "var/lib/apt/lists", "tmp", "dev", "var/log", "root"] {
        let left: Vec<_> = root.join(name).read_dir().unwrap().map(|e| e.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(!root.join("etc/apt/sources.list").exists());
    assert!(!root.join("etc/apt/apt.conf.d/99mmdebstrap").exists());
    // Nothing but the image stays.
    let place = root.ancestors().nth(2).unwrap();
    assert!(!place.join(".staging").exists());
    assert!(agent.image.bytes > 500 << 20 && agent.image.bytes < 4 << 30, "{}", agent.image.bytes);
}
