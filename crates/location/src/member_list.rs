//! The member list of a `SpotWide` unit as immutable pages that are named by their bytes (ST-84, RL-122). Pure.

use bytes::Bytes;
use ring::digest;
use spotlane_store::{StoreKey, bound::VALUE_BYTES_MAX};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::id::Sha256;

use crate::authority::ActiveObject;
use crate::error::LocationError;
use crate::key;
use crate::record::{
    AggregateRecord, AggregateSpot, IndexPage, LeafPage, PageEntry, Record as _, RecordError, V1,
};

/// Most entries of a page of either kind (RL-122).
pub const PAGE_ENTRIES_MAX: usize = 1_024;

/// Levels of index pages: 1,024 pages below each make more objects than any store holds.
const LEVELS_MAX: usize = 6;

/// What an entry may take of a page besides its own text: the format and the brackets.
const PAGE_FRAME_BYTES: usize = 64;

/// A list of objects, ascending by authority key, with everything by which it is compared (ST-83, ST-84).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberList {
    entries: Vec<PageEntry>,
    /// Leaves first, the top page last.
    pages: Vec<(Sha256, Bytes)>,
    root: Sha256,
    digest: Sha256,
}

impl MemberList {
    /// Sorts the entries and cuts them into pages. The same objects make the same pages, whatever their order.
    ///
    /// # Errors
    /// [`LocationError::Call`], by recovery `FixCall`: no object, or one twice.
    pub fn new(mut entries: Vec<PageEntry>) -> Result<Self, LocationError> {
        if entries.is_empty() {
            return Err(LocationError::Call {
                rule: "a unit has at least its spot",
            });
        }
        // By the text form, made once for each: the order of WR-60 is that of the text.
        entries.sort_by_cached_key(|entry| entry.object.to_string());
        if entries
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.object == b.object))
        {
            return Err(LocationError::Call {
                rule: "an object is in a unit once",
            });
        }
        let mut pages: Vec<(Sha256, Bytes)> = leaves(&entries)
            .map(|entries| {
                LeafPage {
                    record_version: V1,
                    entries: entries.to_vec(),
                }
                .encode()
            })
            .map(|bytes| (key::sha256(&bytes), bytes))
            .collect();
        let mut level: Vec<Sha256> = pages.iter().map(|(hash, _)| *hash).collect();
        let root = loop {
            if let [root] = level.as_slice() {
                break *root;
            }
            let above: Vec<(Sha256, Bytes)> = level
                .chunks(PAGE_ENTRIES_MAX)
                .map(|pages| {
                    IndexPage {
                        record_version: V1,
                        pages: pages.to_vec(),
                    }
                    .encode()
                })
                .map(|bytes| (key::sha256(&bytes), bytes))
                .collect();
            level = above.iter().map(|(hash, _)| *hash).collect();
            pages.extend(above);
        };
        let digest = digest_of(&entries);
        Ok(Self {
            entries,
            pages,
            root,
            digest,
        })
    }

    /// The list of rows that point at the record of their move, with the versions that they have since (ST-85).
    ///
    /// # Errors
    /// As [`MemberList::new`].
    pub fn of_rows(rows: &[ActiveObject]) -> Result<Self, LocationError> {
        let entries = rows.iter().map(|row| PageEntry {
            object: row.object().clone(),
            object_generation: row.row().object_generation,
            store_version: row.version().clone(),
        });
        Self::new(entries.collect())
    }

    /// The entry of the Spot in this incarnation.
    pub(crate) fn spot(&self, spot: &AggregateSpot) -> Option<&PageEntry> {
        self.entries.iter().find(|entry| {
            matches!(&entry.object, AuthorityKey::Spot(id) if *id == spot.id)
                && entry.object_generation == spot.object_generation
        })
    }

    /// The objects, ascending by authority key.
    pub fn entries(&self) -> &[PageEntry] {
        &self.entries
    }

    /// The digest of the top page.
    pub fn root(&self) -> Sha256 {
        self.root
    }

    /// The digest over all authority keys.
    pub fn digest(&self) -> Sha256 {
        self.digest
    }

    /// How many objects there are.
    pub fn count(&self) -> u64 {
        u64::try_from(self.entries.len()).unwrap_or(u64::MAX)
    }

    /// The pages as records, leaves first.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (StoreKey, &Bytes)> {
        self.pages
            .iter()
            .map(|(hash, bytes)| (key::aggregate_page(hash), bytes))
    }

    /// Whether a record is about exactly this list (ST-87).
    pub fn is_of(&self, record: &AggregateRecord) -> bool {
        self.root == record.list_root
            && self.digest == record.digest_sha256
            && self.count() == record.entry_count
    }
}

/// Cuts by count and by bytes.
fn leaves(entries: &[PageEntry]) -> impl Iterator<Item = &[PageEntry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut bytes = PAGE_FRAME_BYTES;
        let fits = rest
            .iter()
            .take(PAGE_ENTRIES_MAX)
            .take_while(|entry| {
                let size = serde_json::to_vec(entry).map_or(VALUE_BYTES_MAX, |text| text.len());
                bytes = bytes.saturating_add(size).saturating_add(1);
                bytes <= VALUE_BYTES_MAX
            })
            .count();
        let (page, after) = rest.split_at_checked(fits)?;
        rest = after;
        (!page.is_empty()).then_some(page)
    })
}

/// Each key as two bytes of length and its text (ST-84).
fn digest_of(entries: &[PageEntry]) -> Sha256 {
    let mut context = digest::Context::new(&digest::SHA256);
    for entry in entries {
        let text = entry.object.to_string();
        // A key has at most 776 bytes (WR-60).
        context.update(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        context.update(text.as_bytes());
    }
    let mut out = [0; 32];
    for (to, from) in out.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    Sha256::new(out)
}

/// A page that was read.
enum Page {
    Leaf(Vec<PageEntry>),
    Index(Vec<Sha256>),
}

fn read_page(key: &StoreKey, bytes: &[u8]) -> Result<Page, RecordError> {
    match IndexPage::decode(key, bytes) {
        Ok(index) => Ok(Page::Index(index.pages)),
        Err(RecordError::NotARow { .. }) => {
            LeafPage::decode(key, bytes).map(|leaf| Page::Leaf(leaf.entries))
        }
        Err(error) => Err(error),
    }
}

/// Reads a list from its top page down, one page at a time, without recursion.
#[derive(Debug)]
pub(crate) struct ListReader {
    /// Pages still to read with their level, the next one last.
    todo: Vec<(Sha256, usize)>,
    entries: Vec<PageEntry>,
    most: u64,
}

impl ListReader {
    pub(crate) fn new(record: &AggregateRecord) -> Self {
        Self {
            todo: vec![(record.list_root, 0)],
            entries: Vec::new(),
            most: record.entry_count,
        }
    }

    /// The page to read next.
    pub(crate) fn next(&mut self) -> Option<(StoreKey, usize)> {
        self.todo
            .pop()
            .map(|(hash, level)| (key::aggregate_page(&hash), level))
    }

    /// Takes a page. It has the digest of its key, or it is refused.
    pub(crate) fn take(
        &mut self,
        key: &StoreKey,
        level: usize,
        bytes: &[u8],
    ) -> Result<(), RecordError> {
        match read_page(key, bytes)? {
            Page::Leaf(entries) => {
                // An empty one has no place in a list, and any number of them would not reach the count below.
                if entries.is_empty() {
                    return Err(RecordError::contradiction(key, "a leaf page has entries"));
                }
                self.entries.extend(entries);
            }
            Page::Index(pages) => {
                let below = level.saturating_add(1);
                if below > LEVELS_MAX || pages.len() > PAGE_ENTRIES_MAX || pages.is_empty() {
                    return Err(RecordError::contradiction(
                        key,
                        "an index page is within its bounds",
                    ));
                }
                self.todo
                    .extend(pages.into_iter().rev().map(|hash| (hash, below)));
            }
        }
        let read = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        if read > self.most {
            return Err(RecordError::contradiction(
                key,
                "the list has as many entries as its record says",
            ));
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<PageEntry> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use spotlane_store::StoreVersion;
    use spotlane_types::generation::ObjectGeneration;

    use super::*;

    fn entry(id: &str, version: &str) -> PageEntry {
        PageEntry {
            object: AuthorityKey::Actor(id.parse().unwrap()),
            object_generation: ObjectGeneration::new(1).unwrap(),
            store_version: StoreVersion::new(version).unwrap(),
        }
    }

    /// ST-84: bytes written out by hand; the digest is that of `00 0a "zla1:a:1:x"`.
    #[test]
    fn a_list_of_one_is_its_leaf() {
        let list = MemberList::new(vec![entry("x", "7")]).unwrap();
        let text = concat!(
            r#"{"recordVersion":1,"entries":[{"kind":"actor","id":"x","#,
            r#""objectGeneration":"1","storeVersion":"7"}]}"#
        );
        let (_, bytes) = list.pages().next().unwrap();
        assert_eq!(bytes, text);
        assert_eq!(list.root(), key::sha256(text.as_bytes()));
        assert_eq!(list.digest(), key::sha256(b"\0\x0azla1:a:1:x"));
    }

    /// ST-84, RL-122: no cap on members; 1,024 in a page, under index pages.
    #[test]
    fn a_long_list_is_cut_into_pages_under_an_index() {
        let entries: Vec<_> = (0..2_500)
            .map(|n| entry(&format!("actor-{n}"), "1"))
            .collect();
        let list = MemberList::new(entries.clone()).unwrap();
        assert_eq!(list.pages().count(), 4);
        let mut other = entries;
        other.reverse();
        assert_eq!(MemberList::new(other).unwrap(), list);
    }

    /// ST-84: long versions fill a page by bytes before it is full by count.
    #[test]
    fn a_page_never_exceeds_a_value() {
        let long = "v".repeat(4_000);
        let entries: Vec<_> = (0..600)
            .map(|n| entry(&format!("actor-{n}"), &long))
            .collect();
        let list = MemberList::new(entries).unwrap();
        assert!(list.pages().count() > 2);
        assert!(
            list.pages()
                .all(|(_, bytes)| bytes.len() <= VALUE_BYTES_MAX)
        );
    }

    /// RL-122
    #[test]
    fn an_object_is_in_a_unit_once() {
        assert!(MemberList::new(vec![entry("x", "1"), entry("x", "2")]).is_err());
        assert!(MemberList::new(Vec::new()).is_err());
    }
}
