//! The names under which calls and their results go back to a provider.
//!
//! A provider refuses every later request of a conversation in which two calls
//! have one name, and models and servers do write such. So each name is used
//! once: the second call of a name gets a number, and its result the same. A name
//! depends on the calls before it alone, so it stays what it is while the
//! conversation grows.

use std::collections::HashMap;

use cofferdam_model::Wire;
use cofferdam_types::{ToolCall, ToolResult};

use crate::calls::{identifier, numbered};

/// The names used so far in a conversation.
pub(crate) struct Ids<'a> {
    wire: Wire,
    /// Every name that is sent, with the last number that was tried on it.
    used: HashMap<String, u32>,
    /// Calls of the last turn without a result: as they came, and as they are sent.
    open: Vec<(&'a str, String)>,
}

impl<'a> Ids<'a> {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, used: HashMap::new(), open: Vec::new() }
    }

    /// A turn of the model begins: results that are still to come are of its calls.
    pub(crate) fn begin_turn(&mut self) {
        self.open.clear();
    }

    /// The name of the next call.
    pub(crate) fn of_call(&mut self, call: &'a ToolCall) -> String {
        let first = self.accepted(&call.id);
        let mut sent = first.clone();
        let mut number = self.used.get(&first).copied().unwrap_or_default();
        while self.used.contains_key(&sent) {
            number += 1;
            sent = numbered(&first, number);
        }
        // The next call of this name need not try the same numbers again.
        self.used.insert(first, number.max(1));
        self.used.entry(sent.clone()).or_insert(1);
        self.open.push((&call.id, sent.clone()));
        sent
    }

    /// The name of the next result: that of the first call it can belong to.
    pub(crate) fn of_result(&mut self, result: &ToolResult) -> String {
        match self.open.iter().position(|(came, _)| *came == result.id) {
            Some(place) => self.open.remove(place).1,
            None => self.accepted(&result.id),
        }
    }

    /// A name as the wire takes it. Only one of them is particular.
    fn accepted(&self, id: &str) -> String {
        match self.wire {
            Wire::Messages => identifier(id),
            Wire::Responses | Wire::Chat => id.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_types::Arguments;

    use super::*;

    /// The names that turns of calls are sent under; every result has its call's.
    fn sent(wire: Wire, turns: &[&[&str]]) -> Vec<String> {
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            name: "bash".to_owned(),
            arguments: Arguments(String::new()),
        };
        let turns: Vec<Vec<ToolCall>> =
            turns.iter().map(|turn| turn.iter().map(call).collect()).collect();
        let mut ids = Ids::new(wire);
        let mut sent = Vec::new();
        for turn in &turns {
            ids.begin_turn();
            let calls: Vec<String> = turn.iter().map(|call| ids.of_call(call)).collect();
            let results: Vec<String> = turn
                .iter()
                .map(|ToolCall { id, .. }| {
                    let (id, content) = (id.clone(), Vec::new());
                    ids.of_result(&ToolResult { id, content, failed: false })
                })
                .collect();
            assert_eq!(calls, results);
            sent.extend(calls);
        }
        sent
    }

    #[test]
    fn no_name_is_sent_twice() {
        let cases: &[(&[&[&str]], &[&str])] = &[
            (&[&["a", "b"], &["c"]], &["a", "b", "c"]),
            (&[&["a", "a", "a"]], &["a", "a_2", "a_3"]),
            (&[&["a"], &["a"], &["b", "a"]], &["a", "a_2", "b", "a_3"]),
            (&[&["a", "a_2"], &["a"]], &["a", "a_2", "a_3"]),
            (&[&["a", "a"], &["a_2", "a"]], &["a", "a_2", "a_2_2", "a_3"]),
        ];
        for (turns, expected) in cases {
            for wire in [Wire::Messages, Wire::Responses, Wire::Chat] {
                assert_eq!(sent(wire, turns), *expected, "{wire:?}");
            }
        }
    }

    #[test]
    fn names_that_only_become_the_same_by_being_made_acceptable_are_told_apart() {
        let (one, other) = ("x".repeat(70), "x".repeat(80));
        let turns: &[&[&str]] = &[&["a.b", "a:b", "", "unnamed", &one], &[&other]];
        let long = "x".repeat(64);
        let cut = format!("{}_2", "x".repeat(62));
        let expected = ["a_b", "a_b_2", "unnamed", "unnamed_2", &long, &cut];
        assert_eq!(sent(Wire::Messages, turns), expected);
        // Elsewhere they go back as they came.
        assert_eq!(sent(Wire::Chat, turns), ["a.b", "a:b", "", "unnamed", &one, &other]);
    }

    #[test]
    fn a_result_is_never_that_of_an_earlier_turn() {
        let call = ToolCall {
            id: "a".to_owned(),
            name: "bash".to_owned(),
            arguments: Arguments(String::new()),
        };
        let result = ToolResult { id: "a".to_owned(), content: Vec::new(), failed: false };
        let mut ids = Ids::new(Wire::Chat);
        ids.begin_turn();
        assert_eq!(ids.of_call(&call), "a");
        // It has no result: the process was gone, say.
        ids.begin_turn();
        assert_eq!(ids.of_call(&call), "a_2");
        assert_eq!(ids.of_result(&result), "a_2");
    }
}
