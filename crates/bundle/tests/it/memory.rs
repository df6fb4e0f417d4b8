//! What an archive takes in memory does not depend on what is in the files.

use std::fs;

use cofferdam_bundle::zip_to;
use tokio::io::sink;

use crate::lab::{Lab, about, block_on, read};

/// The most memory that this process has had, in bytes.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_large_file_takes_no_memory() {
    let lab = Lab::new();
    lab.put("small", "small");
    let file = fs::File::create(lab.place("large")).unwrap();
    file.set_len(300 << 20).unwrap();
    block_on(async {
        let sandbox = lab.open().await;
        let before = most_memory();
        let summary = zip_to(&sandbox.files(), about(), sink()).await.unwrap();
        let grown = most_memory() - before;
        assert_eq!(summary.content_bytes, (300 << 20) + 5);
        assert!(summary.archive_bytes < 1 << 20);
        eprintln!("{} KiB more for 300 MiB", grown >> 10);
        // Other tests run beside it.
        assert!(grown < 48 << 20, "{grown} bytes more");
        let out = lab.path("out.zip");
        cofferdam_bundle::zip_file(&sandbox.files(), about(), &out).await.unwrap();
        sandbox.close().await.unwrap();
        let zip = read(&out);
        zip.assert_files_match();
        assert_eq!(zip.entries["large"].bytes, 300 << 20);
    });
}
