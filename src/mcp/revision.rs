//! Protocol revisions: which rules a request stands under.

use crate::model::exchange::Exchange;

/// The revisions of the protocol that matter for sessions. Revisions are dates; a date not known
/// here stands with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Era {
    /// Sessions and resumption: 2025-03-26 to 2025-11-25, and anything not known.
    Sessions,
    /// 2026-07-28 and later: no sessions, no GET stream, no `Last-Event-ID`.
    Sessionless,
}

/// The revision a request states for itself: the `MCP-Protocol-Version` header, else `_meta` of
/// its body (revision 2026-07-28). The `protocolVersion` of an `initialize` is an offer and no
/// statement.
#[must_use]
pub fn stated(exchange: &Exchange) -> Option<&str> {
    let request = exchange.request.as_ref()?;
    if let Some(version) = request.protocol_version.as_deref() {
        return Some(version.trim());
    }
    request
        .messages
        .iter()
        .filter(|message| message.method.as_deref() != Some("initialize"))
        .find_map(|message| message.protocol_version())
}

/// The era of a revision's name.
///
/// Only a well-formed date on or after 2026-07-28 is sessionless: anything else that a client
/// makes up is judged as the session it names.
#[must_use]
pub fn era(version: &str) -> Era {
    let shaped = version.len() == 10
        && version
            .bytes()
            .enumerate()
            .all(|(index, byte)| match index {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
    if shaped && version >= FIRST_SESSIONLESS {
        Era::Sessionless
    } else {
        Era::Sessions
    }
}

/// SEP-2567 and SEP-2575 took sessions and resumption out of the protocol.
const FIRST_SESSIONLESS: &str = "2026-07-28";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dates_from_2026_07_28_on_are_sessionless() {
        assert_eq!(era("2026-07-28"), Era::Sessionless);
        assert_eq!(era("2027-01-01"), Era::Sessionless);
        assert_eq!(era("2025-11-25"), Era::Sessions);
        assert_eq!(era("1999-01-01"), Era::Sessions);
        assert_eq!(era("DRAFT-2026-v1"), Era::Sessions);
        assert_eq!(era("9999"), Era::Sessions);
    }
}
