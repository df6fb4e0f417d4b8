//! What a monitor tells the guest over its pipe: records of one fixed size, each
//! written in one piece.

/// Length of a record.
pub(crate) const RECORD: usize = 32;

/// One thing a monitor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started {
        /// Its process id.
        pid: u32,
    },
    /// The command could not be started.
    Failed {
        /// The error's number.
        errno: i32,
        /// What failed.
        step: Step,
    },
    /// The command's own process has ended.
    Ended(Ended),
}

/// A step of starting a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// Preparing the monitor itself.
    Prepare = 0,
    /// Changing to its working directory.
    Directory = 1,
    /// Finding and executing its program.
    Program = 2,
}

/// How a command's own process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// As `waitpid` gives it.
    pub(crate) status: i32,
    /// Whether it left processes behind.
    pub(crate) children: bool,
    /// Microseconds of CPU time.
    pub(crate) cpu_us: u64,
    /// Bytes of the largest resident set.
    pub(crate) peak_memory: u64,
}

impl Report {
    /// Its bytes.
    pub(crate) fn to_bytes(self) -> [u8; RECORD] {
        let mut record = Vec::with_capacity(RECORD);
        match self {
            Self::Started { pid } => {
                record.extend([1, 0, 0, 0]);
                record.extend(pid.to_le_bytes());
            }
            Self::Failed { errno, step } => {
                record.extend([2, step as u8, 0, 0]);
                record.extend(errno.to_le_bytes());
            }
            Self::Ended(ended) => {
                record.extend([3, u8::from(ended.children), 0, 0]);
                record.extend(ended.status.to_le_bytes());
                record.extend(ended.cpu_us.to_le_bytes());
                record.extend(ended.peak_memory.to_le_bytes());
            }
        }
        let mut bytes = [0; RECORD];
        for (to, from) in bytes.iter_mut().zip(record) {
            *to = from;
        }
        bytes
    }

    /// Reads a record; `None` if it is none.
    pub(crate) fn from_bytes(bytes: &[u8; RECORD]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (cpu, rest) = rest.split_first_chunk::<8>()?;
        let (memory, _) = rest.split_first_chunk::<8>()?;
        match *head {
            [1, ..] => Some(Self::Started { pid: u32::from_le_bytes(*number) }),
            [2, step, ..] => {
                let step = match step {
                    1 => Step::Directory,
                    2 => Step::Program,
                    _ => Step::Prepare,
                };
                Some(Self::Failed { errno: i32::from_le_bytes(*number), step })
            }
            [3, children, ..] => Some(Self::Ended(Ended {
                status: i32::from_le_bytes(*number),
                children: children != 0,
                cpu_us: u64::from_le_bytes(*cpu),
                peak_memory: u64::from_le_bytes(*memory),
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_pipe() {
        let reports = [
            Report::Started { pid: 4_000_000 },
            Report::Failed { errno: 2, step: Step::Directory },
            Report::Failed { errno: 13, step: Step::Program },
            Report::Ended(Ended {
                status: 0x0f00,
                children: true,
                cpu_us: u64::MAX,
                peak_memory: 1 << 40,
            }),
        ];
        for report in reports {
            assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
        }
    }

    #[test]
    fn other_bytes_are_no_report() {
        assert_eq!(Report::from_bytes(&[0; RECORD]), None);
        assert_eq!(Report::from_bytes(&[9; RECORD]), None);
    }
}
