//! The Huffman code of header strings (RFC 7541, section 5.2 and appendix B).

/// Decodes `bytes` to the end of `out`.
///
/// The code is canonical: codes of one length are consecutive numbers in the order of their symbols, so
/// their lengths tell them all. A code is found by its length, as nearly all have 5 to 8 bits.
pub(super) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
    // The bits not decoded yet, at the upper end.
    let mut window: u64 = 0;
    let mut bits: u32 = 0;
    let mut rest = bytes.iter();
    loop {
        while bits <= 56
            && let Some(byte) = rest.next()
        {
            window |= u64::from(*byte) << (56 - bits);
            bits += 8;
        }
        if bits == 0 {
            return Ok(());
        }
        match next(window, bits) {
            Some((symbol, length)) => {
                // EOS in a string is an error, as is a symbol that is no byte.
                out.push(u8::try_from(symbol).map_err(|_| Broken)?);
                window <<= length;
                bits -= length;
            }
            // "Padding strictly longer than 7 bits MUST be treated as a decoding error", as what are not
            // the most significant bits of EOS: ones.
            None if bits < 8 && window.leading_ones() >= bits => return Ok(()),
            None => return Err(Broken),
        }
    }
}

/// Bytes that are not of this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The first symbol of a window of so many bits, and its length.
fn next(window: u64, bits: u32) -> Option<(u16, u32)> {
    for step in &STEPS {
        let length = step.length;
        if length > bits {
            return None;
        }
        let code = window >> (64 - length);
        if code < u64::from(step.end) {
            let place = usize::try_from(code).ok()?.checked_add(step.place)?;
            // Codes below those of this length are shorter ones, which came before.
            let place = place.checked_sub(step.first)?;
            return SYMBOLS.get(place).map(|symbol| (*symbol, length));
        }
    }
    None
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct Step {
    length: u32,
    /// Its first code, and the one after its last.
    first: usize,
    end: u32,
    /// Where its symbols begin in [`SYMBOLS`].
    place: usize,
}

const LONGEST: u32 = 30;

/// All symbols, by the length of their codes and then by value.
const SYMBOLS: [u16; 257] = symbols();
/// The codes by their lengths, those of 5 bits first.
const STEPS: [Step; LONGEST as usize - 4] = steps();

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated when compiled, over a table of this file"
)]
const fn symbols() -> [u16; 257] {
    let mut symbols = [0; 257];
    let (mut length, mut count) = (1, 0);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as u32 == length {
                symbols[count] = symbol as u16;
                count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    symbols
}

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated when compiled, over a table of this file"
)]
const fn steps() -> [Step; LONGEST as usize - 4] {
    let none = Step {
        length: 0,
        first: 0,
        end: 0,
        place: 0,
    };
    let mut steps = [none; LONGEST as usize - 4];
    let (mut length, mut code, mut place) = (5, 0_usize, 0);
    while length <= LONGEST {
        let mut count = 0;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as u32 == length {
                count += 1;
            }
            symbol += 1;
        }
        steps[length as usize - 5] = Step {
            length,
            first: code,
            end: (code + count) as u32,
            place,
        };
        code = (code + count) << 1;
        place += count;
        length += 1;
    }
    steps
}

/// Bits of the code of each byte, and of EOS (RFC 7541, appendix B).
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may panic")]

    use super::*;

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| out)
    }

    #[test]
    fn reads_the_examples_of_the_rfc() {
        // RFC 7541, appendix C.4 and C.6.
        for (bytes, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
        ] {
            assert_eq!(decoded(bytes).as_deref(), Ok(text.as_bytes()));
        }
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    #[test]
    fn refuses_what_the_rfc_calls_errors() {
        // EOS; padding of 8 bits and more; padding that is no ones.
        for bytes in [
            &[0xff, 0xff, 0xff, 0xff][..],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0x64, 0x02, 0xff],
            &[0x18],
        ] {
            assert_eq!(decoded(bytes), Err(Broken), "{bytes:x?}");
        }
    }

    #[test]
    fn the_lengths_are_those_of_a_whole_code() {
        // Kraft's sum of a code without a gap is one.
        let sum: u64 = LENGTHS
            .iter()
            .map(|length| 1 << (LONGEST - u32::from(*length)))
            .sum();
        assert_eq!(sum, 1 << LONGEST);
        assert_eq!(SYMBOLS[..10], [48, 49, 50, 97, 99, 101, 105, 111, 115, 116]);
        assert_eq!(SYMBOLS[256], 256);
    }
}
