//! The connection to the X server, and what everything else asks it about.

use std::os::unix::net::UnixStream;

use cofferdam_aide_protocol::{Desktop, Size};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, ImageOrder, Screen, Window as WindowId,
};
use x11rb::rust_connection::{DefaultStream, RustConnection};

use super::authority;
use super::error::DeskError;

/// No property is read further, in units of four bytes.
const LONGEST_PROPERTY: u32 = 64 << 10;

/// A connection to the X server.
pub(super) struct Display {
    pub(super) connection: RustConnection,
    pub(super) root: WindowId,
    pub(super) atoms: Atoms,
}

x11rb::atom_manager! {
    /// The names that window managers and windows talk with.
    pub(super) Atoms:
    AtomsCookie {
        _NET_ACTIVE_WINDOW,
        _NET_CLIENT_LIST,
        _NET_CLIENT_LIST_STACKING,
        _NET_NUMBER_OF_DESKTOPS,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_NAME,
        _NET_WM_PING,
        _NET_WM_STATE,
        _NET_WM_STATE_HIDDEN,
        UTF8_STRING,
        WM_PROTOCOLS,
    }
}

impl Display {
    /// Connects to the display of a desktop.
    pub(super) fn of(desktop: &Desktop) -> Result<Self, DeskError> {
        let file = std::fs::read(&desktop.authority).map_err(|source| DeskError::File {
            what: "read",
            path: desktop.authority.clone().into(),
            source,
        })?;
        let key = authority::cookie(&file)
            .ok_or_else(|| DeskError::Broken(format!("{} is damaged", desktop.authority)))?;
        Self::connect(desktop.display.trim_start_matches(':'), key)
    }

    /// Connects to a display by its number.
    pub(super) fn connect(number: &str, key: &[u8]) -> Result<Self, DeskError> {
        let no_way = |source| DeskError::System { what: "reach the desktop's X server", source };
        let stream = UnixStream::connect(format!("/tmp/.X11-unix/X{number}")).map_err(no_way)?;
        let (stream, _) = DefaultStream::from_unix_stream(stream).map_err(no_way)?;
        let connection = RustConnection::connect_to_stream_with_auth_info(
            stream,
            0,
            authority::KIND.to_vec(),
            key.to_vec(),
        )?;
        let atoms = Atoms::new(&connection)?.reply()?;
        let screen = first_screen(&connection)?;
        let root = screen.root;
        let display = Self { connection, root, atoms };
        display.check_pixels()?;
        Ok(display)
    }

    /// The screen as it is now.
    pub(super) fn size(&self) -> Result<Size, DeskError> {
        let geometry = self.connection.get_geometry(self.root)?.reply()?;
        Ok(Size { width: geometry.width.into(), height: geometry.height.into() })
    }

    /// Waits until the server has done everything it was asked to.
    pub(super) fn sync(&self) -> Result<(), DeskError> {
        self.connection.get_input_focus()?.reply()?;
        Ok(())
    }

    /// A property that is a list of numbers. Empty when there is none, or no window.
    pub(super) fn numbers(&self, window: WindowId, property: Atom) -> Result<Vec<u32>, DeskError> {
        let reply = self.property(window, property)?;
        Ok(reply.and_then(|reply| Some(reply.value32()?.collect())).unwrap_or_default())
    }

    /// A property that is text. Empty when there is none, or no window.
    pub(super) fn text(
        &self,
        window: WindowId,
        property: impl Into<Atom>,
    ) -> Result<String, DeskError> {
        let reply = self.property(window, property.into())?;
        let Some(reply) = reply.filter(|reply| reply.format == 8) else {
            return Ok(String::new());
        };
        // The old kind of text is in Latin-1, whatever the locale is.
        if reply.type_ == Atom::from(AtomEnum::STRING) {
            return Ok(reply.value.into_iter().map(char::from).collect());
        }
        Ok(String::from_utf8_lossy(&reply.value).into_owned())
    }

    fn property(
        &self,
        window: WindowId,
        property: Atom,
    ) -> Result<Option<x11rb::protocol::xproto::GetPropertyReply>, DeskError> {
        use x11rb::errors::ReplyError;
        let any = AtomEnum::ANY;
        let asked =
            self.connection.get_property(false, window, property, any, 0, LONGEST_PROPERTY)?;
        match asked.reply() {
            Ok(reply) => Ok(Some(reply)),
            // The window has gone meanwhile.
            Err(ReplyError::X11Error(_)) => Ok(None),
            Err(ReplyError::ConnectionError(error)) => Err(error.into()),
        }
    }

    /// Pictures are read as four bytes a pixel: blue, green, red, nothing. That is
    /// what the servers we start have; another one is not understood.
    fn check_pixels(&self) -> Result<(), DeskError> {
        let setup = self.connection.setup();
        let screen = first_screen(&self.connection)?;
        let bits = setup.pixmap_formats.iter().find(|format| format.depth == screen.root_depth);
        let four_bytes = bits.is_some_and(|format| format.bits_per_pixel == 32);
        let mut visuals = screen.allowed_depths.iter().flat_map(|depth| &depth.visuals);
        let visual = visuals.find(|visual| visual.visual_id == screen.root_visual);
        let usual = visual.is_some_and(|visual| {
            (visual.red_mask, visual.green_mask, visual.blue_mask) == (0xff_0000, 0xff00, 0xff)
        });
        if four_bytes && usual && setup.image_byte_order == ImageOrder::LSB_FIRST {
            return Ok(());
        }
        let why = "the screen does not have 8 bits a colour in the usual order";
        Err(DeskError::Protocol(why.to_owned()))
    }
}

fn first_screen(connection: &RustConnection) -> Result<&Screen, DeskError> {
    let screen = connection.setup().roots.first();
    screen.ok_or_else(|| DeskError::Protocol("it has no screen".to_owned()))
}
