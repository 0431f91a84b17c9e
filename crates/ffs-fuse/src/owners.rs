//! The owners and permissions that programs see, where they differ from those on the volume.
//!
//! **Purpose.** The options `uid`, `gid`, `umask` and `idmap`. A disk of another machine has the
//! numbers of its users. With `uid=1000` every file belongs to user 1000, with `idmap=u:0:1000:1`
//! only those of root do.
//!
//! **Invariants.**
//! 1. A map is one to one: no two ids of the volume are shown as the same id, except those that no
//!    range has.
//! 2. Nothing on the volume changes by being shown.

/// The id that ids without a range are shown as. Linux shows 65534 instead. A program may have that
/// id, and would own all these files.
pub(crate) const UNMAPPED: u32 = u32::MAX - 1;
/// The id on the volume of a caller who has none there. No file can be given this owner.
pub(crate) const NO_ID: u32 = u32::MAX;

/// The owners and permissions that programs see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    pub(crate) users: Ids,
    pub(crate) groups: Ids,
    /// The permission bits of all files.
    pub(crate) perm: Option<u16>,
}

/// How ids of users or of groups are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ids {
    /// As on the volume.
    #[default]
    Same,
    /// All as one id.
    All(u32),
    /// Each range by its own rule; all others as [`UNMAPPED`].
    Mapped(Vec<IdRange>),
}

/// Consecutive ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRange {
    /// The first id on the volume.
    volume: u32,
    /// The first id that programs see.
    shown: u32,
    count: u32,
}

/// What an id of a program is on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeId {
    /// This id.
    Id(u32),
    /// The one that the file or, for a new one, its directory has.
    OfFile,
    /// None.
    Unmapped,
}

impl IdRange {
    /// Parses `VOLUME:SHOWN:COUNT`. The ranges end before [`UNMAPPED`].
    fn parse(words: &str) -> Option<IdRange> {
        let mut numbers = words.split(':').map(|n| n.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        let range = IdRange { volume: next()?, shown: next()?, count: next()? };
        let fits = |first: u32| first.checked_add(range.count).is_some_and(|end| end <= UNMAPPED);
        (numbers.next().is_none() && range.count > 0 && fits(range.volume) && fits(range.shown))
            .then_some(range)
    }

    fn overlaps(self, other: IdRange) -> bool {
        let meet = |a: u32, b: u32| a < b + other.count && b < a + self.count;
        meet(self.volume, other.volume) || meet(self.shown, other.shown)
    }
}

/// The id with the place of `id` in a range from `first`, in the range from `other`.
fn moved(id: u32, first: u32, other: u32, count: u32) -> Option<u32> {
    id.checked_sub(first).filter(|at| *at < count).map(|at| other + at)
}

impl Ids {
    /// The id that programs see for `id` of the volume.
    pub(crate) fn shown(&self, id: u32) -> u32 {
        match self {
            Ids::Same => id,
            Ids::All(one) => *one,
            Ids::Mapped(ranges) => {
                let shown = ranges.iter().find_map(|r| moved(id, r.volume, r.shown, r.count));
                shown.unwrap_or(UNMAPPED)
            }
        }
    }

    /// The id on the volume for `id` of a program. That of root is 0, unless a range has it.
    pub(crate) fn on_volume(&self, id: u32) -> VolumeId {
        match self {
            Ids::Same => VolumeId::Id(id),
            Ids::All(one) if *one == id => VolumeId::OfFile,
            Ids::All(_) => VolumeId::Unmapped,
            Ids::Mapped(ranges) => {
                let found = ranges.iter().find_map(|r| moved(id, r.shown, r.volume, r.count));
                found.or((id == 0).then_some(0)).map_or(VolumeId::Unmapped, VolumeId::Id)
            }
        }
    }

    /// Whether all ids are shown as one.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Ids::All(_))
    }

    /// Whether all ids are shown as one, and `id` is another.
    pub(crate) fn are_of_another(&self, id: u32) -> bool {
        self.is_one() && self.on_volume(id) == VolumeId::Unmapped
    }

    /// As [`Ids::shown`], for the id in an entry of an access list.
    pub(crate) fn shown_in_list(&self, id: u32) -> u32 {
        if self.is_one() { id } else { self.shown(id) }
    }

    /// The id on the volume for the id in an entry of an access list. `None` if it has none.
    pub(crate) fn on_volume_in_list(&self, id: u32) -> Option<u32> {
        match self.on_volume(id) {
            _ if self.is_one() => Some(id),
            VolumeId::Id(id) => Some(id),
            VolumeId::OfFile | VolumeId::Unmapped => None,
        }
    }

    /// Adds a range. Returns false if it overlaps another one, or if all ids are shown as one.
    fn add(&mut self, range: IdRange) -> bool {
        match self {
            Ids::Same => *self = Ids::Mapped(vec![range]),
            Ids::Mapped(ranges) if !ranges.iter().any(|r| r.overlaps(range)) => ranges.push(range),
            Ids::All(_) | Ids::Mapped(_) => return false,
        }
        true
    }

    /// Shows all ids as `one`. Returns false if ranges are mapped.
    fn set_all(&mut self, one: u32) -> bool {
        let fits = !matches!(self, Ids::Mapped(_));
        if fits {
            *self = Ids::All(one);
        }
        fits
    }
}

impl Owners {
    /// The option `uid=N`. Returns false if the word does not fit.
    pub(crate) fn set_uid(&mut self, word: &str) -> bool {
        id(word).is_some_and(|id| self.users.set_all(id))
    }

    /// The option `gid=N`. Returns false if the word does not fit.
    pub(crate) fn set_gid(&mut self, word: &str) -> bool {
        id(word).is_some_and(|id| self.groups.set_all(id))
    }

    /// The option `umask=OCTAL`. Returns false if the word does not fit.
    pub(crate) fn set_umask(&mut self, word: &str) -> bool {
        let mask = u16::from_str_radix(word, 8).ok().filter(|mask| *mask <= 0o777);
        self.perm = mask.map(|mask| 0o777 & !mask).or(self.perm);
        mask.is_some()
    }

    /// The option `idmap=TYPE:VOLUME:SHOWN:COUNT`, where TYPE is u, g or b (both); several are
    /// separated by spaces, as in mount(8). Returns false if the word does not fit.
    pub(crate) fn add_map(&mut self, words: &str) -> bool {
        let mut some = false;
        words.split_ascii_whitespace().all(|word| {
            some = true;
            let Some((kind, range)) = word.split_once(':') else { return false };
            let Some(range) = IdRange::parse(range) else { return false };
            match kind {
                "u" => self.users.add(range),
                "g" => self.groups.add(range),
                "b" => self.users.add(range) && self.groups.add(range),
                _ => false,
            }
        }) && some
    }

    /// Whether the kernel has to check permissions, because only it sees the owners.
    pub(crate) fn need_the_kernel(&self) -> bool {
        self.users.is_one() || self.groups.is_one() || self.perm.is_some()
    }

    /// Whether the kernel sees neither access lists nor set-id bits, because all files have the
    /// same permissions.
    pub(crate) fn hide_modes(&self) -> bool {
        self.perm.is_some()
    }

    /// Whether files or permissions are shown otherwise than they are. Then set-id files and
    /// devices of the volume would serve users for whom they were not made.
    pub(crate) fn differ(&self) -> bool {
        *self != Owners::default()
    }

    /// The permission bits that programs see.
    pub(crate) fn shown_perm(&self, perm: u16) -> u16 {
        self.perm.unwrap_or(perm)
    }
}

/// An id. The last two numbers are none.
fn id(word: &str) -> Option<u32> {
    word.parse().ok().filter(|id| *id < UNMAPPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(words: &[&str]) -> Option<Owners> {
        let mut owners = Owners::default();
        words.iter().all(|word| owners.add_map(word)).then_some(owners)
    }

    #[test]
    fn maps_lead_there_and_back() {
        let o = mapped(&["u:0:1000:1 u:100:2000:50", "b:500:500:1"]).unwrap();
        for (volume, shown) in [(0, 1000), (100, 2000), (149, 2049), (500, 500)] {
            assert_eq!(o.users.shown(volume), shown);
            assert_eq!(o.users.on_volume(shown), VolumeId::Id(volume));
        }
        for (volume, shown) in [(1, 1), (99, 1999), (150, 2050), (u32::MAX, u32::MAX)] {
            assert_eq!(o.users.shown(volume), UNMAPPED);
            assert_eq!(o.users.on_volume(shown), VolumeId::Unmapped);
        }
        assert_eq!(o.users.on_volume(0), VolumeId::Id(0), "root");
        assert_eq!((o.groups.shown(500), o.groups.shown(0)), (500, UNMAPPED));
    }

    #[test]
    fn ranges_are_one_to_one_and_fit() {
        let wrong = [
            "",
            "u",
            "u:0:1",
            "u:0:1:0",
            "u:0:1:2:3",
            "x:0:1:1",
            "u:-1:1:1",
            "u:0:1:99999999999",
            "u:4294967294:0:1",
            "u:0:4294967000:295",
            "u:5:5:1 u:5:6:1",
            " ",
        ];
        assert!(mapped(&["u:4294967293:0:1"]).is_some(), "the last id");
        for words in wrong {
            assert_eq!(mapped(&[words]), None, "{words}");
        }
        assert_eq!(mapped(&["u:0:1000:10", "u:10:1009:1"]), None, "two are shown as 1009");
        assert_eq!(mapped(&["u:0:1000:10", "u:9:5000:1"]), None, "9 is shown as two");
        assert!(mapped(&["u:0:1000:10", "u:10:1010:1", "g:0:1000:10"]).is_some());
        let mut o = Owners::default();
        assert!(o.set_uid("7") && !o.add_map("u:0:1:1") && o.add_map("g:0:1:1"));
        assert!(!o.set_gid("7") && !o.set_uid("4294967295") && !o.set_uid("me"));
        assert_eq!(o.users.on_volume(7), VolumeId::OfFile);
        assert_eq!(o.users.on_volume(0), VolumeId::Unmapped);
        assert!(o.set_umask("027") && !o.set_umask("8") && !o.set_umask("1000"));
        assert_eq!(o.shown_perm(0o4601), 0o750);
    }
}
