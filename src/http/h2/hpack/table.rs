//! The tables that header fields are referred to in (RFC 7541, section 2.3), as far as they are known.
//!
//! Indexes count from the entry added last, so where entries before those that are known are missing, the
//! known ones are found all the same. What is referred to beyond them is unknown; it is never taken for
//! another entry.

use std::{collections::VecDeque, ops::Deref, sync::Arc};

/// The dynamic table of one direction.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// Bytes of them as RFC 7541, section 4.1, counts; of those known in part, at least.
    bytes: usize,
    /// What they may grow to before the oldest is let go.
    most: usize,
    /// The most that is ever kept, however large a table the sender uses.
    cap: usize,
    /// The sender's own limit is `most`.
    exact: bool,
    /// All of its entries are known.
    whole: bool,
}

/// A name and a value; `None` where not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Option<Text>,
    pub(super) value: Option<Text>,
}

/// A name or a value. However often one byte refers to it, it is kept once.
#[derive(Clone, Debug)]
pub(super) enum Text {
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
}

/// A field that is referred to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// What is known of its name and its value.
    Entry(Entry),
    /// It is among what is not in the capture.
    Unknown,
    /// There is none.
    Nothing,
}

impl Table {
    /// The table of a connection seen from its start; no more than `cap` bytes are kept.
    pub(super) fn new(cap: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            most: INITIAL.min(cap),
            cap,
            exact: INITIAL <= cap,
            whole: true,
        }
    }

    /// Fields may have been added, and the limit changed, in what is not in the capture.
    pub(super) fn lose(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.most = self.cap;
        self.exact = false;
        self.whole = false;
    }

    /// The sender's table has this limit from here on. Returns whether as much is kept here.
    pub(super) fn resize(&mut self, most: usize) -> bool {
        self.exact = most <= self.cap;
        self.most = most.min(self.cap);
        self.evict(0);
        self.exact
    }

    pub(super) fn get(&self, index: usize) -> Found {
        let Some(place) = index.checked_sub(1) else {
            return Found::Nothing;
        };
        if let Some((name, value)) = STATIC.get(place) {
            return Found::Entry(Entry {
                name: Some(Text::Static(name)),
                value: Some(Text::Static(value)),
            });
        }
        match self.entries.get(place.saturating_sub(STATIC.len())) {
            Some(entry) => Found::Entry(entry.clone()),
            None if self.whole => Found::Nothing,
            None => Found::Unknown,
        }
    }

    /// Adds a field.
    pub(super) fn add(&mut self, entry: Entry) {
        let size = entry.size();
        if size > self.most && self.exact {
            // "it causes the table to be emptied of all existing entries" and is not added itself (section 4.4).
            // With that, all of the table is known.
            self.entries.clear();
            self.bytes = 0;
            self.whole = true;
            return;
        }
        let entry = if size > self.most {
            // The sender may keep it. It has its place, and is unknown.
            Entry::default()
        } else {
            entry
        };
        let size = entry.size();
        self.evict(size);
        self.bytes = self.bytes.saturating_add(size);
        self.entries.push_front(entry);
    }

    /// Makes room for so many bytes.
    fn evict(&mut self, room: usize) {
        while self.bytes.saturating_add(room) > self.most
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes = self.bytes.saturating_sub(entry.size());
            // The sender may still have it.
            self.whole &= self.exact;
        }
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Entry {
    /// Its size (section 4.1), or the least that it has.
    fn size(&self) -> usize {
        self.length().saturating_add(OVERHEAD)
    }

    /// Bytes of what is known of it.
    pub(super) fn length(&self) -> usize {
        let length = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.len());
        length(&self.name).saturating_add(length(&self.value))
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&[u8]> for Text {
    fn from(text: &[u8]) -> Self {
        Self::Shared(text.into())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

/// RFC 9113, section 6.5.2: the table's size where no setting has changed it.
const INITIAL: usize = 4096;
/// RFC 7541, section 4.1.
const OVERHEAD: usize = 32;

/// RFC 7541, appendix A.
const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &Table) -> Vec<Option<String>> {
        (62..70)
            .map_while(|index| match table.get(index) {
                Found::Entry(entry) => Some(
                    entry
                        .name
                        .map(|name| String::from_utf8_lossy(&name).into_owned()),
                ),
                _ => None,
            })
            .collect()
    }

    fn entry(name: Option<&[u8]>, value: &[u8]) -> Entry {
        Entry {
            name: name.map(Text::from),
            value: Some(value.into()),
        }
    }

    fn some(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    #[test]
    fn the_newest_entry_has_the_lowest_index_and_the_oldest_goes_first() {
        let mut table = Table::new(1 << 16);
        table.resize(100);
        table.add(entry(Some(b"one"), b"1"));
        table.add(entry(Some(b"two"), b"2"));
        assert_eq!(names(&table), some(&["two", "one"]));
        table.add(entry(Some(b"three"), b"3"));
        assert_eq!(names(&table), some(&["three", "two"]));
        assert_eq!(table.get(64), Found::Nothing);
        table.resize(40);
        assert_eq!(names(&table), some(&["three"]));
        table.resize(0);
        assert_eq!(table.get(62), Found::Nothing);
        assert_eq!(table.bytes(), 0);
    }

    #[test]
    fn an_entry_that_is_too_large_empties_the_table() {
        let mut table = Table::new(1 << 16);
        table.resize(64);
        table.add(entry(Some(b"one"), b"1"));
        table.add(entry(Some(b"large"), &[b'x'; 64]));
        assert_eq!(table.get(62), Found::Nothing);
    }

    #[test]
    fn what_lies_before_a_loss_is_unknown_and_what_comes_after_it_is_not() {
        let mut table = Table::new(1 << 16);
        table.add(entry(Some(b"before"), b"1"));
        table.lose();
        assert_eq!(table.get(62), Found::Unknown);
        table.add(entry(Some(b"after"), b"2"));
        table.add(entry(None, b"3"));
        assert_eq!(table.get(62), Found::Entry(entry(None, b"3")));
        assert_eq!(table.get(63), Found::Entry(entry(Some(b"after"), b"2")));
        assert_eq!(table.get(64), Found::Unknown);
        assert_eq!(table.get(2), Found::Entry(entry(Some(b":method"), b"GET")));
        assert_eq!(table.get(0), Found::Nothing);
    }

    #[test]
    fn a_table_larger_than_the_cap_is_known_in_part_and_keeps_its_places() {
        let mut table = Table::new(80);
        assert!(!table.resize(1 << 20));
        table.add(entry(Some(b"one"), b"1"));
        table.add(entry(Some(b"large"), &[b'x'; 100]));
        assert_eq!(table.get(62), Found::Entry(Entry::default()));
        assert_eq!(table.get(63), Found::Entry(entry(Some(b"one"), b"1")));
        table.add(entry(Some(b"two"), b"2"));
        assert_eq!(table.get(62), Found::Entry(entry(Some(b"two"), b"2")));
        assert_eq!(table.get(64), Found::Unknown);
        assert!(table.bytes() <= 80);
        // Emptied by its sender, it is known again.
        assert!(table.resize(0));
        assert!(table.resize(60));
        table.add(entry(Some(b"large"), &[b'x'; 100]));
        assert_eq!(table.get(62), Found::Nothing);
    }
}
