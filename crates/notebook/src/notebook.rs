//! Notebooks of a job: one for each kernel, each within its limits.

use std::collections::BTreeMap;

use cofferdam_types::Record;

use crate::cell::{Bundle, Language, Output, Part};
use crate::format::{
    Data, Document, DocumentCell, DocumentOutput, Empty, KernelSpec, LanguageInfo, Lines, Metadata,
    Source,
};
use crate::kernels::Kernel;
use crate::log::{Reader, Step, Story, story_within};
use crate::markdown;
use crate::room::{room, shorten};

/// Around a cell in the file, and around an output.
pub(crate) const CELL: usize = 320;
const OUTPUT: usize = 240;

/// What is said of the notebook itself, at most, and of cells that are left out.
const FRAME: usize = 2_048;

/// How large a notebook may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its file. Less than 16 KiB is taken for that.
    pub file: usize,
    /// Bytes of one text or picture in the file.
    pub output: usize,
    /// Bytes of words between two cells.
    pub said: usize,
}

impl Limits {
    const LEAST: usize = 16 * 1024;

    fn file(&self) -> usize {
        self.file.max(Self::LEAST)
    }
}

impl Default for Limits {
    /// What JupyterLab opens without a pause.
    fn default() -> Self {
        Self { file: 48 << 20, output: 4 << 20, said: 2 << 10 }
    }
}

/// A notebook that can be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Notebook {
    /// A name for its file, without `.ipynb`: `python`, or `python-NAME` for another kernel.
    pub name: String,
    /// Its language.
    pub language: Language,
    /// Its kernel.
    pub kernel: String,
    /// How many code cells it has.
    pub cells: usize,
    document: Document,
}

impl Notebook {
    /// The file's text.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.document.to_json()
    }
}

/// Why there is no such notebook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNotebook {
    /// The job has run no cells.
    #[error("the job has run no code cells")]
    NoCells,
    /// There is none of this name.
    #[error("the job has no notebook {wanted:?}, only {}", listed(names))]
    Unknown {
        /// The name.
        wanted: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// There are several, and nobody said which.
    #[error("the job has a notebook for each of its kernels: {}", listed(names))]
    Several {
        /// Those that there are.
        names: Vec<String>,
    },
}

/// Names that an error repeats.
const NAMED: usize = 10;

fn listed(names: &[String]) -> String {
    let mut named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = format!("and {more} more");
    if names.len() > NAMED {
        named.push(&more);
    }
    named.join(", ")
}

impl Reader {
    /// The notebook that was asked for, or the only one. Kernels on which nothing was ever run
    /// do not make it ambiguous.
    ///
    /// # Errors
    /// When there is none, or there are several.
    pub fn notebook(self) -> Result<Notebook, NoNotebook> {
        let (limits, wanted) = (self.limits, self.wanted.clone());
        let story = self.story();
        let kernels = story.kernels.all();
        let names = |kernels: &[&Kernel]| kernels.iter().map(|one| one.name.clone()).collect();
        let all: Vec<&Kernel> = kernels.iter().collect();
        let used: Vec<&Kernel> = kernels.iter().filter(|kernel| kernel.ran).collect();
        let chosen = match (&wanted, &all[..], &used[..]) {
            (_, [], _) => return Err(NoNotebook::NoCells),
            (Some(wanted), ..) => {
                let named = kernels.iter().position(|kernel| kernel.name == *wanted);
                named.ok_or_else(|| {
                    let (wanted, names) = (wanted.chars().take(100).collect(), names(&all));
                    NoNotebook::Unknown { wanted, names }
                })?
            }
            (None, [_], _) => 0,
            (None, _, [_]) => kernels.iter().position(|kernel| kernel.ran).unwrap_or_default(),
            (None, _, []) => return Err(NoNotebook::Several { names: names(&all) }),
            (None, ..) => return Err(NoNotebook::Several { names: names(&used) }),
        };
        notebook(&story, chosen, &limits).ok_or(NoNotebook::NoCells)
    }
}

/// The notebooks of a job, in the order in which their kernels were first used; none, if it ran
/// no cells.
#[must_use]
pub fn notebooks(records: &[Record], limits: &Limits) -> Vec<Notebook> {
    let story = story_within(records, limits);
    (0..story.kernels.all().len()).filter_map(|kernel| notebook(&story, kernel, limits)).collect()
}

fn notebook(story: &Story, place: usize, limits: &Limits) -> Option<Notebook> {
    let Kernel { language, kernel, name, dropped, .. } = story.kernels.get(place)?;
    let steps = story.steps.iter().filter(|step| step.kernel == place);
    let draft = Draft::new(story, limits);
    let (cells, document) = draft.filled(steps, *dropped, *language, kernel);
    let (name, language, kernel) = (name.clone(), *language, kernel.clone());
    Some(Notebook { name, language, kernel, cells, document })
}

/// A notebook that becomes longer.
struct Draft<'a> {
    story: &'a Story,
    limits: &'a Limits,
    cells: Vec<DocumentCell>,
    /// Bytes of the file that are not used yet.
    left: usize,
    /// How many cells the kernel has run since it was started.
    count: u32,
}

impl<'a> Draft<'a> {
    fn new(story: &'a Story, limits: &'a Limits) -> Self {
        let left = limits.file().saturating_sub(FRAME);
        Self { story, limits, cells: Vec::new(), left, count: 0 }
    }

    /// Puts everything in. Also says how many code cells that is.
    fn filled<'s>(
        mut self,
        steps: impl Iterator<Item = &'s Step>,
        mut dropped: usize,
        language: Language,
        kernel: &str,
    ) -> (usize, Document) {
        // The words around the cells never take more than a quarter.
        let words = self.limits.file() / 8;
        self.words("title".to_owned(), markdown::title(&self.story.task, words / 2));
        let summary = self.story.summary.as_deref().map(str::trim).unwrap_or_default();
        let summary = match summary {
            "" => String::new(),
            summary => markdown::said(&[shorten(summary, words)], words),
        };
        self.left = self.left.saturating_sub(room(&summary) + CELL);
        let (mut kept, mut full) = (0, false);
        for step in steps {
            // A hole would make a notebook that does something else when it is run again.
            full = full || !self.step(step);
            if full {
                dropped += 1;
            } else {
                kept += 1;
            }
        }
        self.left = self.limits.file();
        if dropped > 0 {
            let text =
                format!("*{dropped} more cells are left out: the notebook would be too large.*");
            self.words("left-out".to_owned(), text);
        }
        if !summary.is_empty() {
            self.words("summary".to_owned(), summary);
        }
        let job = self.story.job.map(|job| job.to_string());
        let metadata = Metadata {
            cofferdam: Source { job, kernel: kernel.chars().take(100).collect() },
            kernelspec: KernelSpec::of(language),
            language_info: LanguageInfo::of(language),
            title: markdown::heading(&self.story.task),
        };
        (kept, Document { cells: self.cells, metadata, nbformat: 4, nbformat_minor: 5 })
    }

    /// Takes room, if there is so much.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    fn words(&mut self, id: String, text: String) {
        if self.take(room(&text) + CELL) {
            self.cells.push(DocumentCell::Markdown { id, metadata: Empty {}, source: Lines(text) });
        }
    }

    /// Puts in a cell with what was said before it; says whether there was room.
    fn step(&mut self, step: &Step) -> bool {
        if !self.take(room(&step.cell.code) + CELL) {
            return false;
        }
        if !step.said.is_empty() {
            let said = markdown::said(&step.said, self.limits.said);
            self.words(format!("said-{}", step.call), said);
        }
        let any = |wanted: fn(&Output) -> bool| step.cell.outputs.iter().any(wanted);
        if any(|output| matches!(output, Output::Started(_))) {
            self.count = 0;
        }
        let count = step.ran.then(|| {
            self.count = self.count.saturating_add(1);
            self.count
        });
        let outputs = self.outputs(&step.cell.outputs, count);
        self.cells.push(DocumentCell::Code {
            execution_count: count,
            id: format!("call-{}", step.call),
            metadata: Empty {},
            outputs,
            source: Lines(step.cell.code.clone()),
        });
        if any(|output| matches!(output, Output::Restarted(_))) {
            self.count = 0;
        }
        true
    }

    fn outputs(&mut self, outputs: &[Output], count: Option<u32>) -> Vec<DocumentOutput> {
        let mut written: Vec<DocumentOutput> = Vec::new();
        let mut dropped = 0;
        for output in outputs {
            if self.left < self.limits.file() / 16 {
                dropped += 1;
                continue;
            }
            let Some(output) = self.output(output, count) else { continue };
            join(&mut written, output);
        }
        if dropped > 0 {
            let text =
                format!("{dropped} more outputs are left out: the notebook would be too large.");
            let note = self.note(&text);
            join(&mut written, note);
        }
        written
    }

    fn output(&mut self, output: &Output, count: Option<u32>) -> Option<DocumentOutput> {
        Some(match output {
            Output::Printed { text, .. } if text.is_empty() => return None,
            Output::Printed { stream, text } => {
                let text = Lines(self.text(text));
                DocumentOutput::Stream { name: stream.name(), output_type: "stream", text }
            }
            Output::Result(bundle) => DocumentOutput::Result {
                data: self.bundle(bundle)?,
                execution_count: count,
                metadata: Empty {},
                output_type: "execute_result",
            },
            Output::Display(bundle) => DocumentOutput::Display {
                data: self.bundle(bundle)?,
                metadata: Empty {},
                output_type: "display_data",
            },
            Output::Error { name, value, traceback } => {
                let traceback = self.text(traceback);
                DocumentOutput::Error {
                    ename: self.text(name),
                    evalue: self.text(value),
                    output_type: "error",
                    traceback: traceback.split('\n').map(str::to_owned).collect(),
                }
            }
            Output::Note(text) => self.note(text),
            Output::Started(why) => {
                self.note(&format!("The kernel was started anew before this cell: {why}"))
            }
            Output::Restarted(why) => {
                self.note(&format!("The kernel was started anew after this cell: {why}"))
            }
        })
    }

    /// The host's words, where a notebook has room for them.
    fn note(&mut self, text: &str) -> DocumentOutput {
        let text = Lines(self.text(&format!("[{}]\n", text.trim_end())));
        DocumentOutput::Stream { name: "stderr", output_type: "stream", text }
    }

    /// A text cut to what one may have and what is left.
    fn text(&mut self, text: &str) -> String {
        let most = self.limits.output.min(self.left.saturating_sub(OUTPUT) / 2);
        let text = shorten(text, most);
        self.left = self.left.saturating_sub(room(&text) + OUTPUT);
        text
    }

    /// All forms of something; `None` if it has none.
    fn bundle(&mut self, bundle: &Bundle) -> Option<BTreeMap<String, Data>> {
        let mut data = BTreeMap::new();
        for part in &bundle.0 {
            let (mime, part) = self.part(part);
            data.entry(mime).or_insert(part);
        }
        (!data.is_empty()).then_some(data)
    }

    fn part(&mut self, part: &Part) -> (String, Data) {
        let own = |data| (part.mime.clone(), data);
        let plain = |text| (Part::PLAIN.to_owned(), Data::Text(Lines(text)));
        let size = room(&part.data);
        let fits = size + OUTPUT <= self.limits.output.min(self.left / 2);
        if !crate::cell::is_mime(&part.mime) {
            plain(self.text(&part.data))
        } else if is_text(&part.mime) {
            own(Data::Text(Lines(self.text(&part.data))))
        } else if !fits {
            let bytes = part.data.len();
            plain(self.text(&format!("[{} of {bytes} bytes is left out]", part.mime)))
        } else if is_json(&part.mime) {
            // Indentation makes it longer than it was.
            match serde_json::from_str(&part.data) {
                Ok(value) if self.take(written(&value) + OUTPUT) => own(Data::Json(value)),
                _ => plain(self.text(&part.data)),
            }
        } else if part.is_picture() && !is_base64(&part.data) {
            plain(self.text(&format!("[{} that cannot be read]", part.mime)))
        } else {
            self.left = self.left.saturating_sub(size + OUTPUT);
            own(Data::Whole(part.data.clone()))
        }
    }
}

/// Puts an output after the others. Text that goes on where text of the same stream was is one.
fn join(written: &mut Vec<DocumentOutput>, output: DocumentOutput) {
    if let DocumentOutput::Stream { name, text, .. } = &output
        && let Some(DocumentOutput::Stream { name: before, text: so_far, .. }) = written.last_mut()
        && name == before
    {
        so_far.0.push_str(&text.0);
        return;
    }
    written.push(output);
}

/// What is written in lines, as Jupyter does it.
fn is_text(mime: &str) -> bool {
    mime.starts_with("text/") || matches!(mime, "image/svg+xml" | "application/javascript")
}

/// What nbformat takes for JSON.
fn is_json(mime: &str) -> bool {
    mime.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

fn is_base64(data: &str) -> bool {
    data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(&byte))
}

/// Room for a JSON value, each part of it on a line of its own.
fn written(value: &serde_json::Value) -> usize {
    fn at(value: &serde_json::Value, depth: usize) -> usize {
        use serde_json::Value;
        let inner = match value {
            Value::Array(list) => list.iter().map(|value| at(value, depth + 1)).sum(),
            Value::Object(object) => {
                object.iter().map(|(key, value)| room(key) + at(value, depth + 1)).sum()
            }
            Value::String(text) => room(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => 40,
        };
        inner + 2 * depth + 8
    }
    at(value, 8)
}
