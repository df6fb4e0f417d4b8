//! System errors as file errors, and lists of what was left out.

use cofferdam_guest_protocol::FileError;
use rustix::io::Errno;

/// Places named in a list of what was left out.
const MOST_NAMED: usize = 100;

/// Bytes of a path in such a list.
const LONGEST_NAMED: usize = 4096;

/// The error that an error of the system stands for.
pub(super) fn of(errno: Errno) -> FileError {
    match errno {
        Errno::NOENT => FileError::NotFound,
        Errno::XDEV => FileError::Outside,
        Errno::NOTDIR => FileError::NotDirectory,
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => FileError::NotFile,
        Errno::NOTEMPTY => FileError::NotEmpty,
        Errno::EXIST => FileError::Exists,
        Errno::NOSPC | Errno::DQUOT => FileError::NoSpace,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FileError::Denied,
        other => io(other),
    }
}

/// An error of the system as it is.
pub(super) fn io(errno: Errno) -> FileError {
    FileError::Io { errno: errno.raw_os_error(), message: errno.to_string() }
}

/// The error of a reader or writer of the standard library.
pub(super) fn of_std(error: &std::io::Error) -> FileError {
    match Errno::from_io_error(error) {
        Some(errno) => of(errno),
        None => FileError::Io { errno: Errno::IO.raw_os_error(), message: error.to_string() },
    }
}

/// What was left out, with the reason: the first of it.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<(Vec<u8>, String)>);

impl LeftOut {
    pub(super) fn add(&mut self, path: &[u8], reason: impl ToString) {
        if self.0.len() < MOST_NAMED {
            let path = path.get(..LONGEST_NAMED).unwrap_or(path);
            self.0.push((path.to_vec(), reason.to_string()));
        }
    }

    pub(super) fn into_list(self) -> Vec<(Vec<u8>, String)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_named() {
        assert_eq!(of(Errno::NOSPC), FileError::NoSpace);
        assert_eq!(of(Errno::DQUOT), FileError::NoSpace);
        assert_eq!(of(Errno::ACCESS), FileError::Denied);
        assert_eq!(of(Errno::XDEV), FileError::Outside);
        assert!(matches!(of(Errno::LOOP), FileError::Io { errno: 40, .. }));
        let full = std::io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
        assert_eq!(of_std(&full), FileError::NoSpace);
    }

    #[test]
    fn lists_of_what_was_left_out_are_bounded() {
        let mut left_out = LeftOut::default();
        for _ in 0..1_000 {
            left_out.add(&[b'a'; 100_000], "too long");
        }
        let list = left_out.into_list();
        assert_eq!((list.len(), list[0].0.len()), (MOST_NAMED, LONGEST_NAMED));
    }
}
