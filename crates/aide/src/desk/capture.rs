//! Reading the screen: through shared memory, or through the connection where the
//! server cannot share.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use cofferdam_aide_protocol::{Region, Size};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

use super::display::Display;
use super::error::DeskError;
use super::picture::{Cursor, Pixels};

const ALL_PLANES: u32 = !0;

/// Takes pictures of the screen.
pub(super) struct Camera<'a> {
    display: &'a Display,
    pub(super) size: Size,
    shared: Option<Shared>,
}

/// Memory that the server writes and we read.
struct Shared {
    segment: u32,
    file: File,
}

impl<'a> Camera<'a> {
    pub(super) fn new(display: &'a Display) -> Result<Self, DeskError> {
        let size = display.size()?;
        // A server that cannot share still has the slow way.
        let shared = share(display, size).ok();
        Ok(Self { display, size, shared })
    }

    /// Takes a picture of a region of the screen, which must be inside of it.
    pub(super) fn take(&mut self, region: Region) -> Result<Pixels, DeskError> {
        let size = region.size();
        let side = |side: u32| u16::try_from(side).unwrap_or(u16::MAX);
        let place = |side: u32| i16::try_from(side).unwrap_or(i16::MAX);
        let (root, connection) = (self.display.root, &self.display.connection);
        let (x, y) = (place(region.from.x), place(region.from.y));
        let (width, height) = (side(size.width), side(size.height));
        if let Some(shared) = &self.shared {
            let (format, segment) = (ImageFormat::Z_PIXMAP.into(), shared.segment);
            let taken = connection
                .shm_get_image(root, x, y, width, height, ALL_PLANES, format, segment, 0)?
                .reply();
            if taken.is_ok() {
                let mut bytes = vec![0; size.width as usize * size.height as usize * 4];
                shared
                    .file
                    .read_exact_at(&mut bytes, 0)
                    .map_err(|source| DeskError::System { what: "read the screen", source })?;
                return Pixels::new(size, bytes);
            }
            self.shared = None;
        }
        let format = ImageFormat::Z_PIXMAP;
        let taken = connection.get_image(format, root, x, y, width, height, ALL_PLANES)?.reply()?;
        Pixels::new(size, taken.data)
    }

    /// Takes a picture of the whole screen.
    pub(super) fn take_all(&mut self) -> Result<Pixels, DeskError> {
        self.take(Region::all(self.size))
    }

    /// What the pointer looks like and where it is; none where the server does not
    /// say.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        let connection = &self.display.connection;
        connection.xfixes_query_version(2, 0).ok()?.reply().ok()?;
        let image = connection.xfixes_get_cursor_image().ok()?.reply().ok()?;
        Some(Cursor {
            left: i32::from(image.x) - i32::from(image.xhot),
            top: i32::from(image.y) - i32::from(image.yhot),
            width: usize::from(image.width),
            pixels: image.cursor_image,
        })
    }
}

impl Drop for Camera<'_> {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            // The server lets go of it by itself when we are gone.
            self.display.connection.shm_detach(shared.segment).ok();
        }
    }
}

fn share(display: &Display, size: Size) -> Result<Shared, DeskError> {
    let failed = |source| DeskError::System { what: "share memory with the X server", source };
    let connection = &display.connection;
    if connection.extension_information(shm::X11_EXTENSION_NAME)?.is_none() {
        return Err(failed(std::io::ErrorKind::Unsupported.into()));
    }
    connection.shm_query_version()?.reply()?;
    let file = memfd_create("screen", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let length = u64::from(size.width) * u64::from(size.height) * 4;
    ftruncate(&file, length).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    let theirs = OwnedFd::from(file.try_clone().map_err(failed)?);
    let segment = connection.generate_id()?;
    connection.shm_attach_fd(segment, theirs, false)?.check()?;
    Ok(Shared { segment, file })
}
