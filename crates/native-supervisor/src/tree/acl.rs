//! Access control lists, as the kernel hands them out (`posix_acl_xattr.h`).
//!
//! A mode shows the mask of such a list where it has the group's permissions otherwise. So a
//! list that is lost would open a file to its group; and one that loses a name may open it to
//! whom that name gave less than the group or the others have. What is made here of a list gives
//! nobody more than the list did.

/// The kinds of entries, in the order that they have.
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The id of whoever has none, or has none here.
const NOBODY: u32 = u32::MAX;

/// How a list begins.
const VERSION: [u8; 4] = 2u32.to_le_bytes();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u16,
    permissions: u16,
    id: u32,
}

/// Somebody whom a list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    User(u32),
    Group(u32),
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List(Vec<Entry>);

impl List {
    /// Reads one; `None` when it is none that the kernel would take.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (entries, rest) = bytes.strip_prefix(&VERSION)?.as_chunks::<8>();
        let entries = entries.iter().map(|[kind, more, permissions, _, id @ ..]| Entry {
            kind: u16::from_le_bytes([*kind, *more]),
            permissions: u16::from(*permissions & 7),
            id: u32::from_le_bytes(*id),
        });
        let list = Self(entries.collect());
        let once = |kind| list.of(kind).count() == 1;
        let named = list.of(USER).chain(list.of(GROUP)).count();
        let masks = list.of(MASK).count();
        let whole = rest.is_empty() && [OWNER, OWNING_GROUP, OTHERS].into_iter().all(once);
        let right = masks <= 1 && (named == 0 || masks == 1) && list.0.len() == 3 + masks + named;
        (whole && right).then_some(list)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for Entry { kind, permissions, id } in &self.0 {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// The same for a file that has this mode, which is a part of its list.
    pub(super) fn with_mode(mut self, mode: u32) -> Self {
        let group = if self.mask().is_some() { MASK } else { OWNING_GROUP };
        for (kind, shift) in [(OWNER, 6), (group, 3), (OTHERS, 0)] {
            let permissions = u16::try_from(mode >> shift & 7).unwrap_or(0);
            for entry in self.0.iter_mut().filter(|entry| entry.kind == kind) {
                entry.permissions = permissions;
            }
        }
        self
    }

    /// The mode that a file with this list has.
    pub(super) fn mode(&self) -> u32 {
        let permissions =
            |kind| u32::from(self.of(kind).next().map_or(0, |entry| entry.permissions));
        let group = if self.mask().is_some() { MASK } else { OWNING_GROUP };
        permissions(OWNER) << 6 | permissions(group) << 3 | permissions(OTHERS)
    }

    /// The same with others named, or fewer: whoever is nobody is left out.
    pub(super) fn with_names(&self, whom: impl Fn(Named) -> Option<u32>) -> Self {
        let mut list = self.clone();
        for entry in &mut list.0 {
            entry.id = match entry.kind {
                USER if entry.id != NOBODY => whom(Named::User(entry.id)).unwrap_or(NOBODY),
                GROUP if entry.id != NOBODY => whom(Named::Group(entry.id)).unwrap_or(NOBODY),
                _ => NOBODY,
            };
        }
        let is_named = |entry: &Entry| entry.kind == USER || entry.kind == GROUP;
        let left_out = |entry: &Entry| is_named(entry) && entry.id == NOBODY;
        if !list.0.iter().any(left_out) {
            return list;
        }
        // What a user is told by name holds whatever its groups are told; what a group is told,
        // whatever the others are.
        let mask = list.mask().unwrap_or(7);
        let least = |kind| {
            let of_kind = list.of(kind).filter(|entry| left_out(entry));
            of_kind.fold(7, |least, entry| least & entry.permissions & mask)
        };
        let (user, group) = (least(USER), least(GROUP));
        list.0.retain(|entry| !left_out(entry));
        for entry in &mut list.0 {
            match entry.kind {
                OWNING_GROUP | GROUP => entry.permissions &= user,
                OTHERS => entry.permissions &= user & group,
                _ => {}
            }
        }
        if list.0.iter().any(is_named) { list } else { list.without_mask() }
    }

    /// What a mode alone can say of it.
    pub(super) fn without_names(&self) -> Self {
        self.with_names(|_| None).without_mask()
    }

    fn without_mask(mut self) -> Self {
        if let Some(mask) = self.mask() {
            self.0.retain(|entry| entry.kind != MASK);
            for entry in self.0.iter_mut().filter(|entry| entry.kind == OWNING_GROUP) {
                entry.permissions &= mask;
            }
        }
        self
    }

    /// What anybody has at most who is neither the owner nor one of the others.
    fn mask(&self) -> Option<u16> {
        self.of(MASK).next().map(|entry| entry.permissions)
    }

    fn of(&self, kind: u16) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.kind == kind)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A list as people write it: `u::rw- u:7:r-- g::--- m::r-- o::---`.
    pub(in super::super) fn list(text: &str) -> Vec<u8> {
        let entries = text.split(' ').map(|entry| {
            let [kind, id, permissions] = entry.split(':').collect::<Vec<_>>().try_into().unwrap();
            let kind = match (kind, id) {
                ("u", "") => OWNER,
                ("u", _) => USER,
                ("g", "") => OWNING_GROUP,
                ("g", _) => GROUP,
                ("m", _) => MASK,
                _ => OTHERS,
            };
            let bits = permissions.chars().zip([4, 2, 1]);
            let permissions = bits.map(|(bit, value)| if bit == '-' { 0 } else { value }).sum();
            Entry { kind, permissions, id: id.parse().unwrap_or(NOBODY) }
        });
        List(entries.collect()).bytes()
    }

    pub(in super::super) fn text(list: &List) -> String {
        let entries = list.0.iter().map(|entry| {
            let kind = match entry.kind {
                OWNER | USER => "u",
                OWNING_GROUP | GROUP => "g",
                MASK => "m",
                _ => "o",
            };
            let id = if entry.id == NOBODY { String::new() } else { entry.id.to_string() };
            let bits = [(4, 'r'), (2, 'w'), (1, 'x')];
            let bits = bits.map(|(bit, name)| if entry.permissions & bit > 0 { name } else { '-' });
            format!("{kind}:{id}:{}", String::from_iter(bits))
        });
        entries.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_list_that_loses_names_gives_nobody_more() {
        // A list, what is left of it where only 7 may be named, and where nobody may.
        let cases = [
            ("u::rw- g::r-- o::---", "u::rw- g::r-- o::---", 0o640),
            ("u::rw- g::r-- m::--- o::---", "u::rw- g::r-- m::--- o::---", 0o600),
            ("u::rw- u:8:rw- g::--- m::rw- o::---", "u::rw- g::--- o::---", 0o600),
            ("u::rw- u:8:rwx g::rwx m::r-- o::---", "u::rw- g::r-- o::---", 0o640),
            // One who had less than the others.
            ("u::rw- u:8:--- g::r-- m::r-- o::r--", "u::rw- g::--- o::---", 0o600),
            ("u::rw- g::r-- g:8:--- m::r-- o::r--", "u::rw- g::r-- o::---", 0o640),
            ("u::rwx g::r-x g:8:rwx m::r-- o::r-x", "u::rwx g::r-- o::r--", 0o744),
            (
                "u::rw- u:7:rw- u:8:r-- g::rw- g:7:rwx m::rw- o::r--",
                "u::rw- u:7:rw- g::r-- g:7:r-- m::rw- o::r--",
                0o644,
            ),
        ];
        for (before, wanted, mode) in cases {
            let before = List::parse(&list(before)).unwrap();
            let only = before.with_names(|name| match name {
                Named::User(7) | Named::Group(7) => Some(7),
                _ => None,
            });
            assert_eq!(text(&only), wanted, "{}", text(&before));
            let nobody = before.without_names();
            assert_eq!(nobody.mode(), mode, "{}: {}", text(&before), text(&nobody));
        }
    }

    #[test]
    fn whoever_is_nobody_here_is_left_out() {
        let bytes = list("u::rw- u:8:rw- g::--- m::rw- o::---");
        let mut unknown = bytes.clone();
        unknown[16..20].fill(0xff);
        let kept = |bytes: &[u8]| {
            List::parse(bytes).unwrap().with_names(|name| match name {
                Named::User(id) | Named::Group(id) => Some(id),
            })
        };
        assert_eq!(kept(&bytes).bytes(), bytes);
        assert_eq!(text(&kept(&unknown)), "u::rw- g::--- o::---");
    }

    #[test]
    fn a_mode_is_a_part_of_a_list() {
        let closed = List::parse(&list("u::rw- u:8:rw- g::r-- m::--- o::---")).unwrap();
        let opened = closed.with_mode(0o100_764);
        assert_eq!(text(&opened), "u::rwx u:8:rw- g::r-- m::rw- o::r--");
        assert_eq!(opened.mode(), 0o764);
    }

    #[test]
    fn what_the_kernel_would_not_take_is_no_list() {
        let good = list("u::rw- u:8:rw- g::--- m::rw- o::---");
        assert!(List::parse(&good).is_some());
        let bad = [
            &good[1..],
            &good[..good.len() - 1],
            &good[..good.len() - 8],
            b"",
            &list("u::rw- u:8:rw- g::--- o::---"),
            &list("u::rw- g::--- m::--- m::--- o::---"),
            &list("u::rw- u::rw- g::--- o::---"),
        ];
        for bytes in bad {
            assert_eq!(List::parse(bytes), None, "{bytes:?}");
        }
        let mut strange = good;
        strange[12] = 0x40;
        assert_eq!(List::parse(&strange), None);
    }
}
