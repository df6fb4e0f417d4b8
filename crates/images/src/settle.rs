//! The last touch for an image that came out of an archive: what every sandbox has of its own is
//! empty, and where a sandbox shows files of its own there is a file.

use std::io;
use std::path::Path;

use crate::confined::{Confined, Inside, New};
use crate::entries::Fault;
use crate::error::ImageError;

/// Directories that every sandbox has of its own. What builds left there is nobody's business.
const PROVIDED: [(&str, u32); 6] = [
    ("dev", 0o755),
    ("proc", 0o755),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("var/tmp", 0o1777),
];

/// Files of `/etc` that a sandbox shows its own in place of. A link, as to a service that no
/// sandbox has, would lead elsewhere.
const SHOWN: [&str; 3] = ["etc/hostname", "etc/hosts", "etc/resolv.conf"];

/// The same, with something in them that programs need in an image.
const READ: [&str; 3] = ["etc/group", "etc/nsswitch.conf", "etc/passwd"];

/// Settles an image.
pub(crate) fn settle(root: &Path) -> Result<(), ImageError> {
    let mut confined = Confined::open(root)?;
    settled(&mut confined).map_err(|fault| match fault {
        Fault::Other(error) => error,
        Fault::Bad(reason) => ImageError::system("settle", root)(io::Error::other(reason)),
    })
}

fn settled(root: &mut Confined) -> Result<(), Fault> {
    for (name, mode) in PROVIDED {
        let path = Inside::new(name.as_bytes())?;
        root.remove(&path)?;
        root.put(&path, New::Directory { mode })?;
    }
    root.put(&Inside::new(b"etc")?, New::Directory { mode: 0o755 })?;
    for name in SHOWN {
        empty_file(root, name)?;
    }
    for name in READ {
        if !root.is_file(&Inside::new(name.as_bytes())?)? {
            empty_file(root, name)?;
        }
    }
    Ok(())
}

fn empty_file(root: &mut Confined, name: &str) -> Result<(), Fault> {
    let content = &mut io::empty();
    let file = New::File { mode: 0o644, mtime: 0, size: 0, content };
    root.put(&Inside::new(name.as_bytes())?, file)
}
