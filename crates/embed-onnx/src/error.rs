//! What can be wrong with the files of a model.

use std::path::PathBuf;
use std::time::Duration;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file cannot be read.
    #[error("{path:?} cannot be read: {source}")]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is longer than any that is read.
    #[error("{path:?} is longer than {most_mib} MiB")]
    TooLong {
        /// Which one.
        path: PathBuf,
        /// How long it may be.
        most_mib: u64,
    },
    /// A directory has no file that could be the model, or several.
    #[error("{path:?} holds {found} .onnx files and none of them is model.onnx")]
    WhichModel {
        /// The directory.
        path: PathBuf,
        /// How many could be meant.
        found: usize,
    },
    /// It is in a directory that sandboxes write to, or a way to it leads through one.
    #[error(
        "the way to it leads into {place:?}, where jobs may write; what they put there would run outside their sandbox"
    )]
    Theirs {
        /// The directory.
        place: PathBuf,
    },
    /// Somebody else could have put it there.
    #[error("{path:?} cannot be trusted with what runs in this process: {cause}")]
    Exposed {
        /// The file, or a directory on the way to it.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// The tokenizer is none, or of another kind.
    #[error("{path:?} is no tokenizer that is known here: {cause}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The library that runs models is not there, or an old one.
    #[error("ONNX Runtime cannot be loaded: {0}")]
    Library(String),
    /// The file is no ONNX model, or has parts that are not known.
    #[error("{path:?} is no ONNX model that can be used here: {cause}")]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The model wants or gives something else.
    #[error("{path:?} is no model that makes vectors of texts: {cause}")]
    Purpose {
        /// The file.
        path: PathBuf,
        /// What it wants or gives.
        cause: String,
    },
    /// Making the model ready took too long.
    #[error("{path:?} was not ready within {within:?}")]
    Slow {
        /// The file.
        path: PathBuf,
        /// How long it may take.
        within: Duration,
    },
    /// There is no thread for it.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
}

impl OpenError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => {
                "name a directory, or an .onnx file, that you can read, with its tokenizer.json \
                 beside it"
            }
            Self::TooLong { .. } | Self::Slow { .. } => {
                "use a small model, such as all-MiniLM-L6-v2"
            }
            Self::WhichModel { .. } => "name the .onnx file itself",
            Self::Theirs { .. } => {
                "move the model and its library out of the workspace, to a directory that no job \
                 works in"
            }
            Self::Exposed { .. } => {
                "let it belong to root or to you, and nobody else write to it (chown, chmod go-w), \
                 or move the model to where that is so"
            }
            Self::Tokenizer { .. } => {
                "use a model of BERT's family, such as all-MiniLM-L6-v2, with the tokenizer.json it \
                 was published with"
            }
            Self::Library(_) => {
                "put libonnxruntime.so 1.17 or newer beside the model (it is in the Python package \
                 onnxruntime, below capi/), or install it for the whole system"
            }
            Self::Model { .. } => {
                "use an ONNX export of a sentence-transformers model, such as all-MiniLM-L6-v2; \
                 make sure that it was downloaded whole"
            }
            Self::Purpose { .. } => {
                "use an export for feature extraction: input_ids and attention_mask in, \
                 last_hidden_state or sentence_embedding out"
            }
            Self::Thread(_) => "free some threads or memory",
        }
    }
}
