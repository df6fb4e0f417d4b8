//! The file: nbformat 4.5, written as Jupyter itself writes it, with sorted keys, one space of
//! indentation and texts as lists of lines. A notebook that is opened and saved is the same.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::SerializeSeq;
use serde_json::Value;

use crate::cell::Language;

/// A whole notebook.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Document {
    pub(crate) cells: Vec<DocumentCell>,
    pub(crate) metadata: Metadata,
    pub(crate) nbformat: u32,
    pub(crate) nbformat_minor: u32,
}

impl Document {
    pub(crate) fn to_json(&self) -> String {
        let mut bytes = Vec::new();
        let form = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, form);
        // Memory takes everything, and every key is a string: this cannot fail.
        if self.serialize(&mut writer).is_err() {
            return String::new();
        }
        bytes.push(b'\n');
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// What a notebook says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Metadata {
    pub(crate) cofferdam: Source,
    pub(crate) kernelspec: KernelSpec,
    pub(crate) language_info: LanguageInfo,
    pub(crate) title: String,
}

/// Where it came from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Source {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    pub(crate) kernel: String,
}

/// The kernel that JupyterLab starts for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct KernelSpec {
    display_name: &'static str,
    language: &'static str,
    name: &'static str,
}

/// How its code is shown before a kernel runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LanguageInfo {
    codemirror_mode: &'static str,
    file_extension: &'static str,
    mimetype: &'static str,
    name: &'static str,
    nbconvert_exporter: &'static str,
    pygments_lexer: &'static str,
}

impl KernelSpec {
    pub(crate) fn of(language: Language) -> Self {
        match language {
            Language::Python => {
                Self { display_name: "Python 3 (ipykernel)", language: "python", name: "python3" }
            }
            Language::TypeScript => {
                Self { display_name: "Deno", language: "typescript", name: "deno" }
            }
        }
    }
}

impl LanguageInfo {
    pub(crate) fn of(language: Language) -> Self {
        match language {
            Language::Python => Self {
                codemirror_mode: "python",
                file_extension: ".py",
                mimetype: "text/x-python",
                name: "python",
                nbconvert_exporter: "python",
                pygments_lexer: "ipython3",
            },
            Language::TypeScript => Self {
                codemirror_mode: "typescript",
                file_extension: ".ts",
                mimetype: "text/x.typescript",
                name: "typescript",
                nbconvert_exporter: "script",
                pygments_lexer: "typescript",
            },
        }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "cell_type", rename_all = "snake_case")]
pub(crate) enum DocumentCell {
    Code {
        execution_count: Option<u32>,
        id: String,
        metadata: Empty,
        outputs: Vec<DocumentOutput>,
        source: Lines,
    },
    Markdown {
        id: String,
        metadata: Empty,
        source: Lines,
    },
}

/// `{}`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Empty {}

/// Something below a cell. Its fields are in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum DocumentOutput {
    Stream {
        name: &'static str,
        output_type: &'static str,
        text: Lines,
    },
    Result {
        data: BTreeMap<String, Data>,
        execution_count: Option<u32>,
        metadata: Empty,
        output_type: &'static str,
    },
    Display {
        data: BTreeMap<String, Data>,
        metadata: Empty,
        output_type: &'static str,
    },
    Error {
        ename: String,
        evalue: String,
        output_type: &'static str,
        traceback: Vec<String>,
    },
}

/// One form of something shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Data {
    /// Text, in lines.
    Text(Lines),
    /// Base64, and text that is not for people, in one piece.
    Whole(String),
    /// JSON is not text but what it means.
    Json(Value),
}

/// A text that is written as a list of its lines, each with its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lines(pub(crate) String);

impl Serialize for Lines {
    fn serialize<Writer: serde::Serializer>(
        &self,
        writer: Writer,
    ) -> Result<Writer::Ok, Writer::Error> {
        let mut list = writer.serialize_seq(None)?;
        for line in self.0.split_inclusive('\n') {
            list.serialize_element(line)?;
        }
        list.end()
    }
}
