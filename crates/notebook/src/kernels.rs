//! The kernels that a job used, each with a name that is good for a file.

use std::collections::BTreeSet;

use crate::cell::{Cell, Language};

/// Characters of a kernel's name that are kept. No tool takes so many.
const LONGEST: usize = 100;

/// The kernels of a job, in the order in which they were first used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernels {
    list: Vec<Kernel>,
    taken: BTreeSet<String>,
}

/// A kernel of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) language: Language,
    pub(crate) kernel: String,
    /// `python`, or `python-NAME` for another one: harmless, and no other kernel's.
    pub(crate) name: String,
    /// Whether a cell was run on it, as far as is known.
    pub(crate) ran: bool,
    /// Cells of it that there was no room for.
    pub(crate) dropped: usize,
}

impl Kernels {
    /// The place of a kernel in the list. It is put there if it is new.
    pub(crate) fn place(&mut self, language: Language, kernel: &str) -> usize {
        let kernel: String = kernel.chars().take(LONGEST).collect();
        let known = |known: &Kernel| known.language == language && known.kernel == kernel;
        if let Some(place) = self.list.iter().position(known) {
            return place;
        }
        let name = self.file_name(language, &kernel);
        self.list.push(Kernel { language, kernel, name, ran: false, dropped: 0 });
        self.list.len() - 1
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Kernel> {
        self.list.get(place)
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Kernel> {
        self.list.get_mut(place)
    }

    pub(crate) fn all(&self) -> &[Kernel] {
        &self.list
    }

    fn file_name(&mut self, language: Language, kernel: &str) -> String {
        let harmless = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let word: String = kernel.chars().take(40).map(harmless).collect();
        let name = match kernel {
            Cell::KERNEL => language.tool().to_owned(),
            _ => format!("{}-{word}", language.tool()),
        };
        let mut unique = name.clone();
        let mut number = 1;
        while !self.taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{name}-{number}");
        }
        unique
    }
}
