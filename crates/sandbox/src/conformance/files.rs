//! The files of a workspace through the guest: exact, and never outside.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_guest_protocol::{EntryKind, FileError, WriteMode};
use tokio::io::AsyncReadExt;

use super::lab::{Failure, Lab, check, read_until, start, text};
use crate::error::FilesError;
use crate::files::{Ignored, Range, Replacement, Search};

super::promises! {
    contents, Nothing: "a file is written, read, added to and replaced, and commands see the same";
    listings, Nothing: "files are listed, found by name and searched";
    changes, Nothing: "files are renamed, directories made, and both deleted";
    large, Nothing: "a file of 20 MiB goes in and out whole";
    archives, Nothing: "a directory is packed and unpacked elsewhere, modes and links kept";
    outside, Nothing: "no path leads out of the workspace, by dots or by link";
    race, Nothing: "a directory that becomes a link in mid-operation leads nowhere";
}

async fn contents(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    let name = b"deep/er/n\xffame".to_vec();
    let content = Bytes::from_static(b"one\ntwo\r\n\0\xff");
    let written = files.write(name.clone(), content.clone(), WriteMode::Create, 0o640).await?;
    check!(written.size == content.len() as u64, "{} bytes were written", written.size);

    let read = files.read(name.clone(), Range::first(1000)).await?;
    check!(read.bytes == content, "the content is {:?}", read.bytes);
    check!(read.sha256.is_some() && read.sha256 == written.sha256, "the hashes differ");
    check!(read.stat.permissions & 0o777 == 0o640, "the mode is {:o}", read.stat.permissions);
    let part = files.read(name.clone(), Range { offset: 4, limit: 3 }).await?;
    check!(part.bytes == "two" && part.sha256.is_none(), "the part is {part:?}");
    let shown = text(&sandbox, "cat deep/er/* | wc -c").await?;
    check!(shown.trim() == content.len().to_string(), "a command sees {shown} bytes");

    match files.write(name.clone(), "x".into(), WriteMode::Create, 0o600).await {
        Err(FilesError::File(FileError::Exists)) => {}
        other => return Err(Failure::broken(format!("creating it twice gave {other:?}"))),
    }
    match files.write(name.clone(), "x".into(), WriteMode::ReplaceIf([0; 32]), 0o600).await {
        Err(FilesError::File(FileError::Changed(_))) => {}
        other => return Err(Failure::broken(format!("a wrong hash gave {other:?}"))),
    }
    let expected = read.sha256.unwrap_or_default();
    files.write(name.clone(), "a a b".into(), WriteMode::ReplaceIf(expected), 0o600).await?;
    files.write(name.clone(), " c".into(), WriteMode::Append, 0o600).await?;
    let replace = |old: &str, new: &str, all| Replacement {
        old: old.into(),
        new: new.into(),
        all,
        expected: None,
    };
    match files.replace(name.clone(), replace("a", "x", false)).await {
        Err(FilesError::File(FileError::Ambiguous(2))) => {}
        other => return Err(Failure::broken(format!("an ambiguous text gave {other:?}"))),
    }
    match files.replace(name.clone(), replace("z", "x", false)).await {
        Err(FilesError::File(FileError::NoMatch)) => {}
        other => return Err(Failure::broken(format!("a missing text gave {other:?}"))),
    }
    let replaced = files.replace(name.clone(), replace("a", "xy", true)).await?.replaced;
    check!(replaced == 2, "{replaced} places were replaced");
    let read = files.read(name, Range::first(1000)).await?;
    check!(read.bytes == "xy xy b c", "the content is {:?}", read.bytes);
    check!(read.stat.permissions & 0o777 == 0o640, "the mode is {:o}", read.stat.permissions);
    Ok(())
}

async fn listings(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    let script = "mkdir -p src/sub target && echo 'fn main() {}' > src/main.rs \
                  && printf 'a\\nneedle here\\nb\\n' > src/sub/lib.rs && echo needle > target/out \
                  && echo target > .gitignore && ln -s main.rs src/link && mkdir .git";
    text(&sandbox, script).await?;
    let paths = |entries: &[cofferdam_guest_protocol::Entry]| {
        let mut paths: Vec<String> =
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
        paths.sort_unstable();
        paths
    };

    let listing = files.list("src", 1, 100).await?;
    let found = paths(&listing.records);
    check!(found == ["src/link", "src/main.rs", "src/sub"], "the listing is {found:?}");
    let link = listing.records.iter().find(|entry| entry.link.is_some());
    check!(
        link.is_some_and(|entry| entry.stat.kind == EntryKind::Link
            && entry.link.as_deref() == Some(b"main.rs".as_slice())),
        "the link is {link:?}"
    );
    let deep = files.list("src", 2, 100).await?;
    check!(deep.records.len() == 4 && !deep.more, "two levels are {:?}", paths(&deep.records));
    let cut = files.list("src", 2, 2).await?;
    check!(cut.records.len() == 2 && cut.more, "a cut listing is {:?}", paths(&cut.records));

    let globbed = files.glob(".", "**/*.rs", Ignored::LeaveOut, 100).await?;
    let found = paths(&globbed.records);
    check!(found == ["src/main.rs", "src/sub/lib.rs"], "the names found are {found:?}");
    let search = Search { context: 1, ..Search::pattern("nee[d]le") };
    let hits = files.search(".", search).await?;
    let lines: Vec<(u64, bool)> = hits.records.iter().map(|hit| (hit.line, hit.matched)).collect();
    check!(lines == [(1, false), (2, true), (3, false)], "the lines found are {:?}", hits.records);
    let everywhere = Search { ignored: Ignored::Include, ..Search::pattern("needle") };
    let hits = files.search(".", everywhere).await?.records.len();
    check!(hits == 2, "{hits} lines were found where ignored files count");
    Ok(())
}

async fn changes(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    files.make_directory("a/b/c").await?;
    files.write("a/b/c/file", "x".into(), WriteMode::Create, 0o644).await?;
    files.rename("a/b", "moved/here", false).await?;
    let stat = files.stat("moved/here/c/file").await?;
    check!(stat.kind == EntryKind::File && stat.size == 1, "it is {stat:?}");
    files.write("other", "y".into(), WriteMode::Create, 0o644).await?;
    match files.rename("other", "moved/here/c/file", false).await {
        Err(FilesError::File(FileError::Exists)) => {}
        other => return Err(Failure::broken(format!("moving onto a file gave {other:?}"))),
    }
    files.rename("other", "moved/here/c/file", true).await?;
    match files.delete("moved", false).await {
        Err(FilesError::File(FileError::NotEmpty)) => {}
        other => return Err(Failure::broken(format!("deleting a full directory gave {other:?}"))),
    }
    let deleted = files.delete("moved", true).await?;
    check!(deleted == 4, "{deleted} files and directories were deleted");
    match files.stat("moved").await {
        Err(FilesError::File(FileError::NotFound)) => {}
        other => return Err(Failure::broken(format!("what was deleted is {other:?}"))),
    }
    let left = text(&sandbox, "ls -A").await?;
    check!(left == "a", "these are left: {left:?}");
    Ok(())
}

async fn large(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    let content: Bytes =
        (0..20u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let written = files.write("large", content.clone(), WriteMode::Create, 0o644).await?;
    let sum = text(&sandbox, "sha256sum large | cut -c 1-64").await?;
    let hash: String =
        written.sha256.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
    check!(sum == hash, "the hash is {hash}, a command says {sum}");
    let read = files.read("large", Range::first(64 << 20)).await?;
    check!(read.bytes == content, "{} bytes came back, or others", read.bytes.len());
    Ok(())
}

async fn archives(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    let script = "mkdir -p from/sub && head -c 3M /dev/urandom > from/sub/data \
                  && echo run > from/tool && chmod 755 from/tool && ln -s tool from/link";
    text(&sandbox, script).await?;
    let mut pack = files.pack("from", Ignored::Include).await?;
    let mut archive = Vec::new();
    pack.read_to_end(&mut archive).await?;
    let packed = pack.archived().await?;
    check!(packed.entries >= 4 && packed.skipped.is_empty(), "the archive holds {packed:?}");
    let unpacked = files.unpack("to", archive.as_slice()).await?;
    check!(unpacked.skipped.is_empty(), "these were left out: {:?}", unpacked.skipped);
    // The archive may or may not name the directory it was made of.
    let script = "cd to; test -e sub || cd from; cmp sub/data /workspace/from/sub/data \
                  && test -x tool && readlink link";
    let link = text(&sandbox, script).await?;
    check!(link == "tool", "the link is {link:?}");
    Ok(())
}

async fn outside(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    let script = "ln -s /etc out; ln -s /etc/passwd leak; ln -s ../etc up; mkdir /tmp/t; \
                  ln -s /tmp/t place; ln -s /proc/self/root root";
    text(&sandbox, script).await?;
    let refused = |path: &str, result: Result<(), FilesError>| match result {
        Err(FilesError::File(_)) => Ok(()),
        other => Err(Failure::broken(format!("{path} gave {other:?}"))),
    };
    for path in [
        "leak",
        "out/passwd",
        "up/passwd",
        "../etc/passwd",
        "/etc/passwd",
        "/workspace/../etc/passwd",
        "root/etc/passwd",
    ] {
        refused(path, files.read(path, Range::first(10)).await.map(drop))?;
    }
    for path in ["place/x", "../tmp/t/x", "/tmp/t/x", "root/tmp/t/x"] {
        let written = files.write(path, "x".into(), WriteMode::Replace, 0o644).await;
        refused(path, written.map(drop))?;
        refused(path, files.make_directory(path).await)?;
    }
    refused("out", files.list("out", 1, 10).await.map(drop))?;
    refused("/etc", files.list("/etc", 1, 10).await.map(drop))?;
    refused("place", files.pack("place/..", Ignored::Include).await?.archived().await.map(drop))?;
    text(&sandbox, "echo keep > /tmp/t/kept").await?;
    refused("place/kept", files.delete("place/kept", false).await.map(drop))?;
    refused("/tmp/t", files.rename("/tmp/t/kept", "stolen", false).await)?;
    // Deleting a link deletes the link, not what it leads to.
    files.delete("place", true).await?;
    let left = text(&sandbox, "ls /tmp/t; test ! -e place -a ! -L place && echo gone").await?;
    check!(left == "kept\ngone", "{left:?} is left");
    Ok(())
}

async fn race(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let files = sandbox.files();
    let script = "mkdir real /tmp/trap && echo inside > real/file && echo outside > /tmp/trap/file \
                  && ln -s real one && ln -s /tmp/trap two && cp -P one turn && echo ready \
                  && while :; do cp -P one new && mv -T new turn; cp -P two new && mv -T new turn; \
                  done";
    let mut process = start(&sandbox, script).await?;
    read_until(&mut process, "ready").await?;
    let begin = Instant::now();
    let mut inside = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        if let Ok(read) = files.read("turn/file", Range::first(100)).await {
            check!(read.bytes == "inside\n", "{:?} was read", read.bytes);
            inside += 1;
        }
        // Whether this is done depends on where the link leads just now.
        drop(files.write("turn/planted", "x".into(), WriteMode::Replace, 0o644).await);
        drop(files.delete("turn/file-that-is-not", false).await);
    }
    drop(process);
    check!(inside > 0, "nothing could be read at all");
    let trap = text(&sandbox, "ls -A /tmp/trap").await?;
    check!(trap == "file", "outside the workspace are {trap:?}");
    Ok(())
}
