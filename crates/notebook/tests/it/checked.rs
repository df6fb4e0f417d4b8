//! The format as its document has it, read strictly: nothing is missing and nothing is extra.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) cells: Vec<Cell>,
    pub(crate) metadata: Metadata,
    nbformat: u32,
    nbformat_minor: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metadata {
    pub(crate) kernelspec: BTreeMap<String, String>,
    pub(crate) language_info: BTreeMap<String, String>,
    #[serde(rename = "title")]
    _title: String,
    #[serde(rename = "cofferdam")]
    _source: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(tag = "cell_type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Cell {
    Code {
        execution_count: Option<u32>,
        id: String,
        metadata: Map<String, Value>,
        outputs: Vec<Output>,
        source: Vec<String>,
    },
    Markdown {
        id: String,
        metadata: Map<String, Value>,
        source: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(tag = "output_type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Output {
    Stream {
        name: String,
        text: Vec<String>,
    },
    ExecuteResult {
        data: BTreeMap<String, Value>,
        execution_count: Option<u32>,
        metadata: Map<String, Value>,
    },
    DisplayData {
        data: BTreeMap<String, Value>,
        metadata: Map<String, Value>,
    },
    Error {
        #[serde(rename = "ename")]
        _ename: String,
        #[serde(rename = "evalue")]
        _evalue: String,
        traceback: Vec<String>,
    },
}

/// Reads a notebook and holds it against the format.
#[track_caller]
pub(crate) fn checked(text: &str) -> File {
    let file: File = serde_json::from_str(text).unwrap();
    assert_eq!((file.nbformat, file.nbformat_minor), (4, 5));
    assert!(file.metadata.kernelspec.contains_key("name"));
    assert!(file.metadata.kernelspec.contains_key("display_name"));
    assert!(file.metadata.language_info.contains_key("name"));
    let mut ids = HashSet::new();
    for cell in &file.cells {
        let (Cell::Code { id, metadata, source, .. } | Cell::Markdown { id, metadata, source }) =
            cell;
        assert!((1..=64).contains(&id.len()), "{id}");
        assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{id}");
        assert!(ids.insert(id.as_str()), "{id} comes twice");
        assert!(metadata.is_empty(), "nothing is said to be trusted");
        lines(source);
        if let Cell::Code { execution_count, outputs, .. } = cell {
            outputs.iter().for_each(|output| check(output, *execution_count));
        }
    }
    file
}

fn check(output: &Output, count: Option<u32>) {
    match output {
        Output::Stream { name, text } => {
            assert!(name == "stdout" || name == "stderr", "{name}");
            assert!(!text.is_empty());
            lines(text);
        }
        Output::ExecuteResult { data, execution_count, metadata } => {
            assert_eq!(*execution_count, count);
            assert!(metadata.is_empty());
            data.iter().for_each(bundle);
        }
        Output::DisplayData { data, metadata } => {
            assert!(metadata.is_empty());
            data.iter().for_each(bundle);
        }
        Output::Error { traceback, .. } => {
            assert!(traceback.iter().all(|line| !line.contains('\n')));
        }
    }
}

fn bundle((mime, data): (&String, &Value)) {
    assert!(mime.contains('/'), "{mime}");
    let json = mime.starts_with("application/") && mime.ends_with("json");
    let list = |list: &Vec<Value>| list.iter().all(Value::is_string);
    assert!(json || data.is_string() || data.as_array().is_some_and(list), "{mime}: {data}");
}

/// Every line but the last has an end, and none has one before its end.
fn lines(lines: &[String]) {
    for (number, line) in lines.iter().enumerate() {
        let ends = line.matches('\n').count();
        assert!(ends == 1 && line.ends_with('\n') || ends == 0 && number + 1 == lines.len());
        assert!(!line.is_empty());
    }
}
