//! A terminal that draws what is written to it, and notices what it should not
//! have been told.

use std::num::NonZeroU16;

use vt100::{Callbacks, Parser, Screen};

/// Everything a text could do to a terminal besides being shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Noticed(pub(crate) Vec<String>);

impl Callbacks for Noticed {
    fn audible_bell(&mut self, _: &mut Screen) {
        self.0.push("bell".to_owned());
    }
    fn visual_bell(&mut self, _: &mut Screen) {
        self.0.push("visual bell".to_owned());
    }
    fn resize(&mut self, _: &mut Screen, _: (u16, u16)) {
        self.0.push("resize".to_owned());
    }
    fn set_window_icon_name(&mut self, _: &mut Screen, _: &[u8]) {
        self.0.push("icon name".to_owned());
    }
    fn set_window_title(&mut self, _: &mut Screen, _: &[u8]) {
        self.0.push("title".to_owned());
    }
    fn copy_to_clipboard(&mut self, _: &mut Screen, _: &[u8], _: &[u8]) {
        self.0.push("clipboard".to_owned());
    }
    fn paste_from_clipboard(&mut self, _: &mut Screen, _: &[u8]) {
        self.0.push("paste".to_owned());
    }
    fn unhandled_char(&mut self, _: &mut Screen, character: char) {
        // It is a character like any other, but this terminal reports it.
        if character != char::REPLACEMENT_CHARACTER {
            self.0.push(format!("character {character:?}"));
        }
    }
    fn unhandled_control(&mut self, _: &mut Screen, byte: u8) {
        self.0.push(format!("control {byte}"));
    }
    fn unhandled_escape(&mut self, _: &mut Screen, _: Option<u8>, _: Option<u8>, byte: u8) {
        self.0.push(format!("escape {byte}"));
    }
    fn unhandled_csi(
        &mut self,
        _: &mut Screen,
        _: Option<u8>,
        _: Option<u8>,
        _: &[&[u16]],
        character: char,
    ) {
        self.0.push(format!("sequence {character}"));
    }
    fn unhandled_osc(&mut self, _: &mut Screen, _: &[&[u8]]) {
        self.0.push("system command".to_owned());
    }
}

/// A terminal high enough that nothing is scrolled away.
pub(crate) struct Terminal {
    parser: Parser<Noticed>,
}

impl Terminal {
    pub(crate) fn new(rows: u16, columns: u16) -> Self {
        let size = |cells| NonZeroU16::new(cells).unwrap();
        let noticed = Noticed::default();
        Self { parser: Parser::new_with_callbacks(size(rows), size(columns), 10_000, noticed) }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.parser.process(text.as_bytes());
    }

    pub(crate) fn resize(&mut self, columns: u16) {
        let (rows, _) = self.parser.screen().size();
        self.parser.screen_mut().set_size(rows, NonZeroU16::new(columns).unwrap());
    }

    /// What it shows, without what is empty at the end.
    pub(crate) fn screen(&self) -> String {
        let (_, columns) = self.parser.screen().size();
        let rows: Vec<String> = self
            .parser
            .screen()
            .rows(0, columns.get())
            .map(|row| row.trim_end().to_owned())
            .collect();
        rows.join("\n").trim_end().to_owned()
    }

    pub(crate) fn noticed(&self) -> &Noticed {
        self.parser.callbacks()
    }

    /// What it has been told beyond text, places and colours.
    pub(crate) fn modes(&self) -> String {
        let screen = self.parser.screen();
        format!(
            "{:?} {:?} {} {} {} {} {} {:?} {:?}",
            screen.fgcolor(),
            screen.bgcolor(),
            screen.alternate_screen(),
            screen.application_keypad(),
            screen.application_cursor(),
            screen.hide_cursor(),
            screen.bracketed_paste(),
            screen.mouse_protocol_mode(),
            (screen.bold(), screen.dim(), screen.italic(), screen.underline(), screen.inverse()),
        )
    }

    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.parser.screen().cursor_position()
    }
}
