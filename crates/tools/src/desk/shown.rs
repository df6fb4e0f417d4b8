//! What comes of an action on the desktop, held within bounds, for a model.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_aide_protocol::{
    DEFAULT_LIMITS, DeskFailure, DeskFailureKind, DeskPiece, Picture, Size, Window,
};
use cofferdam_types::{CallId, Content, Rest, ToolStatus};

use crate::cut;
use crate::hands::Episode;
use crate::outputs::Outputs;

/// A larger picture is not shown.
const LARGEST_PICTURE: usize = 4 << 20;

/// Pictures of one action.
const MOST_PICTURES: usize = 2;

/// Bytes of text of one action that are taken in.
const LONGEST_TEXT: usize = 256 << 10;

/// Bytes of one reason that are shown.
const LONGEST_REASON: usize = 2_000;

/// Every picture begins so: the signature, and the head of the part with its size.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";

/// What came so far.
pub(super) struct Shown {
    text: String,
    pictures: Vec<Coming>,
    left_out: bool,
    /// How it ended, for the model.
    pub(super) status: ToolStatus,
    /// Why it was not done, if it was not.
    pub(super) failure: Option<DeskFailureKind>,
    /// Whether it is known how it ended.
    pub(super) ended: bool,
}

struct Coming {
    head: Picture,
    bytes: Vec<u8>,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            text: String::new(),
            pictures: Vec::new(),
            left_out: false,
            status: ToolStatus::Unknown,
            failure: None,
            ended: false,
        }
    }
}

impl Shown {
    pub(super) fn take(&mut self, piece: DeskPiece) {
        match piece {
            DeskPiece::Picture(_) if self.pictures.len() >= MOST_PICTURES => self.left_out = true,
            DeskPiece::Picture(head) => self.pictures.push(Coming { head, bytes: Vec::new() }),
            DeskPiece::PictureBytes(bytes) if !self.left_out => {
                if let Some(picture) = self.pictures.last_mut()
                    && picture.bytes.len() <= LARGEST_PICTURE
                {
                    picture.bytes.extend(bytes);
                }
            }
            DeskPiece::PictureBytes(_) => {}
            DeskPiece::Cursor(at) => self.note(&format!("x={}, y={}", at.x, at.y)),
            DeskPiece::Windows { windows, left_out } => {
                if windows.is_empty() {
                    self.note("no windows");
                }
                for window in windows {
                    self.note(&line(&window));
                }
                if left_out > 0 {
                    self.note(&format!("and {left_out} more"));
                }
            }
            DeskPiece::Change { region, waited_ms } => match region {
                Some(region) => self.note(&format!(
                    "changed after {waited_ms} ms: [{}, {}, {}, {}]",
                    region.from.x, region.from.y, region.to.x, region.to.y
                )),
                None => self.note(&format!("no change within {waited_ms} ms")),
            },
            DeskPiece::Script { stdout, stderr, code } => self.script(&stdout, &stderr, code),
            DeskPiece::Done => self.end(ToolStatus::Done),
            DeskPiece::Failed(DeskFailure { kind, why }) => {
                self.failure = Some(kind);
                self.note(&bounded(why));
                self.end(match kind {
                    DeskFailureKind::Refused => ToolStatus::Refused,
                    _ => ToolStatus::Failed,
                });
            }
            // Not what an action has to say.
            DeskPiece::Ready(_) | DeskPiece::Stopped(_) => {}
        }
    }

    fn script(&mut self, stdout: &str, stderr: &str, code: Option<i32>) {
        for text in [stdout, stderr] {
            if !text.trim().is_empty() {
                self.note(text.trim_end());
            }
        }
        match code {
            Some(0) => {}
            Some(code) => self.note(&format!("[xdotool: exit code {code}]")),
            None => self.note("[xdotool was ended]"),
        }
    }

    fn end(&mut self, status: ToolStatus) {
        (self.status, self.ended) = (status, true);
    }

    /// Says something on a line of its own.
    pub(super) fn note(&mut self, text: &str) {
        if self.text.len() + text.len() > LONGEST_TEXT {
            self.left_out = true;
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    /// What became of it is not known.
    pub(super) fn broken(&mut self, why: &str) {
        let why = bounded(why.to_owned());
        self.note(&format!("what became of the action is not known: {why}. Take a screenshot"));
        (self.status, self.ended) = (ToolStatus::Unknown, true);
    }

    /// The last picture.
    pub(super) fn into_picture(mut self) -> Result<Vec<u8>, String> {
        match self.pictures.pop() {
            Some(picture) if self.status == ToolStatus::Done => {
                picture.checked().map(|(_, png)| png)
            }
            _ => Err(self.text),
        }
    }

    /// What a model is shown, how it ended, and where the rest of a long text is.
    pub(super) async fn finish(
        mut self,
        outputs: &Arc<Outputs>,
        call: CallId,
    ) -> (Vec<Content>, ToolStatus, Option<Rest>) {
        let mut pictures = Vec::new();
        for picture in std::mem::take(&mut self.pictures) {
            match picture.checked() {
                Ok((size, png)) => {
                    self.note(&format!("screen, {}x{}:", size.width, size.height));
                    pictures.push(image(&png));
                }
                Err(why) => self.note(&why),
            }
        }
        if self.left_out {
            self.note("[more was left out]");
        }
        if self.text.is_empty() {
            self.note("done");
        }
        let shown = cut::output(outputs, call, self.status, &self.text).await;
        let content = shown.content.into_iter().chain(pictures).collect();
        (content, self.status, shown.rest)
    }
}

impl Coming {
    /// The picture, if it is one that a model can be shown. One that a provider refuses
    /// would end the job.
    fn checked(self) -> Result<(Size, Vec<u8>), String> {
        let Self { head, bytes } = self;
        if bytes.len() > LARGEST_PICTURE {
            return Err("[the picture is too large to be shown]".to_owned());
        }
        let damaged = || "[the picture is damaged; take a screenshot]".to_owned();
        let side = |at: usize| {
            let bytes = bytes.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*bytes))
        };
        let size = match (side(PNG.len()), side(PNG.len() + 4)) {
            (Some(width), Some(height)) => Size { width, height },
            _ => return Err(damaged()),
        };
        let whole = bytes.starts_with(PNG) && bytes.len() as u64 == head.bytes;
        if !whole || size.width == 0 || size.height == 0 || DEFAULT_LIMITS.fit(size) != size {
            return Err(damaged());
        }
        Ok((size, bytes))
    }
}

fn image(png: &[u8]) -> Content {
    Content::Image { media_type: "image/png".to_owned(), data: STANDARD.encode(png) }
}

fn line(window: &Window) -> String {
    let Window { id, title, class, left, top, size, focused, hidden } = window;
    let title: String = title.chars().take(200).collect();
    let class: String = class.chars().take(80).collect();
    let mut line =
        format!("{id:#x} {title:?} ({class}) at {left},{top} {}x{}", size.width, size.height);
    for (is, word) in [(*focused, " focused"), (*hidden, " minimized")] {
        if is {
            line.push_str(word);
        }
    }
    line
}

/// A reason that came from inside.
pub(super) fn bounded(mut why: String) -> String {
    if let Some((at, _)) = why.char_indices().nth(LONGEST_REASON) {
        why.truncate(at);
        why.push('…');
    }
    why
}

/// What a model is told about a person who had the hands.
pub(super) fn episode(episode: &Episode) -> Vec<Content> {
    let seconds = episode.took.as_secs();
    let mut text = format!("A person had the desktop for {seconds} s.");
    let pictures: Vec<_> =
        [&episode.before, &episode.after].into_iter().flatten().map(|png| image(png)).collect();
    match (&episode.before, &episode.after) {
        (Some(_), Some(_)) => text.push_str(" The screen before and after it:"),
        (Some(_), None) => text.push_str(" The screen before it:"),
        (None, Some(_)) => text.push_str(" The screen after it:"),
        (None, None) => text.push_str(" Take a screenshot to see what became of it."),
    }
    std::iter::once(Content::text(text)).chain(pictures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_aide_protocol::{Point, Region, picture_pieces};

    const SIZE: Size = Size { width: 1280, height: 800 };

    /// As much of a picture as is looked at.
    fn png(size: Size, length: usize) -> Vec<u8> {
        let mut bytes = PNG.to_vec();
        bytes.extend(size.width.to_be_bytes());
        bytes.extend(size.height.to_be_bytes());
        bytes.resize(length, 7);
        bytes
    }

    fn shown(pieces: impl IntoIterator<Item = DeskPiece>) -> (Vec<Content>, ToolStatus) {
        let mut shown = Shown::default();
        pieces.into_iter().for_each(|piece| shown.take(piece));
        let directory = tempfile::tempdir().unwrap();
        let outputs = Arc::new(Outputs::in_directory(directory.path().to_owned()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (content, status, _) = runtime.block_on(shown.finish(&outputs, CallId(1)));
        (content, status)
    }

    fn picture(size: Size, bytes: &[u8]) -> Vec<DeskPiece> {
        picture_pieces(size, size, bytes).chain([DeskPiece::Done]).collect()
    }

    #[test]
    fn a_picture_is_a_picture_for_the_model() {
        let bytes = png(SIZE, 300_000);
        let (content, status) = shown(picture(SIZE, &bytes));
        assert_eq!(content, [Content::text("screen, 1280x800:"), image(&bytes)]);
        assert_eq!(status, ToolStatus::Done);
    }

    #[test]
    fn what_no_provider_would_take_is_not_shown() {
        let wide = Size { width: 9000, height: 8 };
        let none = Size { width: 0, height: 800 };
        let mut longer = picture(SIZE, &png(SIZE, 1_000));
        longer.insert(1, DeskPiece::PictureBytes(vec![1]));
        for (pieces, expected) in [
            (picture(wide, &png(wide, 1_000)), "damaged"),
            (picture(none, &png(none, 1_000)), "damaged"),
            (picture(SIZE, b"GIF89a, which is something else"), "damaged"),
            (picture(SIZE, &png(SIZE, 1_000)[..20]), "damaged"),
            (picture(SIZE, &png(SIZE, LARGEST_PICTURE + 1)), "too large"),
            (longer, "damaged"),
        ] {
            let (content, _) = shown(pieces);
            let [Content::Text { text }] = content.as_slice() else { panic!("{content:?}") };
            assert!(text.contains(expected), "{text}");
        }
        let many = (0..9).flat_map(|_| picture(SIZE, &png(SIZE, 1_000)));
        let (content, _) = shown(many);
        let pictures = content.iter().filter(|part| matches!(part, Content::Image { .. }));
        assert_eq!(pictures.count(), MOST_PICTURES);
    }

    #[test]
    fn what_is_said_is_short_and_plain() {
        let window = Window {
            id: 0x40_0003,
            title: "a \n\u{1b}[31mtitle".to_owned(),
            class: "XTerm".to_owned(),
            left: -5,
            top: 20,
            size: SIZE,
            focused: true,
            hidden: false,
        };
        let region = Region { from: Point { x: 1, y: 2 }, to: Point { x: 3, y: 4 } };
        let script = |stdout: &str, stderr: &str, code| DeskPiece::Script {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            code,
        };
        let pieces = [
            DeskPiece::Cursor(Point { x: 7, y: 8 }),
            DeskPiece::Windows { windows: vec![window], left_out: 2 },
            DeskPiece::Windows { windows: Vec::new(), left_out: 0 },
            DeskPiece::Change { region: Some(region), waited_ms: 40 },
            DeskPiece::Change { region: None, waited_ms: 50 },
            script("out\n", "", Some(0)),
            script("", "bad\n", Some(1)),
            script("", "", None),
            DeskPiece::Done,
        ];
        let (content, status) = shown(pieces);
        let expected = "x=7, y=8\n\
             0x400003 \"a \\n\\u{1b}[31mtitle\" (XTerm) at -5,20 1280x800 focused\n\
             and 2 more\n\
             no windows\n\
             changed after 40 ms: [1, 2, 3, 4]\n\
             no change within 50 ms\n\
             out\n\
             bad\n\
             [xdotool: exit code 1]\n\
             [xdotool was ended]";
        assert_eq!(content, [Content::text(expected)]);
        assert_eq!(status, ToolStatus::Done);
        assert_eq!(shown([DeskPiece::Done]).0, [Content::text("done")]);
    }

    #[test]
    fn failures_say_why_and_how_much_is_known() {
        let failed = |kind, why: &str| DeskPiece::Failed(DeskFailure { kind, why: why.to_owned() });
        let (content, status) = shown([failed(DeskFailureKind::Refused, "no such key")]);
        assert_eq!((content, status), (vec![Content::text("no such key")], ToolStatus::Refused));
        let long = "é".repeat(5_000);
        let (content, status) = shown([failed(DeskFailureKind::Broken, &long)]);
        let [Content::Text { text }] = content.as_slice() else { panic!("{content:?}") };
        assert_eq!((text.chars().count(), status), (LONGEST_REASON + 1, ToolStatus::Failed));
        assert_eq!(shown([]).1, ToolStatus::Unknown);
    }

    #[test]
    fn a_flood_of_words_is_bounded() {
        let flood = (0..10_000).map(|_| DeskPiece::Script {
            stdout: "x".repeat(1_000),
            stderr: String::new(),
            code: Some(0),
        });
        let mut shown = Shown::default();
        flood.for_each(|piece| shown.take(piece));
        assert!(shown.text.len() <= LONGEST_TEXT && shown.left_out);
    }
}
