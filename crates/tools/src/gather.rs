//! What a workspace tells the models: instructions and skills. They are words of
//! whoever wrote the workspace, never policy.
//!
//! Files are read by the guest, a bounded part of a bounded number; one that is
//! no plain file, leads out of the workspace or is not text is left out. An empty
//! workspace costs one question.

mod skill;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cofferdam_guest_protocol::{Entry, EntryKind};
use cofferdam_sandbox::{Files, Ignored, Range, Sandbox};
use cofferdam_types::{Instructions, Skill};
use futures_util::future::join_all;

use crate::cut::readable;

/// Files of instructions, the first that is there counts.
const INSTRUCTIONS: [&str; 3] = ["AGENTS.override.md", "AGENTS.md", "CLAUDE.md"];

/// Directories of skills; of two skills of one name the first counts.
const SKILLS: [&str; 2] = [".agents/skills", ".claude/skills"];

/// Bytes of instructions.
const LONGEST: u64 = 32 << 10;

/// Bytes of a skill's file that are looked at for its head.
const SKILL_HEAD: u64 = 8 << 10;

/// Skills that are named.
const MOST_SKILLS: usize = 50;

/// Names of the workspace that are looked at.
const MOST_NAMES: u32 = 10_000;

/// Files of instructions deeper in the workspace that are named.
const MOST_NESTED: usize = 20;

/// How long those are looked for: a large workspace must not hold up the start.
const NESTED_TIME: Duration = Duration::from_millis(250);

/// How long all of it may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// What a workspace tells the models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Files of instructions, the most general first. Those deeper in the
    /// workspace have no text here: whoever works there reads them.
    pub instructions: Vec<Instructions>,
    /// Skills that can be read when they are needed, by name.
    pub skills: Vec<Skill>,
}

/// Gathers what the workspace of a sandbox tells the models. What cannot be read
/// is left out.
pub async fn gather(sandbox: &Sandbox) -> Gathered {
    let found = tokio::time::timeout(DEADLINE, in_workspace(&sandbox.files())).await;
    found.unwrap_or_default()
}

async fn in_workspace(files: &Files) -> Gathered {
    let Ok(root) = files.list(".", 1, MOST_NAMES).await else { return Gathered::default() };
    let has = |name: &str| root.records.iter().any(|entry| entry.path == name.as_bytes());
    let directories = root.records.iter().any(|entry| entry.stat.kind == EntryKind::Directory);
    let own = INSTRUCTIONS.into_iter().filter(|name| has(name)).collect();
    let skills =
        SKILLS.into_iter().filter(|path| path.split('/').next().is_some_and(has)).collect();
    let (own, nested, skills) = tokio::join!(
        instructions(files, own),
        nested(files, directories),
        skills_in(files, skills)
    );
    Gathered { instructions: own.into_iter().chain(nested).collect(), skills }
}

/// The first of these files that says anything.
async fn instructions(files: &Files, names: Vec<&str>) -> Option<Instructions> {
    for name in names {
        let Ok(content) = files.read(name, Range::first(LONGEST)).await else { continue };
        let mut text = readable(&content.bytes);
        let cut = content.stat.size > content.bytes.len() as u64;
        if cut && text.ends_with(char::REPLACEMENT_CHARACTER) {
            // Half a character.
            text.pop();
        }
        if memchr::memchr(0, &content.bytes).is_none() && !text.trim().is_empty() {
            return Some(Instructions { path: name.to_owned(), text, cut });
        }
    }
    None
}

/// Files of instructions below the first level.
async fn nested(files: &Files, directories: bool) -> Vec<Instructions> {
    if !directories {
        return Vec::new();
    }
    let pattern = format!("*/**/{{{}}}", INSTRUCTIONS.join(","));
    let limit = u32::try_from(MOST_NESTED * INSTRUCTIONS.len()).unwrap_or(u32::MAX);
    let found = files.glob(".", pattern, Ignored::LeaveOut, limit);
    let Ok(Ok(found)) = tokio::time::timeout(NESTED_TIME, found).await else { return Vec::new() };
    // In each directory the one that counts.
    let mut places: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let plain = found.records.iter().filter(|entry| entry.stat.kind == EntryKind::File);
    for path in plain.map(|entry| readable(&entry.path)) {
        let Some((place, name)) = path.rsplit_once('/') else { continue };
        let rank = INSTRUCTIONS.iter().position(|one| *one == name).unwrap_or(INSTRUCTIONS.len());
        let best = places.entry(place.to_owned()).or_insert((usize::MAX, String::new()));
        if rank < best.0 {
            *best = (rank, path);
        }
    }
    let named = places.into_values().take(MOST_NESTED);
    named.map(|(_, path)| Instructions { path, text: String::new(), cut: true }).collect()
}

/// The skills in these directories, by name.
async fn skills_in(files: &Files, directories: Vec<&str>) -> Vec<Skill> {
    let listings = directories.iter().map(|directory| {
        let limit = u32::try_from(MOST_SKILLS).unwrap_or(u32::MAX);
        files.glob(*directory, "*/SKILL.md", Ignored::Include, limit)
    });
    let mut found: Vec<Entry> = Vec::new();
    for listing in join_all(listings).await.into_iter().flatten() {
        found.extend(listing.records);
    }
    found.truncate(MOST_SKILLS);
    let skills = join_all(found.into_iter().map(|entry| skill_of(files, entry))).await;
    let mut names = BTreeSet::new();
    let mut skills: Vec<Skill> =
        skills.into_iter().flatten().filter(|skill| names.insert(skill.name.clone())).collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    skills
}

async fn skill_of(files: &Files, entry: Entry) -> Option<Skill> {
    let path = String::from_utf8(entry.path).ok()?;
    let name = path.rsplit('/').nth(1)?.to_owned();
    let content = files.read(path.as_str(), Range::first(SKILL_HEAD)).await.ok()?;
    let description = skill::description(&readable(&content.bytes), &name)?;
    Some(Skill { name, description, path })
}
