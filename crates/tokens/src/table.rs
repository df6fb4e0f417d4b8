//! The tokens of an encoding, each with its rank.

/// Bytes that a table has at most when it is unpacked.
const MOST_BYTES: usize = 4 << 20;

/// The tokens of an encoding. The rank of a token is its number: of two pairs that could
/// be joined, the one that makes the lower rank is.
pub(crate) struct Table {
    bytes: Vec<u8>,
    /// Where each token begins in `bytes`, and after the last one its end.
    starts: Vec<u32>,
    /// For each hash the upper half of it and the rank plus one; zero is empty. The next
    /// free place is taken where one is taken already.
    slots: Vec<u64>,
    longest: usize,
}

impl Table {
    /// Unpacks a table: each token in the order of its rank, after a byte with its length.
    pub(crate) fn unpack(packed: &[u8]) -> Option<Self> {
        let plain = zstd::bulk::decompress(packed, MOST_BYTES).ok()?;
        let mut bytes = Vec::with_capacity(plain.len());
        let (mut starts, mut longest) = (vec![0], 0);
        let mut rest = plain.as_slice();
        while let Some((length, after)) = rest.split_first() {
            let (token, after) = after.split_at_checked(usize::from(*length))?;
            longest = longest.max(token.len());
            bytes.extend_from_slice(token);
            starts.push(u32::try_from(bytes.len()).ok()?);
            rest = after;
        }
        let tokens = starts.len() - 1;
        let slots = vec![0; (tokens * 2).next_power_of_two()];
        let mut table = Self { bytes, starts, slots, longest };
        for rank in 0..u32::try_from(tokens).ok()? {
            table.insert(rank)?;
        }
        Some(table)
    }

    fn insert(&mut self, rank: u32) -> Option<()> {
        let hash = hash(self.token(rank)?);
        let mask = self.slots.len() - 1;
        let mut place = place(hash, mask);
        while *self.slots.get(place)? != 0 {
            place = (place + 1) & mask;
        }
        *self.slots.get_mut(place)? = upper(hash) | u64::from(rank + 1);
        Some(())
    }

    /// The bytes of a token.
    pub(crate) fn token(&self, rank: u32) -> Option<&[u8]> {
        let rank = usize::try_from(rank).ok()?;
        let (start, end) = (*self.starts.get(rank)?, *self.starts.get(rank + 1)?);
        self.bytes.get(start as usize..end as usize)
    }

    /// The rank of a token, if there is one of these bytes.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let hash = hash(bytes);
        let mask = self.slots.len() - 1;
        let mut place = place(hash, mask);
        // At most every other place is taken, so that there is an end.
        loop {
            let slot = *self.slots.get(place)?;
            if slot == 0 {
                return None;
            }
            let rank = (slot & u64::from(u32::MAX)) as u32 - 1;
            if slot & UPPER == upper(hash) && self.token(rank) == Some(bytes) {
                return Some(rank);
            }
            place = (place + 1) & mask;
        }
    }

    /// How many tokens there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u32 {
        self.starts.len() as u32 - 1
    }
}

const UPPER: u64 = 0xffff_ffff_0000_0000;

fn upper(hash: u64) -> u64 {
    hash & UPPER
}

fn place(hash: u64, mask: usize) -> usize {
    (hash >> 24) as usize & mask
}

/// Whoever writes texts cannot choose what is in the table, only what is looked for: a
/// hash that is merely quick will do.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    hash = (hash.rotate_left(23) ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    // Each bit has changed those above it: the upper ones say the most.
    (hash ^ hash >> 32).wrapping_mul(FACTOR)
}
