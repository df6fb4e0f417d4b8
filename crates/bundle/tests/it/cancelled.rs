//! Archives that are given up, by either side.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use cofferdam_bundle::{BundleError, zip_file, zip_to};
use tokio::io::{AsyncReadExt, AsyncWrite};

use crate::lab::{Lab, about, block_on};

/// Takes so many bytes, and then fails.
struct Closing(usize);

impl AsyncWrite for Closing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.0 == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let count = self.0.min(bytes.len());
        self.0 -= count;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Bytes that cannot be made shorter.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(step).collect()
}

#[test]
fn a_reader_that_goes_away_ends_the_archive_and_harms_nothing_else() {
    let lab = Lab::new();
    lab.put("noise", noise(8 << 20));
    block_on(async {
        let sandbox = lab.open().await;
        let error = zip_to(&sandbox.files(), about(), Closing(100_000)).await.unwrap_err();
        let BundleError::Output(source) = error else { panic!("{error:?}") };
        assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
        // The sandbox is as before.
        let command = sandbox.shell("ls");
        let result = sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        assert_eq!(&result.stdout[..], b"noise\n");
        sandbox.close().await.unwrap();
    });
}

#[test]
fn an_archive_that_nobody_waits_for_any_more_leaves_nothing() {
    let lab = Lab::new();
    lab.put("noise", noise(8 << 20));
    let place = lab.path("place");
    std::fs::create_dir(&place).unwrap();
    block_on(async {
        let sandbox = lab.open().await;
        // Dropped while it waits for its reader, who reads no more than the start.
        let (writer, mut reader) = tokio::io::duplex(1000);
        {
            let files = sandbox.files();
            let making = zip_to(&files, about(), writer);
            let mut start = [0; 4];
            tokio::select! {
                made = making => panic!("{made:?}"),
                read = reader.read_exact(&mut start) => assert_eq!(read.unwrap(), 4),
            }
            assert_eq!(&start, b"PK\x03\x04");
        }
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.unwrap();
        assert!(!rest.windows(4).any(|bytes| bytes == b"PK\x05\x06"), "it has no end");

        // Dropped when its draft is there, which need not have a name.
        let out = place.join("out.zip");
        let draft = || open_files(&place);
        {
            let files = sandbox.files();
            let making = zip_file(&files, about(), &out);
            tokio::select! {
                made = making => panic!("{made:?}"),
                () = until(|| draft() == 1) => {}
            }
        }
        until(|| draft() == 0).await;
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
        sandbox.close().await.unwrap();
    });
}

/// How many files in a directory this process has open.
fn open_files(directory: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let there = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| path.starts_with(directory))
    };
    open.filter(there).count()
}

async fn until(condition: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("waited in vain");
}

#[test]
fn a_sandbox_that_goes_away_is_told_of() {
    let lab = Lab::new();
    lab.put("noise", noise(1 << 20));
    block_on(async {
        let sandbox = lab.open().await;
        let files = sandbox.files();
        sandbox.close().await.unwrap();
        let mut out = Vec::new();
        let error = zip_to(&files, about(), &mut out).await.unwrap_err();
        assert!(matches!(error, BundleError::Workspace(_)), "{error:?}");
        assert!(out.is_empty());
    });
}
