#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::*;
use httlib_hpack::Encoder;
use proptest::prelude::*;

const CAP: usize = 64 << 10;

fn fields() -> Fields {
    Fields::new(512, 256 << 10)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A block's fields as text, a line each.
fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
    let mut fields = fields();
    decoder.decode(block, &mut fields).unwrap();
    assert_eq!((fields.unknown(), fields.odd()), (0, None));
    lines(&fields)
}

fn lines(fields: &Fields) -> Vec<String> {
    fields
        .known()
        .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
        .collect()
}

/// The examples of RFC 7541, appendix C, whose blocks of one list follow each other.
#[test]
fn reads_the_examples_of_the_rfc() {
    let requests = [
        ":method: GET|:scheme: http|:path: /|:authority: www.example.com",
        ":method: GET|:scheme: http|:path: /|:authority: www.example.com|cache-control: no-cache",
        ":method: GET|:scheme: https|:path: /index.html|:authority: www.example.com|custom-key: custom-value",
    ];
    let responses = [
        ":status: 302|cache-control: private|date: Mon, 21 Oct 2013 20:13:21 GMT|location: https://www.example.com",
        ":status: 307|cache-control: private|date: Mon, 21 Oct 2013 20:13:21 GMT|location: https://www.example.com",
        ":status: 200|cache-control: private|date: Mon, 21 Oct 2013 20:13:22 GMT|location: https://www.example.com|content-encoding: gzip|set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ];
    for (blocks, want, size, left) in [
        // C.3 and C.4: requests, without and with Huffman.
        (
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            requests,
            None,
            164,
        ),
        (
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
            requests,
            None,
            164,
        ),
        // C.5 and C.6: responses in a table of 256 bytes.
        (
            [
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
                 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 \
                 6c65 2e63 6f6d",
                "4803 3330 37c1 c0bf",
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d \
                 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 \
                 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e \
                 3d31",
            ],
            responses,
            Some(256),
            215,
        ),
        (
            [
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
                 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                "4883 640e ffc1 c0bf",
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
                 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
                 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            ],
            responses,
            Some(256),
            215,
        ),
    ] {
        let mut decoder = Decoder::new(CAP);
        if let Some(size) = size {
            decoder.table.resize(size);
        }
        for (block, want) in blocks.into_iter().zip(want) {
            assert_eq!(read(&mut decoder, &hex(block)).join("|"), want);
        }
        assert_eq!(decoder.table.bytes(), left);
    }
    // C.2: one representation each.
    for (block, want, left) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
            55,
        ),
        (
            "040c 2f73 616d 706c 652f 7061 7468",
            ":path: /sample/path",
            0,
        ),
        (
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            "password: secret",
            0,
        ),
        ("82", ":method: GET", 0),
    ] {
        let mut decoder = Decoder::new(CAP);
        assert_eq!(read(&mut decoder, &hex(block)), [want]);
        assert_eq!(decoder.table.bytes(), left);
    }
}

#[test]
fn reads_integers_as_the_rfc_writes_them() {
    // C.1.
    for (bytes, prefix, value) in [
        (&[0x0a][..], 5, Ok(10)),
        (&[0x1f, 0x9a, 0x0a], 5, Ok(1337)),
        (&[0x2a], 8, Ok(42)),
        (&[0x1f, 0x80, 0x00], 5, Ok(31)),
        (&[0x1f], 5, Err(Error::Short)),
        (&[0x1f, 0x80], 5, Err(Error::Short)),
        (
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f],
            7,
            Err(Error::Integer),
        ),
        (
            &[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            7,
            Err(Error::Integer),
        ),
    ] {
        assert_eq!(Input(bytes).integer(prefix), value, "{bytes:x?}");
    }
}

/// Sixty blocks that another implementation wrote (fixtures/README.md), with changes of the table's size.
#[test]
fn reads_what_another_implementation_wrote() {
    let story = include_str!("../../../../fixtures/hpack/hyper.txt");
    let mut decoder = Decoder::new(CAP);
    for line in story.lines() {
        let (block, want) = line.split_once(' ').unwrap();
        let want: Vec<String> = want
            .split(' ')
            .map(|field| {
                let (name, value) = field.split_once('=').unwrap();
                let (name, value) = (hex(name), hex(value));
                format!("{}: {}", name.escape_ascii(), value.escape_ascii())
            })
            .collect();
        assert_eq!(read(&mut decoder, &hex(block)), want);
    }
    assert_eq!(story.lines().count(), 60);
}

#[test]
fn blocks_that_end_early_or_make_no_sense_lose_the_table() {
    for (block, error) in [
        (&[0x40][..], Error::Short),
        (&[0x40, 0x03, b'a'], Error::Short),
        // What other decoders panic on.
        (&[0x3f], Error::Short),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], Error::Integer),
        (&[0x00, 0x81, 0xff, 0x00], Error::Huffman),
    ] {
        let mut decoder = Decoder::new(CAP);
        let result = decoder.decode(block, &mut fields());
        assert_eq!(result, Err(error), "{block:x?}");
        assert_eq!(decoder.table.get(62), Found::Unknown);
    }
}

#[test]
fn what_is_not_known_has_no_name() {
    let mut decoder = Decoder::new(CAP);
    decoder.lose();
    let mut fields = fields();
    // Two entries that are not known, one a name alone; then the second as the newest entry.
    let block = hex("82 be 7e 01 78 be 84");
    decoder.decode(&block, &mut fields).unwrap();
    assert_eq!(lines(&fields), [":method: GET", ":path: /"]);
    assert_eq!((fields.unknown(), fields.odd()), (3, None));
}

#[test]
fn an_index_that_cannot_be_is_told() {
    for block in [&[0x80][..], &[0xbe], &[0x7f, 0x00, 0x00]] {
        let mut fields = fields();
        Decoder::new(CAP).decode(block, &mut fields).unwrap();
        assert_eq!((fields.unknown(), fields.odd()), (1, Some(BEYOND)));
    }
}

#[test]
fn a_block_that_becomes_large_is_cut_and_leaves_the_table_right() {
    let mut decoder = Decoder::new(CAP);
    let mut small = Fields::new(3, 100);
    // A long field, referred to many times, then a short one.
    let mut block = hex("40 01 61 32");
    block.extend([b'x'; 50]);
    block.extend([0xbe; 1000]);
    block.extend(hex("40 01 62 01 79"));
    decoder.decode(&block, &mut small).unwrap();
    assert!(small.is_cut() && small.kept.len() <= 3 && small.bytes <= 100);
    assert_eq!(read(&mut decoder, &[0xbe]), ["b: y"]);
}

/// What the encoder of the oracle is asked to do.
#[derive(Clone, Debug)]
enum Act {
    Block(Vec<(usize, Vec<u8>, u8)>),
    Resize(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let value = prop_oneof![
        Just(b"GET".to_vec()),
        Just(b"text/event-stream".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(0x20_u8..0x7f, 0..200),
    ];
    // By Huffman or not, added to the table, never, or not, as well as it can.
    let flags = (
        0_u8..4,
        prop_oneof![Just(0_u8), Just(4), Just(8)],
        any::<bool>(),
    )
        .prop_map(|(huffman, kind, best)| huffman | kind | if best { 0x10 } else { 0 });
    let field = (0..NAMES.len(), value, flags);
    let act = prop_oneof![
        9 => proptest::collection::vec(field, 0..12).prop_map(Act::Block),
        1 => (0_u32..5000).prop_map(Act::Resize),
    ];
    proptest::collection::vec(act, 1..30)
}

const NAMES: [&str; 7] = [
    ":method",
    ":path",
    ":status",
    "mcp-session-id",
    "last-event-id",
    "content-type",
    "cookie",
];

/// The blocks that the oracle writes, with the fields that it was given.
fn encoded(acts: &[Act]) -> Vec<(Vec<u8>, Vec<String>)> {
    let mut encoder = Encoder::default();
    let mut pending = Vec::new();
    let mut out = Vec::new();
    for act in acts {
        match act {
            Act::Resize(size) => encoder
                .update_max_dynamic_size(*size, &mut pending)
                .unwrap(),
            Act::Block(list) => {
                let mut block = std::mem::take(&mut pending);
                let mut want = Vec::new();
                for (name, value, flags) in list {
                    let name = NAMES[*name];
                    want.push(format!("{name}: {}", value.escape_ascii()));
                    let field = (name.as_bytes().to_vec(), value.clone(), *flags);
                    encoder.encode(field, &mut block).unwrap();
                }
                out.push((block, want));
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every representation that an encoder of other people may choose is read as it was meant.
    #[test]
    fn reads_what_an_encoder_writes(acts in acts()) {
        let mut decoder = Decoder::new(CAP);
        for (block, want) in encoded(&acts) {
            prop_assert_eq!(read(&mut decoder, &block), want);
        }
    }

    /// Without some of its blocks, what is told of the others is true: a field that is known is the one that
    /// was written in its place, and all others are counted.
    #[test]
    fn never_takes_a_field_for_another(acts in acts(), lost in any::<u32>(), cap in 40_usize..5000) {
        let mut decoder = Decoder::new(cap);
        for (index, (block, want)) in encoded(&acts).into_iter().enumerate() {
            if lost & (1 << (index % 32)) != 0 {
                decoder.lose();
                continue;
            }
            let mut fields = fields();
            decoder.decode(&block, &mut fields).unwrap();
            let told = lines(&fields);
            prop_assert_eq!(told.len() + fields.unknown(), want.len());
            // In order: those known are what is left of the list when the others are taken out.
            let mut rest = want.iter();
            for line in &told {
                prop_assert!(rest.any(|wanted| wanted == line), "{line} in {want:?}");
            }
            prop_assert!(decoder.table.bytes() <= cap);
        }
    }

    /// Any bytes are read to their end or refused, and nothing grows past its cap.
    #[test]
    fn survives_any_bytes(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..8)) {
        let mut decoder = Decoder::new(500);
        for block in blocks {
            let mut fields = Fields::new(20, 1000);
            let _ = decoder.decode(&block, &mut fields);
            prop_assert!(fields.bytes <= 1000 && fields.kept.len() <= 20);
            prop_assert!(decoder.table.bytes() <= 500);
        }
    }
}
