//! The way from a viewer to the VNC server. What is on it goes in whole messages,
//! also when whoever sends them stops in the middle.

use std::io;

use bytes::{Buf, BytesMut};
use cofferdam_sandbox::Tunnel;
use tokio::io::{AsyncWriteExt, WriteHalf};

use super::rfb::{Filter, Mode, Refused};

pub(super) struct Way {
    filter: Filter,
    /// What the filter has let through and is not written yet.
    passed: BytesMut,
    writer: WriteHalf<Tunnel>,
}

impl Way {
    pub(super) fn new(writer: WriteHalf<Tunnel>) -> Self {
        Self { filter: Filter::new(), passed: BytesMut::new(), writer }
    }

    /// Takes what the viewer sends; says whether any of it acts.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<bool, Refused> {
        let mut out = Vec::new();
        let acted = self.filter.take(bytes, &mut out);
        self.passed.extend_from_slice(&out);
        acted
    }

    /// Lets the viewer act, or no more.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        let mut out = Vec::new();
        self.filter.set_mode(mode, &mut out);
        self.passed.extend_from_slice(&out);
    }

    /// Writes what was let through. Can be stopped and begun again.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while !self.passed.is_empty() {
            let written = self.writer.write(&self.passed).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.passed.advance(written);
        }
        Ok(())
    }
}
