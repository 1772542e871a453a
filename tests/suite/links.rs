//! What is put around packets: link types, tags, tunnels, fragments. A conversation within any of
//! them gives the report that it gives without, and Wireshark's stream numbers are the same.

use crate::{
    talk::{
        expect,
        model::Talk,
        parse::parse,
        render_pcap::{Link, checksum, frame},
        tcp::{Packet, packets},
    },
    talks::options,
};
use forkscope::{
    anomaly::Kind,
    link,
    model::{analysis::Analysis, packet::LinkType},
    pipeline::{Progress, run},
    report::{self, Report, Style},
};
use std::{fs, path::Path, process::Command};

/// An IP packet → the frame that carries it.
type Wrap = fn(&[u8]) -> Vec<u8>;

/// One way to put an IP packet into frames.
#[derive(Clone, Copy)]
struct Around {
    name: &'static str,
    link: u16,
    wrap: Wrap,
    /// Whether tshark 4.0 goes through it.
    wireshark: bool,
}

const fn around(name: &'static str, link: u16, wrap: Wrap) -> Around {
    Around {
        name,
        link,
        wrap,
        wireshark: true,
    }
}

const fn only_here(name: &'static str, link: u16, wrap: Wrap) -> Around {
    Around {
        wireshark: false,
        ..around(name, link, wrap)
    }
}

/// A test for each.
macro_rules! same_report {
    ($($name:ident: $around:expr;)*) => {
        mod within {
            $(
                #[test]
                fn $name() {
                    super::same_report(&super::named(stringify!($name)));
                }
            )*
        }

        /// All of them.
        fn all() -> Vec<Around> {
            vec![$($around(stringify!($name))),*]
        }
    };
}

same_report! {
    // Link types
    ethernet: |name| around(name, 1, ethernet);
    ethernet_padded: |name| around(name, 1, |ip| [ethernet(ip), vec![0; 18]].concat());
    ethernet_vlan: |name| around(name, 1, |ip| tagged(&[0x8100, 7], ip));
    ethernet_qinq: |name| around(name, 1, |ip| tagged(&[0x88a8, 7, 0x8100, 8], ip));
    ethernet_qinq_9100: |name| around(name, 1, |ip| tagged(&[0x9100, 7, 0x8100, 8], ip));
    ethernet_snap: |name| around(name, 1, snap);
    ethernet_macsec: |name| around(name, 1, macsec);
    ethernet_backbone: |name| around(name, 1, |ip| {
        // A service tag around it, as bridges of a backbone send.
        of_type(0x88e7, &[&[0, 0, 0, 7][..], &ethernet(ip)].concat())
    });
    cooked_v1: |name| around(name, 113, |ip| {
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0][..], &ether_type(ip), ip].concat()
    });
    cooked_v2: |name| around(name, 276, |ip| {
        let rest = [0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0];
        [&ether_type(ip)[..], &rest, ip].concat()
    });
    loopback: |name| around(name, 0, |ip| [&family(ip).to_le_bytes()[..], ip].concat());
    loopback_big_endian: |name| around(name, 0, |ip| [&family(ip).to_be_bytes()[..], ip].concat());
    loopback_openbsd: |name| around(name, 108, |ip| [&family(ip).to_be_bytes()[..], ip].concat());
    raw_ip: |name| around(name, 101, <[u8]>::to_vec);
    raw_ip_as_openbsd_has_it: |name| around(name, 14, <[u8]>::to_vec);
    ppp: |name| around(name, 9, |ip| [&[0xff, 0x03][..], &ppp(ip)].concat());
    ppp_without_address: |name| around(name, 9, ppp);
    ppp_in_hdlc: |name| around(name, 50, |ip| [&[0xff, 0x03][..], &ppp(ip)].concat());
    pppoe_link: |name| around(name, 51, pppoe);
    cisco_hdlc: |name| around(name, 104, |ip| [&[0x0f, 0][..], &ether_type(ip), ip].concat());
    netfilter_log: |name| around(name, 239, nflog);
    pktap: |name| around(name, 258, |ip| pktap(&ethernet(ip)));
    packet_filter_log: |name| around(name, 117, |ip| {
        let family = u8::try_from(family(ip)).unwrap();
        [&[61, family, 0, 0][..], &[0; 60], ip].concat()
    });
    // What routers put between
    mpls: |name| around(name, 1, |ip| of_type(0x8847, &labelled(ip)));
    mpls_pseudowire: |name| only_here(name, 1, |ip| {
        of_type(0x8847, &labelled(&[&[0; 4][..], &ethernet(ip)].concat()))
    });
    mpls_pseudowire_without_control_word: |name| only_here(name, 1, |ip| {
        of_type(0x8847, &labelled(&ethernet(ip)))
    });
    pppoe_session: |name| around(name, 1, |ip| of_type(0x8864, &pppoe(ip)));
    gre: |name| around(name, 1, |ip| gre(&[0, 0], ip_type(ip), &[], ip));
    gre_checksum: |name| around(name, 1, |ip| gre(&[0x80, 0], ip_type(ip), &[0; 4], ip));
    gre_key_and_number: |name| around(name, 1, |ip| gre(&[0x30, 0], ip_type(ip), &[0; 8], ip));
    gre_all_fields: |name| around(name, 1, |ip| gre(&[0xb0, 0], ip_type(ip), &[0; 12], ip));
    gre_bridged: |name| around(name, 1, |ip| gre(&[0, 0], 0x6558, &[], &ethernet(ip)));
    gre_mpls: |name| around(name, 1, |ip| gre(&[0, 0], 0x8847, &[], &labelled(ip)));
    gre_in_ipv6: |name| around(name, 1, |ip| {
        ethernet(&ipv6(47, &[&[0; 2][..], &ether_type(ip), ip].concat()))
    });
    nvgre: |name| around(name, 1, |ip| gre(&[0x20, 0], 0x6558, &[0, 0, 7, 1], &ethernet(ip)));
    erspan_1: |name| around(name, 1, |ip| gre(&[0, 0], 0x88be, &[], &ethernet(ip)));
    erspan_2: |name| around(name, 1, |ip| {
        let head = [0, 0, 0, 1, 0x10, 7, 0, 1, 0, 0, 0, 0];
        gre(&[0x10, 0], 0x88be, &head, &ethernet(ip))
    });
    erspan_3: |name| around(name, 1, |ip| {
        let head = [0, 0, 0, 1, 0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        gre(&[0x10, 0], 0x22eb, &head, &ethernet(ip))
    });
    erspan_3_with_platform: |name| around(name, 1, |ip| {
        let head = [0, 0, 0, 1, 0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        gre(&[0x10, 0], 0x22eb, &head, &ethernet(ip))
    });
    ip_in_ipv4: |name| around(name, 1, |ip| ethernet(&ipv4(ip_protocol(ip), ip)));
    ip_in_ipv6: |name| around(name, 1, |ip| ethernet(&ipv6(ip_protocol(ip), ip)));
    ip_in_ipv6_with_options: |name| around(name, 1, |ip| {
        // A limit of encapsulation in destination options (RFC 2473), as Linux sends it.
        ethernet(&ipv6(60, &[&[ip_protocol(ip), 0, 4, 1, 4, 1, 1, 0][..], ip].concat()))
    });
    ethernet_in_ip: |name| around(name, 1, |ip| {
        ethernet(&ipv4(97, &[&[0x30, 0][..], &ethernet(ip)].concat()))
    });
    mpls_in_ip: |name| around(name, 1, |ip| ethernet(&ipv4(137, &labelled(ip))));
    mpls_in_udp: |name| around(name, 1, |ip| udp(6635, &labelled(ip)));
    l2tp: |name| around(name, 1, |ip| {
        udp(1701, &[&[0, 2, 0, 1, 0, 2, 0xff, 0x03][..], &ppp(ip)].concat())
    });
    lisp: |name| around(name, 1, |ip| udp(4341, &[&[0x80, 0, 0, 1, 0, 0, 0, 0][..], ip].concat()));
    mirrored_as_tzsp: |name| around(name, 1, |ip| {
        udp(37_008, &[&[1, 0, 0, 1, 1][..], &ethernet(ip)].concat())
    });
    // What clusters and mobile networks put between
    vxlan: |name| around(name, 1, |ip| ethernet_in_vxlan(4789, ip));
    vxlan_as_linux_has_it: |name| around(name, 1, |ip| ethernet_in_vxlan(8472, ip));
    vxlan_in_ipv6: |name| around(name, 1, |ip| {
        let inner = [&VXLAN[..], &ethernet(ip)].concat();
        ethernet(&ipv6(17, &datagram(4789, &inner)))
    });
    vxlan_of_a_tagged_frame: |name| around(name, 1, |ip| {
        udp(4789, &[&VXLAN[..], &tagged(&[0x8100, 7], ip)].concat())
    });
    vxlan_gpe: |name| around(name, 1, |ip| {
        let next = if ip[0] >> 4 == 4 { 1 } else { 2 };
        udp(4790, &[&[0x0c, 0, 0, next, 0, 0, 7, 0][..], ip].concat())
    });
    geneve: |name| around(name, 1, |ip| geneve(0, 0x6558, &ethernet(ip)));
    geneve_with_options: |name| around(name, 1, |ip| geneve(3, 0x6558, &ethernet(ip)));
    geneve_of_ip: |name| around(name, 1, |ip| geneve(1, ip_type(ip), ip));
    gtp: |name| around(name, 1, |ip| gtp(0x30, &[], ip));
    gtp_with_number: |name| around(name, 1, |ip| gtp(0x32, &[0, 1, 0, 0], ip));
    gtp_with_extensions: |name| around(name, 1, |ip| {
        gtp(0x34, &[0, 0, 0, 0x85, 1, 0x10, 9, 0], ip)
    });
    // Several
    mirrored_overlay: |name| around(name, 1, |ip| {
        let head = [0, 0, 0, 1, 0x10, 7, 0, 1, 0, 0, 0, 0];
        gre(&[0x10, 0], 0x88be, &head, &ethernet_in_vxlan(4789, ip))
    });
}

/// The one of this name.
fn named(name: &str) -> Around {
    all().into_iter().find(|a| a.name == name).unwrap()
}

/// Holds the report of some talks in what is put around them against the report without.
fn same_report(around: &Around) {
    for talk in some_talks() {
        let packets = packets(&talk);
        let plain: Vec<_> = datagrams(&talk, &packets);
        let want = audit(&talk, &pcap(101, &plain));
        assert!(want.resumes.len() + want.exchanges.len() > 1);
        let wrapped = each(&plain, around.wrap);
        let got = audit(&talk, &pcap(around.link, &wrapped));
        assert_eq!(
            everything(&got, &[]),
            everything(&want, &[]),
            "{}: {}",
            around.name,
            talk.name
        );
        assert_eq!(odd(&got), odd(&want), "{}: {}", around.name, talk.name);
    }
}

#[test]
fn wireshark_numbers_the_same_streams() {
    if !has_tshark() {
        return;
    }
    for talk in some_talks() {
        let plain = datagrams(&talk, &packets(&talk));
        let want = streams(&pcap(101, &plain));
        assert!(want.iter().all(|stream| !stream.is_empty()));
        let mut all = all();
        all.retain(|around| around.wireshark);
        all.sort_by_key(|around| around.link);
        // A file a link type: the same connections again and again are the same streams.
        for of_link in all.chunk_by(|a, b| a.link == b.link) {
            let frames: Vec<_> = of_link
                .iter()
                .flat_map(|around| each(&plain, around.wrap))
                .collect();
            let got = streams(&pcap(of_link[0].link, &frames));
            for (around, got) in of_link.iter().zip(got.chunks(want.len())) {
                assert_eq!(got, want, "{}: {}", around.name, talk.name);
            }
        }
    }
}

/// Fragments in every order, and copies of them.
#[test]
fn t20_fragments_are_put_together() {
    let orders: &[fn(&mut Vec<Vec<u8>>)] = &[
        |_| {},
        |pieces| pieces.reverse(),
        // The last first, as Linux once sent them.
        |pieces| pieces.rotate_right(1),
        |pieces| *pieces = pieces.iter().flat_map(|p| [p.clone(), p.clone()]).collect(),
        |pieces| *pieces = [&pieces[..], &pieces[..]].concat(),
    ];
    for talk in some_talks() {
        let packets = packets(&talk);
        let plain = datagrams(&talk, &packets);
        let want = audit(&talk, &pcap(101, &plain));
        let unfragmented = if has_tshark() {
            streams(&pcap(101, &plain))
        } else {
            Vec::new()
        };
        for (number, order) in orders.iter().enumerate() {
            for size in [24, 200] {
                let mut all = Vec::new();
                for (id, (at, ip)) in (0..).zip(&plain) {
                    let mut pieces = fragments(ip, id, size);
                    order(&mut pieces);
                    all.extend(pieces.into_iter().map(|piece| (*at, piece)));
                }
                let capture = pcap(101, &all);
                let got = audit(&talk, &capture);
                let what = format!("{}, order {number}, size {size}", talk.name);
                assert_eq!(
                    everything(&got, &["frame", "end_frame"]),
                    everything(&want, &["frame", "end_frame"]),
                    "{what}"
                );
                assert_eq!(odd(&got), odd(&want), "{what}");
                if has_tshark() && number < 3 && size == 24 {
                    let numbers = streams(&capture);
                    let numbered: Vec<_> = numbers.iter().filter(|n| !n.is_empty()).collect();
                    assert_eq!(numbered, unfragmented.iter().collect::<Vec<_>>(), "{what}");
                    // A row's frame is the one that Wireshark shows the segment at.
                    let rows = got.exchanges.iter().map(|exchange| exchange.place);
                    for place in rows {
                        let index = usize::try_from(place.frame).unwrap() - 1;
                        let stream = place.tcp_stream.unwrap().to_string();
                        assert_eq!(numbers[index], stream, "{what}, frame {}", place.frame);
                    }
                }
            }
        }
    }
}

/// The underlay's packets in fragments, as where its MTU was not raised for the overlay.
#[test]
fn a_tunnel_in_fragments_is_put_together() {
    for talk in some_talks() {
        let plain = datagrams(&talk, &packets(&talk));
        let want = audit(&talk, &pcap(101, &plain));
        let mut all = Vec::new();
        for (id, (at, ip)) in (0..).zip(&plain) {
            let outer = ipv4(17, &datagram(8472, &[&VXLAN[..], &ethernet(ip)].concat()));
            let pieces = fragments(&outer, id, 96);
            all.extend(pieces.into_iter().map(|piece| (*at, piece)));
        }
        let got = audit(&talk, &pcap(101, &all));
        assert_eq!(
            everything(&got, &["frame", "end_frame"]),
            everything(&want, &["frame", "end_frame"]),
            "{}",
            talk.name
        );
        assert_eq!(odd(&got), odd(&want), "{}", talk.name);
    }
}

/// A lost fragment loses its packet, which is told, and accuses nobody of more.
#[test]
fn t20_a_lost_fragment_is_a_lost_packet() {
    for talk in some_talks() {
        let packets = packets(&talk);
        let plain = datagrams(&talk, &packets);
        for (lost, packet) in packets.iter().enumerate() {
            if packet.payload.len() < 64 {
                continue;
            }
            let mut all = Vec::new();
            for (id, (at, ip)) in (0..).zip(&plain) {
                let mut pieces = fragments(ip, id, 48);
                if usize::from(id) == lost {
                    pieces.remove(pieces.len() / 2);
                }
                all.extend(pieces.into_iter().map(|piece| (*at, piece)));
            }
            let got = audit(&talk, &pcap(101, &all));
            let mut without = plain.clone();
            without.remove(lost);
            let want = audit(&talk, &pcap(101, &without));
            let rows = |analysis| rows(analysis, &report::RESUMES, &["frame", "end_frame"]);
            assert_eq!(rows(&got), rows(&want), "{}, packet {lost}", talk.name);
            let told: u64 = counts(&got, Kind::IpFragment);
            assert_eq!(told, 1, "{}, packet {lost}", talk.name);
        }
    }
}

/// A packet on the underlay, within an overlay, and on the interface of a pod is one packet.
#[test]
fn copies_in_and_out_of_tunnels_count_once() {
    for talk in some_talks() {
        let plain = datagrams(&talk, &packets(&talk));
        let want = audit(&talk, &pcap(1, &each(&plain, ethernet)));
        for late in [0, 40, 900] {
            for first_outside in [true, false] {
                let copies: [Wrap; 4] = [
                    ethernet,
                    |ip| ethernet_in_vxlan(4789, ip),
                    |ip| geneve(2, 0x6558, &ethernet(ip)),
                    |ip| gre(&[0x20, 0], ip_type(ip), &[0, 0, 0, 1], ip),
                ];
                let mut all = Vec::new();
                for (number, copy) in (0..).zip(copies) {
                    let number = if first_outside { number } else { 3 - number };
                    all.extend(plain.iter().map(|(at, ip)| (at + late * number, copy(ip))));
                }
                all.sort_by_key(|(at, _)| *at);
                let got = audit(&talk, &pcap(1, &all));
                let loose = ["frame", "end_frame", "end_time"];
                assert_eq!(
                    everything(&got, &loose),
                    everything(&want, &loose),
                    "{}, {late} µs",
                    talk.name
                );
                assert_eq!(odd(&got), odd(&want), "{}, {late} µs", talk.name);
            }
        }
    }
}

#[test]
fn tunnels_within_tunnels_have_a_limit() {
    let talk = &some_talks()[0];
    let plain = datagrams(talk, &packets(talk));
    let want = audit(talk, &pcap(1, &each(&plain, ethernet)));
    let nested = |depth: usize| {
        let wrap = |ip: &[u8]| {
            let mut ip = ip.to_vec();
            for _ in 0..depth {
                ip = ipv4(ip_protocol(&ip), &ip);
            }
            ethernet(&ip)
        };
        let frames: Vec<_> = plain.iter().map(|(at, ip)| (*at, wrap(ip))).collect();
        audit(talk, &pcap(1, &frames))
    };
    let deep = nested(8);
    assert_eq!(everything(&deep, &[]), everything(&want, &[]));
    assert_eq!(odd(&deep), odd(&want));
    let deeper = nested(9);
    assert!(deeper.exchanges.is_empty());
    let all = u64::try_from(plain.len()).unwrap();
    assert_eq!(counts(&deeper, Kind::TunnelDepth), all);
}

/// Offload, padding and cuts, in a tunnel and without.
#[test]
fn t17_what_capturing_does_to_lengths_is_undone() {
    for talk in some_talks() {
        let plain = datagrams(&talk, &packets(&talk));
        let want = audit(&talk, &pcap(101, &plain));
        let no_length = |ip: &[u8]| {
            let mut ip = ip.to_vec();
            match ip[0] >> 4 {
                4 => {
                    ip[2..4].fill(0);
                    ip[10..12].fill(0);
                }
                _ => ip[4..6].fill(0),
            }
            ip
        };
        let bare = each(&plain, no_length);
        let tunnelled: Vec<_> = bare
            .iter()
            .map(|(at, ip)| (*at, no_length(&ipv4(ip_protocol(ip), ip))))
            .collect();
        for capture in [bare, tunnelled] {
            let got = audit(&talk, &pcap(101, &capture));
            assert_eq!(
                everything(&got, &[]),
                everything(&want, &[]),
                "{}",
                talk.name
            );
            assert_eq!(odd(&got), odd(&want), "{}", talk.name);
        }
    }
}

/// What the snapshot length cut of a packet within a tunnel is a hole of known size.
#[test]
fn cut_packets_lose_the_same_in_a_tunnel() {
    for talk in some_talks() {
        let plain = datagrams(&talk, &packets(&talk));
        for keep in [60, 90, 200] {
            let want = audit(&talk, &cut(101, &plain, keep));
            let wrapped = each(&plain, |ip| ethernet_in_vxlan(4789, ip));
            let got = audit(&talk, &cut(1, &wrapped, keep + OVERHEAD));
            let what = format!("{}, {keep} bytes", talk.name);
            assert_eq!(everything(&got, &[]), everything(&want, &[]), "{what}");
            let holes = |analysis: &Analysis| {
                let input = &analysis.inputs[0];
                (input.holes, input.hole_bytes)
            };
            assert_eq!(holes(&got), holes(&want), "{what}");
            assert!(keep > 90 || holes(&got).1 > 0, "{what}: nothing was cut");
        }
    }
}

#[test]
fn t16_wrong_checksums_are_counted_and_change_nothing() {
    let talk = &some_talks()[0];
    let plain = datagrams(talk, &packets(talk));
    let want = audit(talk, &pcap(101, &plain));
    assert_eq!(counts(&want, Kind::BadChecksum), 0);
    let all = u64::try_from(plain.len()).unwrap();
    for (at, wrong) in [(10, all), (36, all)] {
        let broken = each(&plain, |ip| {
            let mut ip = ip.to_vec();
            ip[at] ^= 0x5a;
            ip
        });
        let got = audit(talk, &pcap(101, &broken));
        assert_eq!(everything(&got, &[]), everything(&want, &[]));
        assert_eq!(counts(&got, Kind::BadChecksum), wrong);
    }
    // In a tunnel, the inner ones; and a card's unfinished ones are not wrong.
    let broken = each(&plain, |ip| {
        let mut ip = ip.to_vec();
        ip[36] ^= 0x5a;
        ethernet_in_vxlan(4789, &ip)
    });
    assert_eq!(
        counts(&audit(talk, &pcap(1, &broken)), Kind::BadChecksum),
        all
    );
    let unfinished = each(&plain, |ip| {
        let mut ip = ip.to_vec();
        let length = u16::try_from(ip.len() - 20).unwrap().to_be_bytes();
        let sum = !checksum(&[&ip[12..20], &[0, 6], &length]);
        ip[36..38].copy_from_slice(&sum.to_be_bytes());
        ip
    });
    let got = audit(talk, &pcap(101, &unfinished));
    assert_eq!(counts(&got, Kind::BadChecksum), 0);
}

/// Wireshark numbers a segment that an ICMP error quotes, be it the first of its stream.
#[test]
fn quoted_segments_count_for_the_numbers() {
    let talk = &some_talks()[0];
    let plain = datagrams(talk, &packets(talk));
    let (at, syn) = &plain[0];
    let mut quoted = syn.clone();
    quoted[20..22].copy_from_slice(&999_u16.to_be_bytes());
    let mut cut = syn.clone();
    cut[20..22].copy_from_slice(&998_u16.to_be_bytes());
    cut.truncate(28);
    let error = |inner: &[u8]| {
        let mut icmp = [&[3, 3, 0, 0, 0, 0, 0, 0][..], inner].concat();
        let sum = checksum(&[&icmp]).to_be_bytes();
        icmp[2..4].copy_from_slice(&sum);
        ipv4(1, &icmp)
    };
    let mut all = vec![(*at, error(&quoted)), (*at, error(&cut))];
    all.extend(plain.clone());
    let capture = pcap(101, &all);
    let got = audit(talk, &capture);
    assert_eq!(got.exchanges[0].place.tcp_stream, Some(1));
    if has_tshark() {
        assert_eq!(streams(&capture)[..3], ["0", "", "1"]);
    }
}

#[test]
fn link_types_that_are_not_read_are_named_and_counted() {
    let talk = &some_talks()[0];
    let plain = datagrams(talk, &packets(talk));
    for (link, name) in [
        (105, "IEEE802_11"),
        (127, "IEEE802_11_RADIOTAP"),
        (189, "USB_LINUX"),
        (192, "PPI"),
        (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
        (250, "LINKTYPE 250"),
    ] {
        assert_eq!(link::link_name(LinkType(link)), name);
        let got = audit(talk, &pcap(link, &plain));
        let all = u64::try_from(plain.len()).unwrap();
        assert_eq!(counts(&got, Kind::UnknownLinkType), all);
        let told = got
            .anomalies
            .iter()
            .find(|(_, kind, _)| *kind == Kind::UnknownLinkType)
            .map(|(_, _, tally)| tally.examples[0].detail.clone());
        assert_eq!(told.as_deref(), Some(name));
        assert_eq!(got.exchanges.len(), 0);
    }
}

/// Both versions of IP, one connection after the other, forks and none.
pub(crate) fn some_talks() -> Vec<Talk> {
    ["continued", "continued-ipv6", "f3-numbers-start-again"]
        .map(|name| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/talks");
            let text = fs::read_to_string(folder.join(format!("{name}.talk"))).unwrap();
            parse(name, &text).unwrap()
        })
        .into()
}

/// The IP packets of a talk, each with its time in microseconds.
pub(crate) fn datagrams(talk: &Talk, packets: &[Packet]) -> Vec<(i64, Vec<u8>)> {
    packets
        .iter()
        .map(|packet| (packet.at, frame(talk, packet, Link::Raw)))
        .collect()
}

fn each(packets: &[(i64, Vec<u8>)], wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<(i64, Vec<u8>)> {
    packets.iter().map(|(at, ip)| (*at, wrap(ip))).collect()
}

pub(crate) fn pcap(link: u16, frames: &[(i64, Vec<u8>)]) -> Vec<u8> {
    cut(link, frames, usize::MAX)
}

/// A pcap file of at most the first `keep` bytes of each frame.
fn cut(link: u16, frames: &[(i64, Vec<u8>)], keep: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |number: usize| out.extend(u32::try_from(number).unwrap().to_le_bytes());
    for number in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, usize::from(link)] {
        put(number);
    }
    for (at, frame) in frames {
        let at = usize::try_from(*at).unwrap();
        let captured = frame.len().min(keep);
        for number in [
            1_767_225_600 + at / 1_000_000,
            at % 1_000_000,
            captured,
            frame.len(),
        ] {
            out.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        out.extend(&frame[..captured]);
    }
    out
}

fn audit(talk: &Talk, capture: &[u8]) -> Analysis {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture");
    fs::write(&path, capture).unwrap();
    let mut options = options(talk);
    options.inputs.push(path.to_str().unwrap().to_owned());
    let analysis = run(&options, &Progress::default()).unwrap();
    assert!(analysis.inputs.iter().all(|i| i.unreadable.is_none()));
    analysis
}

/// The rows of what a session is judged by, without the columns that are `loose`.
fn everything(analysis: &Analysis, loose: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = analysis.resumes.iter().map(expect::essence).collect();
    for report in [&report::RESUMES, &report::EXCHANGES, &report::EVENTS] {
        all.extend(rows(analysis, report, loose));
    }
    all.extend(
        analysis
            .findings
            .iter()
            .map(|finding| format!("{} {}", finding.code, finding.session_id)),
    );
    all
}

fn rows(analysis: &Analysis, report: &Report, loose: &[&str]) -> Vec<String> {
    let mut text = Vec::new();
    (report.write)(analysis, &Style::default(), &mut text).unwrap();
    let mut reader = csv::Reader::from_reader(&text[..]);
    let names = reader.headers().unwrap().clone();
    reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            let cells = names.iter().zip(&record).filter(|(name, _)| {
                *name != "input" && !loose.contains(&name.trim_end_matches("_before"))
            });
            let cells = cells.map(|(name, cell)| format!("{name}={cell}"));
            cells.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// How often each kind of oddity was seen.
fn odd(analysis: &Analysis) -> Vec<(Kind, u64)> {
    analysis
        .anomalies
        .iter()
        .map(|(_, kind, tally)| (kind, tally.count))
        .collect()
}

fn counts(analysis: &Analysis, kind: Kind) -> u64 {
    odd(analysis)
        .iter()
        .filter(|(other, _)| *other == kind)
        .map(|(_, count)| count)
        .sum()
}

fn has_tshark() -> bool {
    let has = Command::new("tshark").arg("--version").output().is_ok();
    assert!(
        has || std::env::var_os("CI").is_none(),
        "tshark is missing, and with it the check of stream numbers"
    );
    has
}

/// The stream number of every frame as tshark has it; the last one where an error quotes another.
fn streams(capture: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.pcap");
    fs::write(&path, capture).unwrap();
    tshark(&path)
}

fn tshark(path: &Path) -> Vec<String> {
    let output = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "tcp.stream"])
        // Linux's port for VXLAN is not Wireshark's.
        .args(["-d", "udp.port==8472,vxlan", "-r"])
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn ip_type(ip: &[u8]) -> u16 {
    if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

fn ether_type(ip: &[u8]) -> [u8; 2] {
    ip_type(ip).to_be_bytes()
}

/// The protocol number of this packet in another.
fn ip_protocol(ip: &[u8]) -> u8 {
    if ip[0] >> 4 == 4 { 4 } else { 41 }
}

/// The address family, as macOS has it.
fn family(ip: &[u8]) -> u32 {
    if ip[0] >> 4 == 4 { 2 } else { 30 }
}

fn of_type(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
    [&addresses[..], &ether_type.to_be_bytes(), payload].concat()
}

fn ethernet(ip: &[u8]) -> Vec<u8> {
    of_type(ip_type(ip), ip)
}

/// `tags` are types and identifiers in turn.
fn tagged(tags: &[u16], ip: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(ip);
    let tags: Vec<u8> = tags.iter().flat_map(|tag| tag.to_be_bytes()).collect();
    frame.splice(12..12, tags);
    frame
}

fn snap(ip: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ip.len() + 8).unwrap();
    let payload = [&[0xaa, 0xaa, 0x03, 0, 0, 0][..], &ether_type(ip), ip].concat();
    of_type(length, &payload)
}

/// Authenticated, in the clear.
fn macsec(ip: &[u8]) -> Vec<u8> {
    let tag = [0x20, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 1];
    of_type(
        0x88e5,
        &[&tag[..], &ether_type(ip), ip, &[0x5a; 16]].concat(),
    )
}

fn labelled(inner: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, 64, 0, 2, 1, 64][..], inner].concat()
}

fn ppp(ip: &[u8]) -> Vec<u8> {
    let protocol: u16 = if ip[0] >> 4 == 4 { 0x0021 } else { 0x0057 };
    [&protocol.to_be_bytes()[..], ip].concat()
}

fn pppoe(ip: &[u8]) -> Vec<u8> {
    let ppp = ppp(ip);
    let length = u16::try_from(ppp.len()).unwrap().to_be_bytes();
    [&[0x11, 0, 0, 9][..], &length, &ppp].concat()
}

fn nflog(ip: &[u8]) -> Vec<u8> {
    let family = if ip[0] >> 4 == 4 { 2 } else { 10 };
    let length = u16::try_from(ip.len() + 4).unwrap().to_le_bytes();
    let prefix = [9, 0, 10, 0, b'd', b'r', b'o', b'p', 0, 0, 0, 0];
    [&[family, 0, 0, 5][..], &prefix, &length, &[9, 0], ip].concat()
}

fn pktap(frame: &[u8]) -> Vec<u8> {
    let mut head = [108_u32, 1, 1].map(u32::to_le_bytes).concat();
    head.extend(b"en0");
    head.resize(36, 0);
    head.extend([0_u32, 2, 14, 0].map(u32::to_le_bytes).concat());
    head.resize(108, 0);
    [head, frame.to_vec()].concat()
}

/// An IPv4 packet between hosts of an underlay.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 20).unwrap().to_be_bytes();
    let mut ip = vec![
        0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0,
    ];
    ip.extend([192, 168, 0, 1, 192, 168, 0, 2]);
    let sum = checksum(&[&ip]).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    ip.extend(payload);
    ip
}

fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut ip = vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64];
    ip.extend([0xfd; 16]);
    ip.extend([0xfc; 16]);
    ip.extend(payload);
    ip
}

fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 8).unwrap().to_be_bytes();
    [
        &50_000_u16.to_be_bytes()[..],
        &port.to_be_bytes(),
        &length,
        &[0, 0],
        payload,
    ]
    .concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(&ipv4(17, &datagram(port, payload)))
}

pub(crate) fn ethernet_in_vxlan(port: u16, ip: &[u8]) -> Vec<u8> {
    udp(port, &[&VXLAN[..], &ethernet(ip)].concat())
}

fn geneve(words: u8, protocol: u16, inner: &[u8]) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    let mut head = vec![words, 0, high, low, 0, 0, 7, 0];
    if words > 0 {
        // One option: class, type, length, value.
        head.extend([1, 2, 3, words - 1]);
        head.resize(8 + usize::from(words) * 4, 0x5a);
    }
    udp(6081, &[&head[..], inner].concat())
}

fn gtp(flags: u8, more: &[u8], ip: &[u8]) -> Vec<u8> {
    let length = u16::try_from(more.len() + ip.len()).unwrap().to_be_bytes();
    let head = [flags, 255, length[0], length[1], 0, 0, 0, 7];
    udp(2152, &[&head[..], more, ip].concat())
}

fn gre(flags: &[u8; 2], protocol: u16, fields: &[u8], inner: &[u8]) -> Vec<u8> {
    let head = [&flags[..], &protocol.to_be_bytes(), fields].concat();
    ethernet(&ipv4(47, &[&head[..], inner].concat()))
}

/// The packet in fragments of at most `size` bytes of payload, a multiple of eight.
pub(crate) fn fragments(ip: &[u8], id: u16, size: usize) -> Vec<Vec<u8>> {
    let (head, next, payload) = match ip[0] >> 4 {
        4 => (&ip[..20], 6, &ip[20..]),
        _ => (&ip[..40], ip[6], &ip[40..]),
    };
    if payload.len() <= size {
        return vec![ip.to_vec()];
    }
    let count = payload.chunks(size).len();
    payload
        .chunks(size)
        .enumerate()
        .map(|(number, piece)| {
            let offset = u16::try_from(number * size).unwrap();
            let more = u16::from(number + 1 < count);
            let mut packet = head.to_vec();
            if ip[0] >> 4 == 4 {
                let length = u16::try_from(20 + piece.len()).unwrap();
                packet[2..4].copy_from_slice(&length.to_be_bytes());
                packet[4..6].copy_from_slice(&(id + 1).to_be_bytes());
                packet[6..8].copy_from_slice(&((more << 13) | (offset / 8)).to_be_bytes());
                packet[10..12].fill(0);
                let sum = checksum(&[&packet]).to_be_bytes();
                packet[10..12].copy_from_slice(&sum);
            } else {
                let length = u16::try_from(8 + piece.len()).unwrap();
                packet[4..6].copy_from_slice(&length.to_be_bytes());
                packet[6] = 44;
                packet.extend([next, 0]);
                packet.extend((offset | more).to_be_bytes());
                packet.extend(u32::from(id).to_be_bytes());
            }
            packet.extend(piece);
            packet
        })
        .collect()
}

/// Flags and network 7.
const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 7, 0];

/// Ethernet, IP, UDP, VXLAN, Ethernet.
const OVERHEAD: usize = 14 + 20 + 8 + 8 + 14;
