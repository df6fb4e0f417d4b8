//! The suite that every place for blobs must pass: one case for each promise.
//!
//! A place proves itself in its own tests:
//!
//! ```ignore
//! #[tokio::test]
//! async fn a_directory_behaves_like_a_place_for_blobs() {
//!     assert_eq!(blob_conformance::run_all(&blobs).await, Vec::<String>::new());
//! }
//! ```
//!
//! What needs a crash, a full disk or damage is for the tests of each place.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::blobs::{Blob, BlobError, BlobKey, Blobs};

/// How long a case may take.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

/// Lengths at and around what places cut blobs into.
const LENGTHS: [usize; 7] = [0, 1, 65_535, 65_537, 262_144, 5 << 20, (17 << 20) + 3];

type Outcome = Result<(), String>;
type Body = for<'a> fn(&'a Lab<'a>) -> BoxFuture<'a, Outcome>;

/// The promises, and how they are tried.
const CASES: [(&str, Body); 9] = [
    ("what is written is read again", |lab| Box::pin(round_trip(lab))),
    ("a blob that is not there is missing", |lab| Box::pin(missing(lab))),
    ("nothing is there before the end", |lab| Box::pin(nothing_before_the_end(lab))),
    ("what is given up leaves nothing", |lab| Box::pin(given_up(lab))),
    ("an older blob keeps its place until the end", |lab| Box::pin(replaced(lab))),
    ("other bytes than were promised are never all read", |lab| Box::pin(other_bytes(lab))),
    ("removing is done, and no error twice", |lab| Box::pin(removed(lab))),
    ("of two writers each leaves a whole blob", |lab| Box::pin(two_writers(lab))),
    ("a key and one beneath it are two blobs", |lab| Box::pin(beneath(lab))),
];

/// Tries all cases; returns what went wrong.
pub async fn run_all(blobs: &dyn Blobs) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, body) in CASES {
        let lab = Lab { blobs, words: format!("case-{}", Uuid::now_v7()) };
        let outcome = match tokio::time::timeout(CASE_TIMEOUT, body(&lab)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("it took longer than {CASE_TIMEOUT:?}")),
        };
        failures.extend(outcome.err().map(|why| format!("{name}: {why}")));
    }
    failures
}

/// A place and keys of its own for one case.
struct Lab<'b> {
    blobs: &'b dyn Blobs,
    words: String,
}

impl Lab<'_> {
    fn key(&self, words: &[&str]) -> Result<BlobKey, String> {
        let words: Vec<&str> = [self.words.as_str()].iter().chain(words).copied().collect();
        BlobKey::of(&words).ok_or_else(|| format!("{words:?} is no key"))
    }

    async fn write(&self, key: &BlobKey, content: &[u8]) -> Result<Blob, String> {
        let mut writer = self.blobs.create(key.clone()).await.map_err(said)?;
        for piece in content.chunks(100_000) {
            writer.write(Bytes::copy_from_slice(piece)).await.map_err(said)?;
        }
        let blob = writer.finish().await.map_err(said)?;
        let sha256: String = Sha256::digest(content).iter().map(|b| format!("{b:02x}")).collect();
        check(blob == Blob { key: key.clone(), bytes: content.len() as u64, sha256 }, || {
            format!("the blob is said to be {blob:?}")
        })?;
        Ok(blob)
    }

    /// The whole content; an error says how much came before it.
    async fn read(&self, blob: &Blob) -> Result<Vec<u8>, (usize, BlobError)> {
        let mut stream = self.blobs.read(blob).await.map_err(|error| (0, error))?;
        let mut content = Vec::new();
        while let Some(piece) = stream.next().await {
            content.extend_from_slice(&piece.map_err(|error| (content.len(), error))?);
        }
        Ok(content)
    }

    async fn expect(&self, blob: &Blob, content: &[u8]) -> Outcome {
        let found = self.read(blob).await.map_err(|(_, error)| said(error))?;
        check(found == content, || {
            format!("read {} other bytes than the {} written", found.len(), content.len())
        })
    }

    async fn expect_missing(&self, blob: &Blob) -> Outcome {
        match self.read(blob).await {
            Err((0, BlobError::Missing(key))) if key == blob.key => Ok(()),
            other => Err(format!("{:?} instead of missing", other.map(|found| found.len()))),
        }
    }
}

async fn round_trip(lab: &Lab<'_>) -> Outcome {
    for length in LENGTHS {
        let key = lab.key(&["length", &length.to_string()])?;
        let content = noise(length);
        let blob = lab.write(&key, &content).await?;
        lab.expect(&blob, &content).await?;
    }
    Ok(())
}

async fn missing(lab: &Lab<'_>) -> Outcome {
    let sha256 = "0".repeat(64);
    lab.expect_missing(&Blob { key: lab.key(&["no-such"])?, bytes: 1, sha256 }).await
}

async fn nothing_before_the_end(lab: &Lab<'_>) -> Outcome {
    let key = lab.key(&["begun"])?;
    let content = noise(12 << 20);
    let mut writer = lab.blobs.create(key.clone()).await.map_err(said)?;
    writer.write(content.clone().into()).await.map_err(said)?;
    let bytes = content.len() as u64;
    lab.expect_missing(&Blob { key, bytes, sha256: "0".repeat(64) }).await?;
    let blob = writer.finish().await.map_err(said)?;
    lab.expect(&blob, &content).await
}

async fn given_up(lab: &Lab<'_>) -> Outcome {
    let key = lab.key(&["given-up"])?;
    let content = noise(12 << 20);
    let mut writer = lab.blobs.create(key.clone()).await.map_err(said)?;
    writer.write(content.into()).await.map_err(said)?;
    drop(writer);
    lab.expect_missing(&Blob { key, bytes: 12 << 20, sha256: "0".repeat(64) }).await
}

async fn replaced(lab: &Lab<'_>) -> Outcome {
    let key = lab.key(&["replaced"])?;
    let old = lab.write(&key, b"old").await?;
    let mut writer = lab.blobs.create(key.clone()).await.map_err(said)?;
    writer.write(Bytes::from_static(b"new and longer")).await.map_err(said)?;
    lab.expect(&old, b"old").await?;
    let new = writer.finish().await.map_err(said)?;
    lab.expect(&new, b"new and longer").await?;
    match lab.read(&old).await {
        Err((_, BlobError::Damaged(_))) => Ok(()),
        other => Err(format!("the old one reads as {other:?}")),
    }
}

async fn other_bytes(lab: &Lab<'_>) -> Outcome {
    let content = noise(700_000);
    let right = lab.write(&lab.key(&["other"])?, &content).await?;
    let wrong = [
        Blob { sha256: "0".repeat(64), ..right.clone() },
        Blob { bytes: right.bytes + 1, ..right.clone() },
        Blob { bytes: right.bytes - 1, ..right.clone() },
        Blob { bytes: 0, ..right.clone() },
    ];
    for wrong in wrong {
        match lab.read(&wrong).await {
            Err((read, BlobError::Damaged(_))) if read < content.len() => {}
            other => {
                let other = other.map(|found| found.len());
                return Err(format!("{other:?} with {} bytes promised", wrong.bytes));
            }
        }
    }
    Ok(())
}

async fn removed(lab: &Lab<'_>) -> Outcome {
    let key = lab.key(&["removed"])?;
    let blob = lab.write(&key, b"content").await?;
    lab.blobs.remove(&key).await.map_err(said)?;
    lab.expect_missing(&blob).await?;
    lab.blobs.remove(&key).await.map_err(said)?;
    // It can be written again.
    let blob = lab.write(&key, b"again").await?;
    lab.expect(&blob, b"again").await
}

async fn two_writers(lab: &Lab<'_>) -> Outcome {
    let key = lab.key(&["two"])?;
    let (one, other) = (noise(9 << 20), noise(10 << 20));
    let (first, second) = tokio::try_join!(lab.write(&key, &one), lab.write(&key, &other))?;
    // Whichever was last is there, whole.
    match lab.expect(&first, &one).await {
        Ok(()) => Ok(()),
        Err(_) => lab.expect(&second, &other).await,
    }
}

async fn beneath(lab: &Lab<'_>) -> Outcome {
    let (above, below) = (lab.key(&["word"])?, lab.key(&["word", "more"])?);
    let first = lab.write(&above, b"above").await?;
    let second = lab.write(&below, b"below").await?;
    lab.expect(&first, b"above").await?;
    lab.expect(&second, b"below").await?;
    lab.blobs.remove(&above).await.map_err(said)?;
    lab.expect(&second, b"below").await
}

fn check(right: bool, why: impl FnOnce() -> String) -> Outcome {
    if right { Ok(()) } else { Err(why()) }
}

fn said(error: BlobError) -> String {
    error.to_string()
}

/// Bytes that are different at every place.
fn noise(length: usize) -> Vec<u8> {
    let mut state = length as u64 | 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(step).collect()
}
