//! What an archive takes in memory does not depend on what is in the files.

use std::fs;

use cofferdam_bundle::zip_to;

use crate::lab::{Lab, about, block_on, read};

/// The most memory that this process has had since it was last told to forget,
/// in bytes.
pub(crate) fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

pub(crate) fn forget_most_memory() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[test]
fn a_large_file_takes_no_memory() {
    let lab = Lab::new();
    lab.put("small", "small");
    let file = fs::File::create(lab.place("large")).unwrap();
    file.set_len(300 << 20).unwrap();
    block_on(async {
        let sandbox = lab.open().await;
        let mut out = Vec::new();
        forget_most_memory();
        let before = most_memory();
        let summary = zip_to(&sandbox.files(), about(), &mut out).await.unwrap();
        let grown = most_memory() - before;
        sandbox.close().await.unwrap();
        assert_eq!(summary.content_bytes, (300 << 20) + 5);
        assert!(out.len() < 1 << 20, "{} bytes", out.len());
        eprintln!("{} KiB more for 300 MiB", grown >> 10);
        // Other tests run beside it.
        assert!(grown < 64 << 20, "{grown} bytes more");
        let path = lab.path("out.zip");
        fs::write(&path, out).unwrap();
        let zip = read(&path);
        zip.assert_files_match();
        assert_eq!(zip.entries["large"].bytes, 300 << 20);
    });
}
