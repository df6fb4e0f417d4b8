//! What a call does to files, as far as its arguments tell: lines gone and lines
//! new, without looking at any file.

use serde_json::{Map, Value};

/// A file that a call changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit<'a> {
    /// `A`, `M` or `D`.
    pub(crate) kind: char,
    pub(crate) path: &'a str,
    pub(crate) removed: Vec<&'a str>,
    pub(crate) added: Vec<&'a str>,
}

impl Edit<'_> {
    /// `+3 −1`
    pub(crate) fn counts(&self) -> String {
        counts(Some(self.added.len() as u64), Some(self.removed.len() as u64))
    }
}

/// `+3 −1`, without what is nothing or not known.
pub(crate) fn counts(added: Option<u64>, removed: Option<u64>) -> String {
    let part = |sign: char, lines: Option<u64>| {
        lines.filter(|lines| *lines > 0).map(|lines| format!("{sign}{lines}"))
    };
    let parts: Vec<String> = [part('+', added), part('−', removed)].into_iter().flatten().collect();
    parts.join(" ")
}

/// An exact replacement: the lines that both texts begin and end with are no
/// change.
pub(crate) fn replacement(arguments: &Map<String, Value>) -> Option<Edit<'_>> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let path = text("path")?;
    let old: Vec<&str> = text("old_string")?.lines().collect();
    let new: Vec<&str> = text("new_string")?.lines().collect();
    let same = |(before, after): &(&&str, &&str)| before == after;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (old.get(start..)?, new.get(start..)?);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let removed = old.get(..old.len() - end)?.to_vec();
    let added = new.get(..new.len() - end)?.to_vec();
    Some(Edit { kind: 'M', path, removed, added })
}

/// The files of a patch, in the format that begins with `*** Begin Patch`.
pub(crate) fn patch(input: &str) -> Vec<Edit<'_>> {
    let mut edits: Vec<Edit<'_>> = Vec::new();
    for line in input.lines() {
        let begun =
            [("*** Add File: ", 'A'), ("*** Update File: ", 'M'), ("*** Delete File: ", 'D')]
                .into_iter()
                .find_map(|(start, kind)| Some((line.strip_prefix(start)?, kind)));
        if let Some((path, kind)) = begun {
            edits.push(Edit { kind, path: path.trim(), removed: Vec::new(), added: Vec::new() });
        } else if let Some(edit) = edits.last_mut() {
            if let Some(added) = line.strip_prefix('+') {
                edit.added.push(added);
            } else if let Some(removed) = line.strip_prefix('-') {
                edit.removed.push(removed);
            }
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_around_a_change_do_not_count() {
        let arguments = json!({
            "path": "a.py", "old_string": "one\ntwo\nthree\n", "new_string": "one\n2\n2b\nthree\n",
        });
        let edit = replacement(arguments.as_object().unwrap()).unwrap();
        assert_eq!(
            (edit.removed.as_slice(), edit.added.as_slice()),
            (&["two"][..], &["2", "2b"][..])
        );
        assert_eq!(edit.counts(), "+2 −1");
    }

    #[test]
    fn a_text_that_grows_by_its_own_lines_is_counted_once() {
        let arguments = json!({"path": "a", "old_string": "x\n", "new_string": "x\nx\n"});
        let edit = replacement(arguments.as_object().unwrap()).unwrap();
        assert_eq!(edit.counts(), "+1");
    }

    #[test]
    fn a_patch_names_its_files() {
        let input = "*** Begin Patch\n*** Add File: new.py\n+a\n+b\n*** Update File: old.py\n@@\n \
                     same\n-gone\n+come\n*** Delete File: dead.py\n*** End Patch\n";
        let told: Vec<String> = patch(input)
            .iter()
            .map(|edit| format!("{} {} {}", edit.kind, edit.path, edit.counts()))
            .collect();
        assert_eq!(told, ["A new.py +2", "M old.py +1 −1", "D dead.py "]);
    }
}
