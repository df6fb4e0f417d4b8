//! The table of calls: by id for the host, by slot for the loop.
//!
//! A slot's generation tells an event of its present call from a late one of a
//! call before it.

use std::collections::BTreeMap;

use rustix::process::Pid;

use crate::call::Call;

/// Calls that run or are kept.
pub(crate) const MOST_CALLS: usize = 1024;

/// Slots: calls, and what acknowledged calls have left running.
const MOST_SLOTS: usize = 4096;

/// The table.
#[derive(Default)]
pub(crate) struct Calls {
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_id: BTreeMap<u64, usize>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    call: Option<Box<Call>>,
}

impl Calls {
    pub(crate) fn is_full(&self) -> bool {
        self.by_id.len() >= MOST_CALLS || (self.free.is_empty() && self.slots.len() >= MOST_SLOTS)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn insert(&mut self, call: Call) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.by_id.insert(call.id, slot);
        if let Some(place) = self.slots.get_mut(slot) {
            place.generation = place.generation.wrapping_add(1);
            place.call = Some(Box::new(call));
        }
        slot
    }

    pub(crate) fn generation(&self, slot: usize) -> u32 {
        self.slots.get(slot).map_or(0, |slot| slot.generation)
    }

    pub(crate) fn get(&mut self, slot: usize) -> Option<&mut Call> {
        self.slots.get_mut(slot)?.call.as_deref_mut()
    }

    /// The call of an event, unless the event is late.
    pub(crate) fn get_current(&mut self, slot: usize, generation: u32) -> Option<&mut Call> {
        let slot = self.slots.get_mut(slot)?;
        slot.call.as_deref_mut().filter(|_| slot.generation == generation)
    }

    /// The slot of a call that runs or is kept.
    pub(crate) fn slot_of(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The slot of a call of that id, also of one that is acknowledged and has
    /// left something running.
    pub(crate) fn slot_of_any(&self, id: u64) -> Option<usize> {
        self.slot_of(id).or_else(|| {
            let has = |slot: &Slot| slot.call.as_ref().is_some_and(|call| call.id == id);
            self.slots.iter().position(has)
        })
    }

    /// The slot of the call that a child of the guest works for.
    pub(crate) fn slot_of_child(&self, child: Pid) -> Option<usize> {
        let has = |slot: &Slot| slot.call.as_ref().is_some_and(|call| call.child() == Some(child));
        self.slots.iter().position(has)
    }

    /// Frees the id; the slot stays as long as something of the call runs.
    pub(crate) fn release_id(&mut self, id: u64) {
        self.by_id.remove(&id);
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<Box<Call>> {
        let call = self.slots.get_mut(slot)?.call.take()?;
        self.free.push(slot);
        Some(call)
    }

    /// All calls with their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Call)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.call.as_deref()?)))
    }

    /// All calls.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Call> {
        self.slots.iter_mut().filter_map(|slot| slot.call.as_deref_mut())
    }
}
