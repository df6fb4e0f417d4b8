//! Code cells and what came of them, whoever ran them and wherever they go.

/// A language that cells are written in. Its tool has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Run by ipykernel.
    Python,
    /// Run by Deno.
    TypeScript,
}

impl Language {
    /// The language of a tool; `None` if the tool runs no cells.
    #[must_use]
    pub fn of_tool(tool: &str) -> Option<Self> {
        [Self::Python, Self::TypeScript].into_iter().find(|language| language.tool() == tool)
    }

    /// The tool that runs cells in it.
    #[must_use]
    pub fn tool(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
        }
    }
}

/// A cell that was to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What it is written in.
    pub language: Language,
    /// Which of the job's kernels for that language. They share nothing.
    pub kernel: String,
    /// The code.
    pub code: String,
    /// What came of it, in its order.
    pub outputs: Vec<Output>,
}

impl Cell {
    /// The kernel of a cell that names none.
    pub const KERNEL: &'static str = "main";
}

/// Something that came of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Text that was printed.
    Printed {
        /// Where to.
        stream: Stream,
        /// The text.
        text: String,
    },
    /// The value of its last expression.
    Result(Bundle),
    /// Something that it showed on the way.
    Display(Bundle),
    /// What went wrong in it.
    Error {
        /// The kind of error: `ZeroDivisionError`, say.
        name: String,
        /// What it says.
        value: String,
        /// Where it happened, in lines. Colour codes stay as they are.
        traceback: String,
    },
    /// What the host has to say of the cell.
    Note(String),
    /// The kernel was started anew for this cell (it was idle for too long, say), so that
    /// everything before it is forgotten, and why.
    Started(String),
    /// The kernel was started anew after this cell, so that it and everything before it is
    /// forgotten, and why.
    Restarted(String),
}

/// Where text was printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One thing in several forms, of which a reader takes the best that it can show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(pub Vec<Part>);

/// One form of a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its media type.
    pub mime: String,
    /// The text, or base64 where the type is a picture's.
    pub data: String,
}

impl Part {
    /// The form that everything has.
    pub(crate) const PLAIN: &'static str = "text/plain";

    /// A form of something.
    pub fn new(mime: impl Into<String>, data: impl Into<String>) -> Self {
        Self { mime: mime.into(), data: data.into() }
    }

    /// Whether it is a picture of pixels, in base64.
    #[must_use]
    pub fn is_picture(&self) -> bool {
        is_picture(&self.mime)
    }
}

/// Pictures that models and browsers both can see. SVG is text.
pub(crate) fn is_picture(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Whether this can be a media type: two short words of harmless characters.
pub(crate) fn is_mime(mime: &str) -> bool {
    let word = |word: &str| {
        let harmless = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c);
        !word.is_empty() && word.len() <= 100 && word.chars().all(harmless)
    };
    mime.split_once('/').is_some_and(|(kind, subtype)| word(kind) && word(subtype))
}
