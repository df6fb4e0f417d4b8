//! Pictures that a program gave as PNG, as pixels.

use std::io::Cursor;

/// The pixels of a picture.
#[derive(Debug)]
pub struct Picture {
    /// How wide and how high it is.
    pub size: (u32, u32),
    rgb: Vec<u8>,
}

impl Picture {
    /// The picture in a PNG of red, green and blue.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn of(png: &[u8]) -> Self {
        let reader = png::Decoder::new(Cursor::new(png)).read_info();
        let mut reader = reader.unwrap_or_else(|error| panic!("no picture: {error}"));
        let mut rgb = vec![0; reader.output_buffer_size().unwrap_or_default()];
        let info = reader.next_frame(&mut rgb).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(info.color_type, png::ColorType::Rgb);
        Self { size: (info.width, info.height), rgb }
    }

    /// The colour of a pixel.
    ///
    /// # Panics
    /// When it is outside of the picture.
    #[must_use]
    pub fn pixel(&self, [x, y]: [u32; 2]) -> [u8; 3] {
        assert!(x < self.size.0 && y < self.size.1, "{x}, {y} is outside");
        let at = (y as usize * self.size.0 as usize + x as usize) * 3;
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// How many pixels have this colour.
    #[must_use]
    pub fn count(&self, colour: [u8; 3]) -> usize {
        self.rgb.chunks(3).filter(|pixel| *pixel == colour).count()
    }
}
