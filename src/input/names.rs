//! What the names of inputs tell: which files one capture wrote in turn.

use crate::model::coverage::{RingFile, Stem};

/// A file of several that one capture wrote, with its number: `NAME_NNNNN_TIME.EXT` of dumpcap and editcap, with
/// 5 digits or more and 14; `NAME.EXTN` of tcpdump's `-C`, whose first file has no number; and any name
/// with a last number of 3 digits or more, as those who cut captures give.
#[must_use]
pub fn ring_file(name: &str) -> Option<RingFile<'_>> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let file = name.rsplit_once(['/', '\\']).map_or(name, |(_, file)| file);
    let folder = name.len() - file.len();
    let dumpcap = || {
        let (rest, time) = file.split('.').next()?.rsplit_once('_')?;
        let (stem, number) = rest.rsplit_once('_')?;
        let fits = is_digits(number) && number.len() >= 5 && is_digits(time) && time.len() == 14;
        let stem = Stem::Ring(name.get(..folder + stem.len())?);
        fits.then(|| Some((stem, number.parse().ok()?)))?
    };
    let tcpdump = || {
        let bare = file.trim_end_matches(".gz").trim_end_matches(".zst");
        let number = EXTENSIONS.iter().find_map(|extension| {
            let (_, number) = bare.rsplit_once(extension)?;
            (number.is_empty() || is_digits(number)).then_some(number)
        })?;
        let stem = Stem::Ring(name.get(..folder + bare.len() - number.len())?);
        match number {
            "" => Some((stem, 0)),
            number => Some((stem, number.parse().ok()?)),
        }
    };
    let numbered = || {
        let last = file.rfind(|c: char| c.is_ascii_digit())?;
        let before = file
            .get(..=last)?
            .trim_end_matches(|c: char| c.is_ascii_digit());
        let number = file.get(before.len()..=last)?;
        let stem = Stem::Numbered(name.get(..folder + before.len())?, file.get(last + 1..)?);
        (number.len() >= 3).then(|| Some((stem, number.parse().ok()?)))?
    };
    // The first file of tcpdump's has a name like any other.
    let numbered_ring = || tcpdump().filter(|&(_, number): &(_, u64)| number > 0);
    let (stem, number) = dumpcap()
        .or_else(numbered_ring)
        .or_else(numbered)
        .or_else(tcpdump)?;
    Some(RingFile { stem, number })
}

/// Names of captures that tcpdump appends a number to.
const EXTENSIONS: [&str; 2] = [".pcap", ".cap"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_files_of_a_ring() {
        let numbered = |before, after, number| (Stem::Numbered(before, after), number);
        for (name, file) in [
            (
                "a/run_00012_20251009085320.pcapng",
                (Stem::Ring("a/run"), 12),
            ),
            (
                "run_100000_20251009085320.pcap.gz",
                (Stem::Ring("run"), 100_000),
            ),
            ("x.pcap", (Stem::Ring("x.pcap"), 0)),
            ("dir.d/x.pcap17", (Stem::Ring("dir.d/x.pcap"), 17)),
            ("x.cap3", (Stem::Ring("x.cap"), 3)),
            ("x.pcap2.gz", (Stem::Ring("x.pcap"), 2)),
            ("d1/part0041.pcap", numbered("d1/part", ".pcap", 41)),
            ("n1-007-é.har", numbered("n1-", "-é.har", 7)),
            (
                "run_12_20251009085320.log",
                numbered("run_12_", ".log", 20_251_009_085_320),
            ),
        ] {
            let (stem, number) = file;
            assert_eq!(ring_file(name), Some(RingFile { stem, number }), "{name}");
        }
        for name in [
            "",
            "-",
            "run2",
            "ts01.har",
            "x.pcapng",
            "é.pcapä",
            "99999999999999999999999",
        ] {
            assert_eq!(ring_file(name), None, "{name}");
        }
    }
}
