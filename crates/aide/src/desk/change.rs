//! Whether the screen has changed: it is divided into tiles, of which only sums are
//! kept.

use std::time::Duration;

use cofferdam_aide_protocol::{Point, Region, Size};
use tokio::time::{Instant, sleep};

use super::capture::Camera;
use super::error::DeskError;
use super::picture::Pixels;

/// The side of a tile.
const TILE: u32 = 16;

/// How often the screen is looked at.
const LOOK: Duration = Duration::from_millis(40);

/// A screen is calm when it has not changed for so long.
const CALM: Duration = Duration::from_millis(120);

/// What the screen looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    size: Size,
    sums: Vec<u32>,
}

impl Tiles {
    pub(super) fn of(pixels: &Pixels) -> Self {
        let size = pixels.size();
        let mut sums = Vec::new();
        let mut row_of_tiles = vec![crc32fast::Hasher::new(); columns(size)];
        for (number, row) in (1_u32..).zip(pixels.rows()) {
            for (sum, piece) in row_of_tiles.iter_mut().zip(row.chunks(TILE as usize * 4)) {
                sum.update(piece);
            }
            if number.is_multiple_of(TILE) || number == size.height {
                sums.extend(row_of_tiles.iter_mut().map(|sum| std::mem::take(sum).finalize()));
            }
        }
        Self { size, sums }
    }

    /// The smallest region with everything that is different, of what lies in or
    /// touches `within`. Screens of different sizes are different everywhere.
    pub(super) fn difference(&self, other: &Self, within: Region) -> Option<Region> {
        if self.size != other.size {
            return Some(within);
        }
        let columns = columns(self.size);
        let mut found: Option<Region> = None;
        for (number, (one, two)) in self.sums.iter().zip(&other.sums).enumerate() {
            if one == two {
                continue;
            }
            // A screen has fewer tiles than there are numbers.
            let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX) * TILE;
            let (x, y) = (place(number % columns), place(number / columns));
            let from = Point { x: x.max(within.from.x), y: y.max(within.from.y) };
            let to = Point { x: (x + TILE).min(within.to.x), y: (y + TILE).min(within.to.y) };
            if from.x >= to.x || from.y >= to.y {
                continue;
            }
            let tile = Region { from, to };
            found = Some(found.map_or(tile, |found| Region {
                from: Point { x: found.from.x.min(from.x), y: found.from.y.min(from.y) },
                to: Point { x: found.to.x.max(to.x), y: found.to.y.max(to.y) },
            }));
        }
        found
    }

    /// As it is kept in a file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers =
            [self.size.width, self.size.height].into_iter().chain(self.sums.iter().copied());
        numbers.flat_map(u32::to_le_bytes).collect()
    }

    /// From a file.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = bytes.as_chunks::<4>() else { return None };
        let mut numbers = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let size = Size { width: numbers.next()?, height: numbers.next()? };
        let sums: Vec<u32> = numbers.collect();
        let rows = size.height.div_ceil(TILE) as usize;
        (columns(size) > 0 && sums.len() == columns(size) * rows).then_some(Self { size, sums })
    }
}

fn columns(size: Size) -> usize {
    size.width.div_ceil(TILE) as usize
}

/// Waits until the screen is different from what it was. Returns what is different,
/// or nothing when the time is over.
pub(super) async fn wait(
    camera: &mut Camera<'_>,
    before: Option<Tiles>,
    within: Region,
    time: Duration,
) -> Result<Option<Region>, DeskError> {
    let deadline = Instant::now() + time;
    let mut now = Tiles::of(&camera.take_all()?);
    let before = before.unwrap_or_else(|| now.clone());
    loop {
        if let Some(region) = before.difference(&now, within) {
            return Ok(Some(region));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        sleep(LOOK.min(left)).await;
        now = Tiles::of(&camera.take_all()?);
    }
}

/// Waits until the screen no longer changes, at most for some time.
pub(super) async fn calm(camera: &mut Camera<'_>, time: Duration) -> Result<(), DeskError> {
    let all = Region::all(camera.size);
    let deadline = Instant::now() + time;
    let mut before = Tiles::of(&camera.take_all()?);
    let mut since = Instant::now();
    while since.elapsed() < CALM && Instant::now() < deadline {
        sleep(LOOK).await;
        let now = Tiles::of(&camera.take_all()?);
        if before.difference(&now, all).is_some() {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 50, height: 40 };

    fn screen(spots: &[(usize, usize)]) -> Tiles {
        let mut bytes = vec![7; 50 * 40 * 4];
        for (x, y) in spots {
            bytes[(y * 50 + x) * 4] = 8;
        }
        Tiles::of(&Pixels::new(SIZE, bytes).unwrap())
    }

    fn region(x0: u32, y0: u32, x1: u32, y1: u32) -> Region {
        Region { from: Point { x: x0, y: y0 }, to: Point { x: x1, y: y1 } }
    }

    #[test]
    fn a_pixel_is_enough() {
        let (all, before) = (Region::all(SIZE), screen(&[]));
        assert_eq!(before.difference(&screen(&[]), all), None);
        assert_eq!(before.difference(&screen(&[(20, 3)]), all), Some(region(16, 0, 32, 16)));
        assert_eq!(before.difference(&screen(&[(49, 39)]), all), Some(region(48, 32, 50, 40)));
        let two = screen(&[(0, 0), (49, 39)]);
        assert_eq!(before.difference(&two, all), Some(all));
    }

    #[test]
    fn what_is_elsewhere_does_not_count() {
        let (before, after) = (screen(&[]), screen(&[(40, 3)]));
        assert_eq!(before.difference(&after, region(0, 0, 32, 40)), None);
        assert_eq!(before.difference(&after, region(30, 0, 35, 5)), Some(region(32, 0, 35, 5)));
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let tiles = screen(&[(20, 3)]);
        assert_eq!(Tiles::from_bytes(&tiles.to_bytes()), Some(tiles.clone()));
        assert_eq!(Tiles::from_bytes(&tiles.to_bytes()[..40]), None);
        assert_eq!(Tiles::from_bytes(b""), None);
    }
}
