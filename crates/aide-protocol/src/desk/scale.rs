//! Between the screen and the picture of it that a model is shown.
//!
//! Models see pictures up to some size. A larger screen is shown smaller, and what
//! the model points at is mapped back to the middle of the pixels it stands for.
//! Going to the screen and back again ends where it began.

use serde::{Deserialize, Serialize};

/// What models can see well, if nothing else is said.
pub const DEFAULT_LIMITS: PictureLimits = PictureLimits { longest: 1568, pixels: 1_150_000 };

/// How large something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// A pixel, counted from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// To the right.
    pub x: u32,
    /// Down.
    pub y: u32,
}

/// A rectangle. It has at least one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its upper left pixel.
    pub from: Point,
    /// The lower right corner: the first pixel that is no longer in it, both ways.
    pub to: Point,
}

impl Region {
    /// How large it is.
    #[must_use]
    pub fn size(self) -> Size {
        Size {
            width: self.to.x.saturating_sub(self.from.x),
            height: self.to.y.saturating_sub(self.from.y),
        }
    }

    /// All of something.
    #[must_use]
    pub fn all(of: Size) -> Self {
        Self { from: Point { x: 0, y: 0 }, to: Point { x: of.width, y: of.height } }
    }
}

/// How large a picture may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureLimits {
    /// Its longest side.
    pub longest: u32,
    /// Width times height.
    pub pixels: u32,
}

impl PictureLimits {
    /// How large something of this size is shown: never larger than it is, and with
    /// at least one pixel.
    #[must_use]
    pub fn fit(self, size: Size) -> Size {
        let (width, height) = (f64::from(size.width.max(1)), f64::from(size.height.max(1)));
        let by_side = f64::from(self.longest) / width.max(height);
        let by_pixels = (f64::from(self.pixels) / (width * height)).sqrt();
        let factor = by_side.min(by_pixels);
        if factor >= 1.0 {
            return Size { width: size.width.max(1), height: size.height.max(1) };
        }
        // A hair more, so that 0.1 + 0.2 does not cost a pixel.
        let part = |side: f64| ((side * factor + 1e-9).floor() as u32).max(1);
        Size { width: part(width), height: part(height) }
    }
}

/// A screen and how large it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The screen.
    pub screen: Size,
    /// The picture of it.
    pub shown: Size,
}

impl Scale {
    /// A screen, shown within limits.
    #[must_use]
    pub fn new(screen: Size, limits: PictureLimits) -> Self {
        Self { screen, shown: limits.fit(screen) }
    }

    /// The pixel of the screen in the middle of what a pixel of the picture shows.
    /// None when the point is outside of the picture.
    #[must_use]
    pub fn to_screen(self, shown: Point) -> Option<Point> {
        let inside = shown.x < self.shown.width && shown.y < self.shown.height;
        inside.then(|| Point {
            x: middle(shown.x, self.shown.width, self.screen.width),
            y: middle(shown.y, self.shown.height, self.screen.height),
        })
    }

    /// The pixel of the picture that shows a pixel of the screen.
    #[must_use]
    pub fn to_shown(self, screen: Point) -> Point {
        let last = |side: u32| side.saturating_sub(1);
        Point {
            x: middle(screen.x, self.screen.width, self.shown.width).min(last(self.shown.width)),
            y: middle(screen.y, self.screen.height, self.shown.height).min(last(self.shown.height)),
        }
    }

    /// A length or place on the screen, which may be outside of it, as the picture
    /// would show it.
    #[must_use]
    pub fn length_to_shown(self, x: i32, y: i32) -> (i32, i32) {
        let part = |length: i32, from: u32, to: u32| {
            let scaled = i64::from(length) * i64::from(to) / i64::from(from.max(1));
            scaled.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
        };
        (
            part(x, self.screen.width, self.shown.width),
            part(y, self.screen.height, self.shown.height),
        )
    }

    /// What a region of the picture shows: every pixel of the screen that has a part
    /// in it. None when it is empty or not inside the picture.
    #[must_use]
    pub fn region_to_screen(self, shown: Region) -> Option<Region> {
        let fits = shown.from.x < shown.to.x
            && shown.from.y < shown.to.y
            && shown.to.x <= self.shown.width
            && shown.to.y <= self.shown.height;
        fits.then(|| cover(shown, self.shown, self.screen))
    }

    /// The pixels of the picture that show anything of a region of the screen.
    #[must_use]
    pub fn region_to_shown(self, screen: Region) -> Region {
        cover(screen, self.screen, self.shown)
    }
}

/// The middle of one of `from` equal parts, on a line that has `to` of them.
fn middle(at: u32, from: u32, to: u32) -> u32 {
    let twice = u64::from(at) * 2 + 1;
    u32::try_from(twice * u64::from(to) / (2 * u64::from(from.max(1)))).unwrap_or(u32::MAX)
}

/// The smallest region of whole pixels in `to` that covers a region of `from`.
fn cover(region: Region, from: Size, to: Size) -> Region {
    let down = |at: u32, from: u32, to: u32| {
        u32::try_from(u64::from(at) * u64::from(to) / u64::from(from.max(1))).unwrap_or(u32::MAX)
    };
    let up = |at: u32, from: u32, to: u32| {
        let exact = (u64::from(at) * u64::from(to)).div_ceil(u64::from(from.max(1)));
        u32::try_from(exact).unwrap_or(u32::MAX).min(to)
    };
    Region {
        from: Point {
            x: down(region.from.x, from.width, to.width),
            y: down(region.from.y, from.height, to.height),
        },
        to: Point {
            x: up(region.to.x, from.width, to.width),
            y: up(region.to.y, from.height, to.height),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn a_screen_within_the_limits_is_shown_as_it_is() {
        for screen in [size(1024, 768), size(1280, 800), size(1, 1)] {
            assert_eq!(DEFAULT_LIMITS.fit(screen), screen);
        }
    }

    #[test]
    fn a_larger_one_is_shown_smaller() {
        assert_eq!(DEFAULT_LIMITS.fit(size(1920, 1200)), size(1356, 847));
        assert_eq!(DEFAULT_LIMITS.fit(size(3840, 600)), size(1568, 245));
        assert_eq!(DEFAULT_LIMITS.fit(size(65_535, 1)), size(1568, 1));
    }

    #[test]
    fn what_is_pointed_at_is_the_middle_of_what_was_shown() {
        let scale = Scale { screen: size(2000, 1000), shown: size(1000, 500) };
        assert_eq!(scale.to_screen(Point { x: 0, y: 0 }), Some(Point { x: 1, y: 1 }));
        assert_eq!(scale.to_screen(Point { x: 999, y: 499 }), Some(Point { x: 1999, y: 999 }));
        assert_eq!(scale.to_screen(Point { x: 1000, y: 0 }), None);
    }

    #[test]
    fn regions_cover_what_they_show() {
        let scale = Scale { screen: size(1500, 1500), shown: size(1000, 1000) };
        let shown = Region { from: Point { x: 1, y: 1 }, to: Point { x: 2, y: 2 } };
        let screen = Region { from: Point { x: 1, y: 1 }, to: Point { x: 3, y: 3 } };
        assert_eq!(scale.region_to_screen(shown), Some(screen));
        let empty = Region { from: Point { x: 2, y: 1 }, to: Point { x: 2, y: 2 } };
        assert_eq!(scale.region_to_screen(empty), None);
        assert_eq!(scale.region_to_screen(Region::all(size(1001, 1000))), None);
    }

    proptest! {
        #[test]
        fn limits_are_kept(
            width in 1_u32..20_000, height in 1_u32..20_000,
            longest in 64_u32..4000, pixels in 20_000_u32..9_000_000,
        ) {
            let fit = PictureLimits { longest, pixels }.fit(size(width, height));
            prop_assert!(fit.width.max(fit.height) <= longest);
            // One pixel high is the least there is.
            prop_assert!(fit.height == 1 || fit.width == 1 || fit.width * fit.height <= pixels);
            prop_assert!(fit.width <= width && fit.height <= height);
        }

        #[test]
        fn there_and_back_again(
            width in 1_u32..8000, height in 1_u32..8000, x in 0.0..1.0, y in 0.0..1.0,
        ) {
            let scale = Scale::new(size(width, height), DEFAULT_LIMITS);
            let part = |part: f64, side: u32| (part * f64::from(side)) as u32;
            let shown = Point { x: part(x, scale.shown.width), y: part(y, scale.shown.height) };
            let screen = scale.to_screen(shown).unwrap();
            prop_assert!(screen.x < width && screen.y < height);
            prop_assert_eq!(scale.to_shown(screen), shown);
            let region = Region { from: shown, to: Point { x: shown.x + 1, y: shown.y + 1 } };
            let covered = scale.region_to_screen(region).unwrap();
            prop_assert!(covered.from.x <= screen.x && screen.x < covered.to.x);
            prop_assert!(covered.from.y <= screen.y && screen.y < covered.to.y);
        }
    }
}
