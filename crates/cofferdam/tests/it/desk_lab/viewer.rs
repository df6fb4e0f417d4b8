//! A VNC viewer of our own, which sends whatever it likes.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::PATIENCE;
use crate::served::{Served, read_until};

/// A viewer over a WebSocket.
pub(crate) struct Viewer {
    stream: TcpStream,
    /// Bytes of the screen that have come and are not taken yet.
    screen: Vec<u8>,
    /// What the server has said besides.
    pub(crate) told: String,
}

/// Asks for the screen; the answer's head, and the connection.
pub(crate) fn ask(served: &Served, job: &str, headers: &[(&str, &str)]) -> (String, TcpStream) {
    let address = served.address;
    let mut head = format!(
        "GET /api/v1/jobs/{job}/desktop/screen HTTP/1.1\r\nHost: {address}\r\nConnection: \
         Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \
         dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut head = Vec::new();
    // Not a byte more: what follows is the screen's.
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    (String::from_utf8(head).unwrap(), stream)
}

impl Viewer {
    /// Past the handshake, with the screen of this size.
    pub(crate) fn connect(served: &Served, job: &str) -> (Self, u16, u16) {
        let offered = format!("cofferdam.screen.v1, bearer.{}", served.token);
        let (head, stream) = ask(served, job, &[("Sec-WebSocket-Protocol", &offered)]);
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.to_lowercase().contains("sec-websocket-protocol: cofferdam.screen.v1\r\n"));
        assert!(!head.contains("bearer"), "{head}");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut viewer = Self { stream, screen: Vec::new(), told: String::new() };
        assert_eq!(viewer.take(12), b"RFB 003.008\n");
        viewer.send(b"RFB 003.008\n");
        assert_eq!(viewer.take(2), [1, 1], "no password");
        // Nobody else may look: but all may.
        viewer.send(&[1]);
        assert_eq!(viewer.take(4), [0; 4]);
        viewer.send(&[0]);
        let size = viewer.take(4);
        viewer.take(16);
        let name = u32::from_be_bytes(viewer.take(4).try_into().unwrap());
        viewer.take(name as usize);
        // Raw pixels.
        viewer.send(&[2, 0, 0, 1, 0, 0, 0, 0]);
        let side = |bytes: &[u8]| u16::from_be_bytes(bytes.try_into().unwrap());
        (viewer, side(&size[..2]), side(&size[2..]))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.write(2, bytes);
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.write(1, text.as_bytes());
    }

    fn write(&mut self, kind: u8, payload: &[u8]) {
        assert!(payload.len() < 126);
        let mut frame = vec![0x80 | kind, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).unwrap();
    }

    /// The next bytes of the screen.
    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.screen.len() < length {
            self.hear();
        }
        self.screen.drain(..length).collect()
    }

    /// Takes in one message of the server's.
    fn hear(&mut self) {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).unwrap();
        let mut length = vec![
            0;
            match head[1] {
                126 => 2,
                127 => 8,
                _ => 0,
            }
        ];
        self.stream.read_exact(&mut length).unwrap();
        let long = length.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
        let mut payload = vec![0; if length.is_empty() { usize::from(head[1]) } else { long }];
        self.stream.read_exact(&mut payload).unwrap();
        match head[0] & 0xf {
            1 => self.told.push_str(&String::from_utf8(payload).unwrap()),
            2 => self.screen.extend(payload),
            8 => panic!("it is closed: {}", String::from_utf8_lossy(&payload[2..])),
            _ => {}
        }
    }

    /// Waits until the server has said this.
    pub(crate) fn until_told(&mut self, words: &str) {
        while !self.told.contains(words) {
            self.hear();
        }
        self.told.clear();
    }

    /// Waits for a pixel that was asked for after everything that was sent before.
    pub(crate) fn pixel(&mut self, x: u16, y: u16) -> [u8; 3] {
        let [left, top] = [x.to_be_bytes(), y.to_be_bytes()];
        self.send(&[3, 0, left[0], left[1], top[0], top[1], 0, 1, 0, 1]);
        loop {
            match self.take(1)[0] {
                0 => {}
                2 => continue,
                3 => {
                    self.take(3);
                    let length = u32::from_be_bytes(self.take(4).try_into().unwrap());
                    self.take(length as usize);
                    continue;
                }
                other => panic!("a message of type {other}"),
            }
            if let Some(pixel) = self.update(x, y) {
                return pixel;
            }
        }
    }

    /// Takes a message with parts of the screen; the pixel, if it is in one of them. A
    /// server may send more than was asked for: where it draws the pointer itself, that.
    fn update(&mut self, x: u16, y: u16) -> Option<[u8; 3]> {
        self.take(1);
        let count = u16::from_be_bytes(self.take(2).try_into().unwrap());
        let mut found = None;
        for _ in 0..count {
            let head = self.take(12);
            let [left, top, width, height] =
                [0, 2, 4, 6].map(|at| usize::from(u16::from_be_bytes([head[at], head[at + 1]])));
            assert_eq!(head[8..], [0; 4], "raw pixels");
            let pixels = self.take(width * height * 4);
            let (x, y) = (usize::from(x).checked_sub(left), usize::from(y).checked_sub(top));
            if let (Some(x), Some(y)) = (x, y)
                && x < width
                && y < height
            {
                let at = (y * width + x) * 4;
                found = Some([pixels[at + 2], pixels[at + 1], pixels[at]]);
            }
        }
        found
    }

    /// The connection as it is, for what ends it.
    pub(crate) fn until_closed(mut self, words: &str) {
        let said = read_until(&mut self.stream, words.as_bytes());
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains(words), "{said}");
    }
}
