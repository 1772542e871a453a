//! Texts of heads, each kept once: a run says the same methods, targets, hosts and session ids for every request, and
//! in HTTP/2 a byte may stand for kilobytes that were said before.

use crate::model::id::SessionId;
use foldhash::fast::RandomState;
use std::{collections::HashSet, sync::Arc};

/// Texts that are remembered: more than the services, clients and open sessions of one shard have.
const TEXTS: usize = 4096;
/// Bytes of all of them.
const BYTES: usize = 1 << 20;

/// The texts that the exchanges of one shard were seen to have.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: HashSet<Arc<str>, RandomState>,
    bytes: usize,
}

impl Texts {
    /// A text, shared with whoever has the same.
    pub(super) fn of(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        if self.known.len() >= TEXTS || self.bytes.saturating_add(text.len()) > BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let new: Arc<str> = Arc::from(text);
        self.bytes = self.bytes.saturating_add(text.len());
        self.known.insert(Arc::clone(&new));
        new
    }

    /// The same of a session's id.
    pub(super) fn id(&mut self, id: &str) -> SessionId {
        self.of(id).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let mut texts = Texts::default();
        let (one, two) = (texts.of("/mcp"), texts.of("/mcp"));
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(&*texts.id("/mcp"), "/mcp");
        assert!(!Arc::ptr_eq(&one, &texts.of("/sse")));
    }

    #[test]
    fn what_never_comes_again_is_not_kept_for_ever() {
        let mut texts = Texts::default();
        for number in 0..3 * TEXTS {
            texts.of(&number.to_string());
        }
        assert!(texts.known.len() <= TEXTS);
        let long = "x".repeat(BYTES / 3);
        for number in 0..10 {
            texts.of(&format!("{number}{long}"));
        }
        assert!(texts.bytes <= BYTES);
        assert!(texts.known.len() < 4);
    }
}
