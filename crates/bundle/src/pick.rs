//! Some files of an archive that was taken in, by name: for whoever has to know what a
//! workspace begins with before it is anywhere.
//!
//! The archive is one that [`intake`](crate::intake) wrote, so that what has a name is what the
//! workspace will have there. Only files are picked, and no link is followed.

use std::collections::BTreeMap;
use std::io::{self, Read};

use tar::{Archive, EntryType};

/// Why files were not picked.
#[derive(Debug, thiserror::Error)]
pub enum PickError {
    /// Something else has the name, or too large a file.
    #[error("{name}: {why}")]
    Unfit {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The archive cannot be read.
    #[error("cannot read the archive")]
    Input(#[source] io::Error),
}

/// The files with these names at the top of an archive, as far as they are there; none of them
/// larger than this.
///
/// # Errors
/// When a name is not that of a file, a file is too large, or the archive cannot be read.
pub fn pick(
    archive: impl Read,
    names: &[&str],
    largest: u64,
) -> Result<BTreeMap<String, Vec<u8>>, PickError> {
    let mut picked = BTreeMap::new();
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(PickError::Input)? {
        let entry = entry.map_err(PickError::Input)?;
        let path = entry.path_bytes();
        let Some(name) = names.iter().find(|name| name.as_bytes() == &*path) else { continue };
        let unfit = |why| Err(PickError::Unfit { name: (*name).to_owned(), why });
        match entry.header().entry_type() {
            EntryType::Regular if entry.size() > largest => return unfit("it is too large"),
            EntryType::Regular => {}
            EntryType::Symlink => return unfit("it is a link, and only files are read"),
            _ => return unfit("it is no file"),
        }
        let mut bytes = Vec::new();
        entry.take(largest).read_to_end(&mut bytes).map_err(PickError::Input)?;
        picked.insert((*name).to_owned(), bytes);
    }
    // Whoever has the bytes may find at their end that they are not the right ones.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(PickError::Input)?;
    Ok(picked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar_form::TarForm;
    use std::io::Write;

    const NAMES: [&str; 2] = ["a.txt", "b.txt"];

    fn archive(write: impl FnOnce(&mut TarForm<Vec<u8>>)) -> Vec<u8> {
        let mut tar = TarForm::new(Vec::new());
        write(&mut tar);
        tar.finish().unwrap()
    }

    fn file(tar: &mut TarForm<Vec<u8>>, path: &str, content: &str) {
        tar.file(path.as_bytes(), 0o644, 0, content.len() as u64).unwrap();
        tar.write_all(content.as_bytes()).unwrap();
    }

    #[test]
    fn files_are_picked_at_the_top_alone() {
        let bytes = archive(|tar| {
            let long = format!("{}/a.txt", "deep".repeat(60));
            tar.directory(b"below", 0o755, 0).unwrap();
            for (path, content) in [("below/b.txt", "x"), (&long, "y"), ("c", "z"), ("a.txt", "1")]
            {
                file(tar, path, content);
            }
        });
        let picked = pick(&*bytes, &NAMES, 10).unwrap();
        assert_eq!(picked, BTreeMap::from([("a.txt".to_owned(), b"1".to_vec())]));
        assert!(pick(&*archive(|_| {}), &NAMES, 10).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_file_or_too_large_is_told_with_its_name() {
        let refusal = |write: fn(&mut TarForm<Vec<u8>>)| {
            pick(&*archive(write), &NAMES, 10).unwrap_err().to_string()
        };
        let link = refusal(|tar| tar.link(b"a.txt", b"c", 0).unwrap());
        assert_eq!(link, "a.txt: it is a link, and only files are read");
        let directory = refusal(|tar| tar.directory(b"b.txt", 0o755, 0).unwrap());
        assert_eq!(directory, "b.txt: it is no file");
        assert_eq!(refusal(|tar| file(tar, "a.txt", "12345678901")), "a.txt: it is too large");
        let cut = archive(|tar| file(tar, "a.txt", "1234567890"));
        let error = pick(cut.get(..515).unwrap(), &NAMES, 10).unwrap_err();
        assert!(matches!(error, PickError::Input(_)), "{error:?}");
    }
}
