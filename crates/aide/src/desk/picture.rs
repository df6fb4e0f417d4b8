//! Pictures: pixels as the X server gives them, made smaller, written as PNG.

use cofferdam_aide_protocol::{Region, Size};

use super::error::DeskError;

/// Pixels of four bytes: blue, green, red, nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pixels {
    size: Size,
    bytes: Vec<u8>,
}

/// What the pointer looks like.
pub(super) struct Cursor {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) width: usize,
    /// Opacity, red, green, blue from the highest byte on; the colours are
    /// multiplied with the opacity already.
    pub(super) pixels: Vec<u32>,
}

impl Pixels {
    pub(super) fn new(size: Size, bytes: Vec<u8>) -> Result<Self, DeskError> {
        let wanted = u64::from(size.width) * u64::from(size.height) * 4;
        if bytes.len() as u64 == wanted && wanted > 0 {
            return Ok(Self { size, bytes });
        }
        let why = format!("it gave {} bytes of a screen instead of {wanted}", bytes.len());
        Err(DeskError::Protocol(why))
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// The rows, from top to bottom.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.size.width as usize * 4)
    }

    /// Draws the pointer where it is. `region` is what these pixels show.
    pub(super) fn draw(&mut self, cursor: &Cursor, region: Region) {
        let row_length = self.size.width as usize * 4;
        for (row, pixels) in cursor.pixels.chunks(cursor.width.max(1)).enumerate() {
            let Some(y) = place(cursor.top, row, region.from.y, self.size.height) else { continue };
            for (column, pixel) in pixels.iter().enumerate() {
                let Some(x) = place(cursor.left, column, region.from.x, self.size.width) else {
                    continue;
                };
                let start = y * row_length + x * 4;
                let under = self.bytes.get_mut(start..start + 3).unwrap_or_default();
                let [blue, green, red, opacity] = pixel.to_le_bytes();
                for (under, over) in under.iter_mut().zip([blue, green, red]) {
                    let through = u32::from(*under) * u32::from(255 - opacity) / 255;
                    *under = u8::try_from(through + u32::from(over)).unwrap_or(u8::MAX);
                }
            }
        }
    }

    /// Red, green, blue for each pixel of a smaller picture (or one as large): the
    /// average of all that it covers.
    pub(super) fn shrink(&self, to: Size) -> Vec<u8> {
        if to == self.size {
            let pixels = self.bytes.chunks_exact(4);
            return pixels.flat_map(|pixel| pixel.iter().take(3).rev().copied()).collect();
        }
        let columns = spans(self.size.width, to.width);
        let mut out = Vec::with_capacity(to.width as usize * to.height as usize * 3);
        let mut sums = vec![0_u32; to.width as usize * 3];
        let mut row = vec![0_u32; to.width as usize * 3];
        let mut row_is = None;
        let row_length = self.size.width as usize * 4;
        for span in spans(self.size.height, to.height) {
            sums.fill(0);
            for (at, weight) in (span.first..).zip(&span.weights) {
                // A row at the edge of two spans has a share in both.
                if row_is != Some(at) {
                    let start = at * row_length;
                    let source = self.bytes.get(start..start + row_length).unwrap_or_default();
                    average_row(source, &columns, self.size.width, &mut row);
                    row_is = Some(at);
                }
                for (sum, value) in sums.iter_mut().zip(&row) {
                    *sum += value * weight;
                }
            }
            // The row is in units of 1/256, the weights add up to the height.
            let whole = self.size.height * 256;
            let average = |sum: &u32| u8::try_from((sum + whole / 2) / whole).unwrap_or(u8::MAX);
            out.extend(sums.iter().map(average));
        }
        out
    }
}

/// Where a pixel of the pointer falls, if it falls into the picture.
fn place(start: i32, offset: usize, from: u32, length: u32) -> Option<usize> {
    let at = i64::from(start) + i64::try_from(offset).ok()? - i64::from(from);
    usize::try_from(at).ok().filter(|at| *at < length as usize)
}

/// What one pixel of a smaller picture covers, one way: pixels of the larger one, each
/// with a weight. The weights add up to the length of the larger one.
struct Span {
    first: usize,
    weights: Vec<u32>,
}

/// Divides `from` pixels among `to` pixels, where `to` is not more.
fn spans(from: u32, to: u32) -> Vec<Span> {
    // In units in which a pixel of the larger picture is `to` long, and one of the
    // smaller `from`.
    let (long, short) = (u64::from(from), u64::from(to));
    let span = |number: u64| {
        let (start, end) = (number * long, (number + 1) * long);
        let (first, last) = (start / short, end.div_ceil(short));
        let weight = |at: u64| {
            let part = end.min((at + 1) * short).saturating_sub(start.max(at * short));
            u32::try_from(part).unwrap_or(u32::MAX)
        };
        Span {
            first: usize::try_from(first).unwrap_or(usize::MAX),
            weights: (first..last).map(weight).collect(),
        }
    };
    (0..short).map(span).collect()
}

/// Averages along a row: red, green, blue in units of 1/256.
fn average_row(source: &[u8], columns: &[Span], width: u32, out: &mut [u32]) {
    for (span, out) in columns.iter().zip(out.chunks_exact_mut(3)) {
        let mut sums = [0_u32; 3];
        let start = span.first * 4;
        let pixels = source.get(start..start + span.weights.len() * 4).unwrap_or_default();
        for (pixel, weight) in pixels.chunks_exact(4).zip(&span.weights) {
            if let [blue, green, red, _] = pixel {
                for (sum, value) in sums.iter_mut().zip([red, green, blue]) {
                    *sum += u32::from(*value) * weight;
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = (sum * 256 + width / 2) / width;
        }
    }
}

/// Writes red, green, blue as PNG, quickly.
pub(super) fn png(size: Size, rgb: &[u8]) -> Result<Vec<u8>, DeskError> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(rgb)?;
        writer.finish()
    });
    written.map_err(|error| DeskError::Broken(format!("cannot write PNG: {error}")))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use cofferdam_aide_protocol::Point;

    use super::*;

    fn grey(width: u32, height: u32, values: &[u8]) -> Pixels {
        let bytes = values.iter().flat_map(|value| [*value, *value, *value, 0]).collect();
        Pixels::new(Size { width, height }, bytes).unwrap()
    }

    fn shrunk(pixels: &Pixels, width: u32, height: u32) -> Vec<u8> {
        pixels.shrink(Size { width, height }).chunks(3).map(|pixel| pixel[0]).collect()
    }

    #[test]
    fn colours_keep_their_places() {
        let pixels = Pixels::new(Size { width: 1, height: 1 }, vec![1, 2, 3, 9]).unwrap();
        assert_eq!(pixels.shrink(pixels.size()), [3, 2, 1]);
        let wide = Pixels::new(Size { width: 2, height: 1 }, vec![1, 2, 3, 9, 1, 2, 3, 9]).unwrap();
        assert_eq!(wide.shrink(Size { width: 1, height: 1 }), [3, 2, 1]);
    }

    #[test]
    fn a_smaller_picture_is_the_average() {
        let pixels = grey(4, 2, &[0, 100, 10, 20, 100, 200, 30, 40]);
        assert_eq!(shrunk(&pixels, 2, 1), [100, 25]);
        assert_eq!(shrunk(&pixels, 1, 1), [63]);
        // Three pixels on two: the one in the middle goes to both.
        assert_eq!(shrunk(&grey(3, 1, &[0, 90, 240]), 2, 1), [30, 190]);
        assert_eq!(shrunk(&grey(1, 3, &[0, 90, 240]), 1, 2), [30, 190]);
    }

    #[test]
    fn one_colour_stays_one_colour() {
        for value in [0, 1, 127, 254, 255] {
            let pixels = grey(37, 29, &[value; 37 * 29]);
            for (width, height) in [(36, 28), (19, 29), (37, 1), (5, 7)] {
                let small = shrunk(&pixels, width, height);
                assert!(small.iter().all(|small| *small == value), "{value} {width} {height}");
            }
        }
    }

    #[test]
    fn the_largest_screen_does_not_overflow() {
        let pixels = grey(8192, 4, &[255; 8192 * 4]);
        assert!(shrunk(&pixels, 1000, 1).iter().all(|value| *value == 255));
        let pixels = grey(4, 8192, &[255; 8192 * 4]);
        assert!(shrunk(&pixels, 1, 1000).iter().all(|value| *value == 255));
    }

    #[test]
    fn the_pointer_is_drawn_where_it_is() {
        let mut pixels = grey(2, 2, &[100; 4]);
        let region = Region { from: Point { x: 10, y: 10 }, to: Point { x: 12, y: 12 } };
        // Half of it is outside; one pixel is white, one can be seen through.
        let cursor = Cursor {
            left: 9,
            top: 11,
            width: 3,
            pixels: vec![0xff00_0000, 0xffff_ffff, 0x8000_0000, 0xff00_0000, 0, 0],
        };
        pixels.draw(&cursor, region);
        assert_eq!(shrunk(&pixels, 2, 2), [100, 100, 255, 49]);
    }

    #[test]
    fn png_can_be_read_again() {
        let pixels = grey(3, 2, &[0, 50, 100, 150, 200, 250]);
        let rgb = pixels.shrink(pixels.size());
        let bytes = png(pixels.size(), &rgb).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut back = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut back).unwrap();
        assert_eq!((info.width, info.height), (3, 2));
        assert_eq!(back, rgb);
    }
}
