//! The programs that run beside and inside sandboxes: the supervisor of native ones,
//! with the guest in it, and the aide. They can be started from memory or from a copy
//! that is kept: no file has to be installed or found beside the product's one binary.

pub mod copy;

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};

/// A program that is carried here.
#[derive(Debug)]
pub struct Program {
    /// A name of its own for this content.
    pub name: &'static str,
    /// The executable.
    pub bytes: &'static [u8],
}

/// The supervisor of native sandboxes.
pub static SUPERVISOR: Program = Program {
    name: concat!("supervisor-", env!("SUPERVISOR_HASH")),
    bytes: include_bytes!(env!("SUPERVISOR_PROGRAM")),
};

/// Runs code cells and the desktop inside sandboxes.
pub static AIDE: Program = Program {
    name: concat!("aide-", env!("AIDE_HASH")),
    bytes: include_bytes!(env!("AIDE_PROGRAM")),
};

/// Puts a program into memory, sealed: whoever gets the descriptor can run it
/// and nobody can change it.
///
/// # Errors
/// When the kernel has no memory for it or forbids such files.
pub fn in_memory(program: &Program) -> io::Result<OwnedFd> {
    let sealable = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag; there every such file can run.
    let file = match rustix::fs::memfd_create(program.name, sealable | MemfdFlags::EXEC) {
        Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create(program.name, sealable)?,
        other => other?,
    };
    let mut rest = program.bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_a_static_executable() {
        let program = SUPERVISOR.bytes;
        assert!(program.starts_with(b"\x7fELF"), "an executable");
        let interpreter = b"/lib64/ld-linux";
        let dynamic = program.windows(interpreter.len()).any(|window| window == interpreter);
        assert!(!dynamic, "needs no loader");
    }

    #[test]
    fn a_program_in_memory_cannot_be_changed() {
        let file = in_memory(&SUPERVISOR).unwrap();
        assert_eq!(rustix::io::write(&file, b"x"), Err(rustix::io::Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(rustix::io::Errno::PERM));
    }
}
