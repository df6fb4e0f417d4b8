//! Bytes in blocks: a queue that grows at its end, shrinks at its start, and
//! never moves what it holds.
//!
//! A reader fills the last block in place and a writer sends out of the first, so
//! a byte on its way through the guest is not copied in between. Blocks that ran
//! empty are used again.

use std::collections::VecDeque;

use cofferdam_guest_protocol::CHUNK;

/// The first block of a queue: most commands say little.
const FIRST: usize = 16 << 10;

/// A block with less room than this at its end is left as it is.
const LEAST: usize = 4 << 10;

/// Empty blocks kept for use again.
const SPARE: usize = 8;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the first block that are gone.
    skipped: usize,
    length: usize,
    spare: Vec<Vec<u8>>,
}

impl Blocks {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds bytes by copying them.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Ok(added) = self.fill(|block| {
                let room = block.capacity() - block.len();
                let (now, later) = bytes.split_at(bytes.len().min(room));
                block.extend_from_slice(now);
                bytes = later;
                Ok::<_, std::convert::Infallible>(now.len())
            });
            if added == 0 {
                return;
            }
        }
    }

    /// Adds what `fill` puts into the spare room of a block. It returns how much
    /// that was, and must not let the block grow.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let has_room = self.blocks.back().is_some_and(|b| b.capacity() - b.len() >= LEAST);
        if !has_room {
            let size = if self.blocks.is_empty() { FIRST } else { CHUNK };
            let block = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(size));
            self.blocks.push_back(block);
        }
        let Some(block) = self.blocks.back_mut() else { return Ok(0) };
        let before = block.len();
        let outcome = fill(block);
        // Count what is there, not what was said.
        self.length += block.len() - before;
        outcome
    }

    /// The longest run of bytes that begins `at` bytes after the start.
    pub(crate) fn run(&self, at: usize) -> &[u8] {
        let mut position = self.skipped + at;
        for block in &self.blocks {
            match block.get(position..) {
                Some(run) if !run.is_empty() => return run,
                _ => position -= block.len().min(position),
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
            if first.len() > self.skipped || (self.skipped == 0 && first.is_empty()) {
                return;
            }
            self.skipped -= first.len();
            if let Some(mut block) = self.blocks.pop_front()
                && self.spare.len() < SPARE
                && block.capacity() >= CHUNK
            {
                block.clear();
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
                blocks.append(&bytes);
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
            blocks.append(b"x");
        }
        assert!(blocks.blocks.len() < 10, "{}", blocks.blocks.len());
    }
}
