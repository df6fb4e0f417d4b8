//! From the sandbox's archive to ours: one entry after the other.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Seek, Write};

use sha2::{Digest, Sha256};
use tar::Entry;
use tempfile::SpooledTempFile;

use crate::about::About;
use crate::archive::{Archive, Finished, Format};
use crate::component;
use crate::entries::{Head, Heads, What, broken};
use crate::error::BundleError;
use crate::ignored::IgnoredPart;
use crate::links;
use crate::manifest::{self, FileRow, LeftOutRow, Original, Renamed, Rows, hexadecimal};
use crate::names::{Kind, LONGEST_PATH, Named, Names};
use crate::source::Source;

/// Entries of a workspace. Each takes about 200 bytes until the end.
const MOST_ENTRIES: u64 = 1_000_000;

/// Bytes of all names together; those in the archive are held until its end.
const MOST_NAMES: u64 = 128 << 20;

/// Places that the sandbox names of those it could not read.
const NAMED_BY_SANDBOX: usize = 100;

/// Bytes of the manifest that wait in memory; more wait in a file.
const MANIFEST_IN_MEMORY: usize = 1 << 20;

/// Bytes copied at once.
const PIECE: usize = 64 << 10;

/// A complete archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Files, directories and links, without the manifest.
    pub entries: u64,
    /// Files alone.
    pub files: u64,
    /// Bytes in the files.
    pub content_bytes: u64,
    /// What has another name than in the workspace.
    pub renamed: u64,
    /// What is left out, as far as it is named.
    pub left_out: u64,
    /// Files that version control ignores and that are not there for that
    /// reason, as far as they were counted.
    pub ignored: u64,
    /// The manifest's name.
    pub manifest: String,
    /// Bytes of the archive itself.
    pub archive_bytes: u64,
    /// SHA-256 of the archive itself, in hexadecimal.
    pub sha256: String,
}

/// Writes the whole archive, and says what is in it.
pub(crate) fn bundle<W: Write>(
    mut source: Source,
    about: &About,
    ignored: &IgnoredPart,
    format: Format,
    out: W,
) -> Result<(Summary, W), BundleError> {
    let mut bundle = Bundle::new(Archive::new(format, out)?);
    if let Err(error) = bundle.take_all(&mut source) {
        // A source that failed makes an archive that looks broken.
        return Err(match error {
            BundleError::Broken { .. } => source.failure().unwrap_or(error),
            other => other,
        });
    }
    let archived = source.finish()?;
    let complete = archived.skipped.len() < NAMED_BY_SANDBOX;
    for (path, why) in archived.skipped {
        bundle.leave_out(&path, &why)?;
    }
    bundle.finish(about, ignored, complete)
}

struct Bundle<W: Write> {
    archive: Archive<W>,
    names: Names,
    rows: Rows,
    /// Entries of the sandbox's archive so far, and the bytes of their names.
    seen: u64,
    name_bytes: u64,
    entries: u64,
    content_bytes: u64,
    renamed: u64,
    /// Links come last, when it is known where they lead.
    links: Vec<Link>,
    buffer: Vec<u8>,
}

/// A link that stays inside, by itself.
struct Link {
    path: Vec<u8>,
    name: String,
    original: Option<Original>,
    target: String,
    changed: u64,
}

impl<W: Write> Bundle<W> {
    fn new(archive: Archive<W>) -> Self {
        Self {
            archive,
            names: Names::default(),
            rows: Rows::new(),
            seen: 0,
            name_bytes: 0,
            entries: 0,
            content_bytes: 0,
            renamed: 0,
            links: Vec::new(),
            buffer: vec![0; PIECE],
        }
    }

    fn take_all(&mut self, source: &mut Source) -> Result<(), BundleError> {
        let mut archive = tar::Archive::new(source);
        let mut heads = Heads::default();
        let entries = archive.entries().map_err(|error| broken(&error))?;
        for entry in entries.raw(true) {
            let mut entry = entry.map_err(|error| broken(&error))?;
            if let Some(head) = heads.take(&mut entry)? {
                self.count(&head)?;
                self.take(&head, &mut entry)?;
            }
        }
        Ok(())
    }

    /// Counts an entry against the limits, whatever becomes of it.
    fn count(&mut self, head: &Head) -> Result<(), BundleError> {
        self.seen += 1;
        if self.seen > MOST_ENTRIES {
            return Err(BundleError::TooMuch { limit: MOST_ENTRIES, what: "files" });
        }
        self.name_bytes += head.path.len().min(LONGEST_PATH) as u64;
        if self.name_bytes > MOST_NAMES {
            return Err(BundleError::TooMuch { limit: MOST_NAMES, what: "bytes of file names" });
        }
        Ok(())
    }

    fn take<R: Read>(
        &mut self,
        head: &Head,
        content: &mut Entry<'_, R>,
    ) -> Result<(), BundleError> {
        if head.cut {
            return self.leave_out(&head.path, "its path or its target is far too long");
        }
        match head.what {
            What::Other(why) => self.leave_out(&head.path, why),
            What::Link => match links::target(&head.link, links::depth(&head.path)) {
                Ok(target) => {
                    if let Some((name, original)) = self.name(&head.path, Kind::Leaf)? {
                        let (path, target) = (head.path.clone(), target.to_owned());
                        let changed = head.changed;
                        self.links.push(Link { path, name, original, target, changed });
                    }
                    Ok(())
                }
                Err(why) => self.leave_out(&head.path, why),
            },
            What::File => match self.name(&head.path, Kind::Leaf)? {
                Some((path, original)) => self.add_file(path, original, head, content),
                None => Ok(()),
            },
            What::Directory => match self.name(&head.path, Kind::Directory)? {
                Some((path, original)) => {
                    self.archive.directory(&path, head.mode, head.changed)?;
                    self.tell_renamed(path, original)
                }
                None => Ok(()),
            },
        }
    }

    /// The name of an entry in the archive, and the one it had if that is another;
    /// `None` if it has no place there.
    fn name(
        &mut self,
        path: &[u8],
        kind: Kind,
    ) -> Result<Option<(String, Option<Original>)>, BundleError> {
        let (name, changed) = match self.names.name(path, kind) {
            Named::Entry { path, changed } => (path, changed),
            Named::Known => return Ok(None),
            Named::TooLong => {
                return self.leave_out(path, "its path is too long").map(|()| None);
            }
        };
        self.entries += 1;
        self.renamed += u64::from(changed);
        Ok(Some((name, changed.then(|| Original::of(path)))))
    }

    fn tell_renamed(
        &mut self,
        path: String,
        original: Option<Original>,
    ) -> Result<(), BundleError> {
        original.map_or(Ok(()), |original| self.rows.renamed.push(&Renamed { path, original }))
    }

    /// Adds the links that lead somewhere.
    fn add_links(&mut self) -> Result<(), BundleError> {
        let links = std::mem::take(&mut self.links);
        let all = links.iter().map(|link| (link.path.as_slice(), link.target.as_bytes()));
        let all: HashMap<&[u8], &[u8]> = all.collect();
        let circles: Vec<bool> =
            links.iter().map(|link| links::circles(&all, &link.path)).collect();
        for (link, circles) in links.into_iter().zip(circles) {
            if circles {
                self.entries -= 1;
                self.renamed -= u64::from(link.original.is_some());
                self.leave_out(&link.path, "a link that leads in a circle")?;
            } else {
                self.archive.link(&link.name, &link.target, link.changed)?;
                self.tell_renamed(link.name, link.original)?;
            }
        }
        Ok(())
    }

    fn add_file<R: Read>(
        &mut self,
        path: String,
        original: Option<Original>,
        head: &Head,
        content: &mut Entry<'_, R>,
    ) -> Result<(), BundleError> {
        let out = self.archive.file(&path, head.mode, head.changed, head.size)?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        loop {
            let count = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(&error)),
            };
            let piece = self.buffer.get(..count).unwrap_or_default();
            hash.update(piece);
            out.write_all(piece).map_err(BundleError::Output)?;
            bytes += count as u64;
        }
        if bytes != head.size {
            return Err(BundleError::Broken { what: "a file ends too early".to_owned() });
        }
        self.content_bytes += bytes;
        let sha256 = hexadecimal(&hash.finalize());
        self.rows.files.push(&FileRow { path, bytes, sha256, original })
    }

    fn leave_out(&mut self, path: &[u8], why: &str) -> Result<(), BundleError> {
        let mut path = String::from_utf8_lossy(path).into_owned();
        component::cut(&mut path, LONGEST_PATH);
        self.rows.left_out.push(&LeftOutRow { path, why: why.to_owned() })
    }

    fn finish(
        mut self,
        about: &About,
        ignored: &IgnoredPart,
        complete: bool,
    ) -> Result<(Summary, W), BundleError> {
        self.add_links()?;
        let name = self.names.own(manifest::NAME, manifest::OTHER_NAME);
        let now = about.at.map_or(0, |at| at.0 / 1000);
        // A tar archive says a file's size before its content.
        let mut text = SpooledTempFile::new(MANIFEST_IN_MEMORY);
        let unwritten = |error: io::Error| BundleError::spool(&error);
        let mut buffered = BufWriter::new(&mut text);
        self.rows.write(about, ignored, &name, complete, &mut buffered)?;
        buffered.flush().map_err(unwritten)?;
        drop(buffered);
        let size = text.stream_position().map_err(unwritten)?;
        text.rewind().map_err(unwritten)?;
        let out = self.archive.file(&name, 0o644, now, size)?;
        loop {
            let count = text.read(&mut self.buffer).map_err(unwritten)?;
            let piece = self.buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            out.write_all(piece).map_err(BundleError::Output)?;
        }
        let comment = format!("Cofferdam job {}; the manifest is {name}", about.job);
        let Finished { out, bytes, sha256 } = self.archive.finish(&comment)?;
        let summary = Summary {
            entries: self.entries,
            files: self.rows.files.count(),
            content_bytes: self.content_bytes,
            renamed: self.renamed,
            left_out: self.rows.left_out.count(),
            ignored: ignored.files,
            manifest: name,
            archive_bytes: bytes,
            sha256: hexadecimal(&sha256),
        };
        Ok((summary, out))
    }
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
