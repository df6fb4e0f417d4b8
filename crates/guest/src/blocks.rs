//! Bytes in blocks: a queue that grows at its end, shrinks at its start, and
//! never moves what it holds.
//!
//! A reader fills the last block in place and a writer sends out of the first, so
//! a byte on its way through the guest is not copied in between. Blocks that ran
//! empty are used again.

use std::collections::VecDeque;

use cofferdam_guest_protocol::CHUNK;

use crate::sys::Mapping;

/// The first block of a queue: most commands say little.
const FIRST: usize = 16 << 10;

/// A block with less room than this at its end is left as it is.
const LEAST: usize = 4 << 10;

/// Empty blocks kept for use again.
const SPARE: usize = 8;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: VecDeque<Block>,
    /// Bytes of the first block that are gone.
    skipped: usize,
    length: usize,
    spare: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    memory: Mapping,
    filled: usize,
}

impl Block {
    fn room(&self) -> usize {
        self.memory.len() - self.filled
    }

    fn content(&self) -> &[u8] {
        self.memory.get(..self.filled).unwrap_or_default()
    }
}

/// There is no memory for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl Blocks {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds bytes by copying them.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), NoMemory> {
        while !bytes.is_empty() {
            self.fill(|room| {
                let count = bytes.len().min(room.len());
                let (now, later) = bytes.split_at(count);
                if let Some(room) = room.get_mut(..count) {
                    room.copy_from_slice(now);
                }
                bytes = later;
                count
            })?;
        }
        Ok(())
    }

    /// Adds what `fill` puts into the room it is given. It returns how much that
    /// was.
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), NoMemory> {
        if self.blocks.back().is_none_or(|block| block.room() < LEAST) {
            let size = if self.blocks.is_empty() { FIRST } else { CHUNK };
            let block = match self.spare.pop() {
                Some(block) => block,
                None => Block { memory: Mapping::new(size).map_err(|_| NoMemory)?, filled: 0 },
            };
            self.blocks.push_back(block);
        }
        let block = self.blocks.back_mut().ok_or(NoMemory)?;
        let room = block.memory.get_mut(block.filled..).unwrap_or_default();
        let count = fill(room).min(room.len());
        block.filled += count;
        self.length += count;
        Ok(())
    }

    /// The longest run of bytes that begins `at` bytes after the start.
    pub(crate) fn run(&self, at: usize) -> &[u8] {
        let mut position = self.skipped + at;
        for block in &self.blocks {
            match block.content().get(position..) {
                Some(run) if !run.is_empty() => return run,
                _ => position -= block.filled.min(position),
            }
        }
        &[]
    }

    /// Takes bytes off the start.
    pub(crate) fn release(&mut self, count: usize) {
        let count = count.min(self.length);
        self.length -= count;
        self.skipped += count;
        while let Some(first) = self.blocks.front() {
            if first.filled > self.skipped || (self.skipped == 0 && first.filled == 0) {
                return;
            }
            self.skipped -= first.filled;
            if let Some(mut block) = self.blocks.pop_front()
                && self.spare.len() < SPARE
                && block.memory.len() >= CHUNK
            {
                block.filled = 0;
                self.spare.push(block);
            }
        }
    }

    /// Gives back memory that holds nothing.
    pub(crate) fn shrink(&mut self) {
        self.spare = Vec::new();
        if self.length == 0 {
            self.blocks = VecDeque::new();
            self.skipped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(blocks: &Blocks) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < blocks.len() {
            let run = blocks.run(bytes.len());
            assert!(!run.is_empty(), "a hole at {}", bytes.len());
            bytes.extend_from_slice(run);
        }
        assert!(blocks.run(bytes.len()).is_empty());
        bytes
    }

    proptest! {
        #[test]
        fn it_is_a_queue_of_bytes(steps in prop::collection::vec((0usize..60_000, 0usize..70_000), 1..20)) {
            let mut blocks = Blocks::default();
            let mut model: Vec<u8> = Vec::new();
            let mut next = 0u8;
            for (added, removed) in steps {
                let bytes: Vec<u8> = (0..added).map(|_| { next = next.wrapping_add(41); next }).collect();
                blocks.append(&bytes).unwrap();
                model.extend_from_slice(&bytes);
                blocks.release(removed);
                model.drain(..removed.min(model.len()));
                prop_assert_eq!(content(&blocks), model.clone());
            }
            blocks.shrink();
            prop_assert_eq!(content(&blocks), model);
        }
    }

    #[test]
    fn single_bytes_do_not_cost_a_block_each() {
        let mut blocks = Blocks::default();
        for _ in 0..100_000 {
            blocks.append(b"x").unwrap();
        }
        assert!(blocks.blocks.len() < 10, "{}", blocks.blocks.len());
    }
}
