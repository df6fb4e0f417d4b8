//! An archive of images as a file: what is in it, by name.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tar::EntryType;

use crate::entries::{self, Entry, Fault, shown};
use crate::error::ImageError;
use crate::footprint::Footprint;
use crate::room::room_for;
use crate::stream::{Meter, Opened, Stretch, Summed};

/// Files in an archive, and bytes of one that describes others.
const MOST_MEMBERS: usize = 20_000;
const LARGEST_TEXT: u64 = 4 << 20;

/// What describes the images of an OCI archive, and of `docker save` before it wrote such.
pub(crate) const INDEX: &str = "index.json";
pub(crate) const MANIFEST: &str = "manifest.json";

/// Links from one member to another that are followed.
const MOST_LINKS: u32 = 4;

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Member {
    /// Content, at this place and so long.
    File { at: u64, size: u64 },
    /// The same as another one. `docker save` writes a layer that is in an image twice so.
    Link(Vec<u8>),
}

/// What is in an archive, by name.
#[derive(Debug, Default)]
struct Members(BTreeMap<Vec<u8>, Member>);

/// An archive with a list of what is in it.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) file: File,
    members: Members,
}

impl Archive {
    /// Reads what is in it. One that is compressed as a whole is taken out of its compression
    /// first, into `scratch`, and to no more than `most` bytes; it is read once before, so that
    /// nothing is written of what holds no image or has no room.
    pub(crate) fn open(
        path: &Path,
        scratch: &Path,
        most: u64,
        meter: &Meter<'_>,
    ) -> Result<Self, Fault> {
        let opening = |error| Fault::bad(format!("it cannot be opened: {error}"));
        // Nobody waits for the other end of a pipe.
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        let options = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path);
        let file = options.map_err(opening)?;
        let about = file.metadata().map_err(opening)?;
        if !about.is_file() {
            return Err(Fault::bad("it is no file; save the image into one first"));
        }
        let whole = Stretch { file: &file, at: 0, left: about.len() };
        let file = match Opened::new(whole, meter, false)? {
            Opened::Plain(_) => file,
            opened => {
                meter.expect(about.len().saturating_mul(2));
                let bytes = weigh(opened, most)?;
                room_for(Footprint::of_file(bytes), scratch).map_err(Fault::Other)?;
                let whole = Stretch { file: &file, at: 0, left: about.len() };
                open_up(Opened::new(whole, meter, false)?, scratch, bytes)?
            }
        };
        let members = list(&file)?;
        members.check()?;
        Ok(Self { file, members })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.0.contains_key(name.as_bytes())
    }

    /// Where a member's content is, and how long it is.
    pub(crate) fn find(&self, name: &str) -> Result<(u64, u64), Fault> {
        let mut name = name.as_bytes().to_vec();
        for _ in 0..=MOST_LINKS {
            match self.members.0.get(&name) {
                Some(Member::File { at, size }) => return Ok((*at, *size)),
                Some(Member::Link(to)) => name.clone_from(to),
                None => return Err(Fault::bad(format!("{} is not in it", shown(&name)))),
            }
        }
        Err(Fault::bad(format!("{} is a link without an end", shown(&name))))
    }

    /// A member that describes others.
    pub(crate) fn text(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let (at, left) = self.find(name)?;
        if left > LARGEST_TEXT {
            return Err(Fault::bad(format!("{} is too large", shown(name.as_bytes()))));
        }
        let mut text = Vec::new();
        Stretch { file: &self.file, at, left }.read_to_end(&mut text)?;
        Ok(text)
    }
}

/// Writes what is in a compressed archive to a file that has no name.
fn open_up(opened: Opened<'_>, scratch: &Path, most: u64) -> Result<File, Fault> {
    let path = scratch.join(format!(".archive-{}", std::process::id()));
    let failed = |error| Fault::Other(ImageError::system("write", &path)(error));
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    fs::remove_file(&path).map_err(failed)?;
    let mut content = Summed::new(opened, false, most);
    let mut buffer = vec![0; 256 << 10];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(file),
            read => file.write_all(buffer.get(..read).unwrap_or_default()).map_err(failed)?,
        }
    }
}

/// How long a compressed archive is out of its compression, if there is an image in it.
fn weigh(opened: Opened<'_>, most: u64) -> Result<u64, Fault> {
    let mut members = Members::default();
    let content = Summed::new(opened, false, most);
    let content = entries::each(content, &mut |entry, _| members.note(entry))?;
    members.check()?;
    let (_, left, _) = content.finish()?;
    Ok(most.saturating_sub(left))
}

fn list(file: &File) -> Result<Members, Fault> {
    let mut members = Members::default();
    let mut reader = file;
    reader.rewind()?;
    entries::skim(BufReader::new(reader), &mut |entry, _| members.note(entry))?;
    Ok(members)
}

impl Members {
    fn note(&mut self, entry: &Entry) -> Result<(), Fault> {
        let member = match entry.kind {
            EntryType::Regular | EntryType::Continuous => {
                Member::File { at: entry.position, size: entry.size }
            }
            EntryType::Symlink => {
                let above = entry.path.iter().rposition(|byte| *byte == b'/');
                let above = above.and_then(|slash| entry.path.get(..slash)).unwrap_or_default();
                match plain(&[above, &entry.link].join(&b'/')) {
                    Some(target) => Member::Link(target),
                    None => return Ok(()),
                }
            }
            EntryType::Link => match plain(&entry.link) {
                Some(target) => Member::Link(target),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        // Nothing is written by these names; those that mean nothing are of no use.
        if let Some(name) = plain(&entry.path) {
            if self.0.contains_key(&name) {
                return Err(Fault::bad(format!("{} is in it twice", shown(&name))));
            }
            self.0.insert(name, member);
        }
        if self.0.len() > MOST_MEMBERS {
            return Err(Fault::bad("it has too many files for an archive of an image"));
        }
        Ok(())
    }

    /// Whether an image is described.
    fn check(&self) -> Result<(), Fault> {
        if [INDEX, MANIFEST].iter().any(|name| self.0.contains_key(name.as_bytes())) {
            return Ok(());
        }
        Err(Fault::bad(
            "it is neither an OCI archive nor one of `docker save`; what `docker export` writes \
             has lost what makes it an image",
        ))
    }
}

/// A member's name without dots, if it has a meaning.
fn plain(name: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}
