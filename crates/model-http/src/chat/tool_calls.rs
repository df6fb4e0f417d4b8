//! Which call a piece belongs to.
//!
//! By the protocol each piece has an index, and the first of a call its id and
//! name. Servers leave out the index or the id, repeat the name with every
//! piece, give index 0 to every call, or send a call in one piece.

use cofferdam_model::Delta;
use cofferdam_types::Arguments;
use serde::Deserialize;
use serde_json::Value;

/// A piece of a call.
#[derive(Deserialize)]
pub(super) struct Piece {
    index: Option<u64>,
    id: Option<String>,
    #[serde(default)]
    function: Function,
}

#[derive(Default, Deserialize)]
struct Function {
    name: Option<String>,
    /// Text, or with some servers the object itself.
    arguments: Option<Value>,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Call {
    fn is_whole(&self) -> bool {
        let arguments = Arguments(self.arguments.clone());
        !self.arguments.is_empty() && arguments.object().is_ok()
    }
}

/// The calls of one answer.
#[derive(Debug)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Makes ids for calls that have none, unique in the conversation.
    salt: usize,
}

impl Calls {
    pub(super) fn new(salt: usize) -> Self {
        Self { calls: Vec::new(), salt }
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether every call says which tool it is for.
    pub(super) fn all_named(&self) -> bool {
        self.calls.iter().all(|call| !call.name.is_empty())
    }

    /// Takes a piece.
    pub(super) fn push(&mut self, piece: Piece, deltas: &mut Vec<Delta>) {
        let text = match piece.function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(value) => value.to_string(),
        };
        let id = piece.id.unwrap_or_default();
        let name = piece.function.name.unwrap_or_default();
        let place = self.place(piece.index, &id, &name).unwrap_or(self.calls.len());
        if place == self.calls.len() {
            let id = if id.is_empty() { format!("call_{}_{place}", self.salt) } else { id };
            let (name, arguments) = (String::new(), String::new());
            self.calls.push(Call { index: piece.index, id, name, arguments });
        }
        let Some(call) = self.calls.get_mut(place) else { return };
        let index = u32::try_from(place).unwrap_or(u32::MAX);
        call.arguments.push_str(&text);
        if call.name.is_empty() && !name.is_empty() {
            call.name.clone_from(&name);
            deltas.push(Delta::CallBegun { index, id: call.id.clone(), name });
            if !call.arguments.is_empty() {
                deltas.push(Delta::Arguments { index, text: call.arguments.clone() });
            }
        } else if !call.name.is_empty() && !text.is_empty() {
            deltas.push(Delta::Arguments { index, text });
        }
    }

    /// The place of the call that a piece goes on with; none for a new one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let place = match (index, id) {
            (Some(_), _) => self.calls.iter().rposition(|call| call.index == index)?,
            (None, "") => last,
            (None, id) => return self.calls.iter().rposition(|call| call.id == id),
        };
        let call = self.calls.get(place)?;
        // With another id, or when it is named and what is there was whole
        // already, it is another call after all.
        let other_id = !id.is_empty() && !name.is_empty() && !call.name.is_empty() && call.id != id;
        let another = index.is_none() && !name.is_empty() && (call.name != name || call.is_whole());
        let renamed = another && !call.name.is_empty();
        (!other_id && !renamed).then_some(place)
    }
}
