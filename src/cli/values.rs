//! Values of flags that are more than a word.

use forkscope::model::time::Span;

/// A size: a number with a unit, `512M`, `2G`, `1.5GiB`; all units are powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err("a number with a unit, such as 512M or 2G".to_owned()),
    };
    let bytes = scaled(number, factor)
        .ok_or_else(|| "a number with a unit, such as 512M or 2G".to_owned())?;
    if bytes < SMALLEST {
        return Err("at least 1M: packets and heads have to fit".to_owned());
    }
    Ok(bytes)
}

/// A length of time: a number with a unit, `2s`, `500ms`, `1.5min`, `1h`; seconds without one.
pub(crate) fn duration(text: &str) -> Result<Span, String> {
    let wrong = || "a number with a unit, such as 2s or 500ms".to_owned();
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit {
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(wrong()),
    };
    let nanos = scaled(number, factor).ok_or_else(wrong)?;
    i64::try_from(nanos)
        .map(Span::from_nanos)
        .map_err(|_| wrong())
}

/// A file and what is added to its times: `FILE=DUR`, `tap-b.pcap=-1.5s`, `b.pcap=+200ms`. A file may
/// have a `=` in its name, a length of time has none.
pub(crate) fn clock_offset(text: &str) -> Result<(String, Span), String> {
    let wrong = || "FILE=DUR, such as tap-b.pcap=-1.5s or b.pcap=+200ms".to_owned();
    let (file, offset) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (sign, length) = match offset.strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let length = duration(length).map_err(|_| wrong())?;
    if file.is_empty() {
        return Err(wrong());
    }
    Ok((file.to_owned(), Span::from_nanos(sign * length.nanos())))
}

/// A server: `HOST`, `HOST:PORT`, IPv6 in brackets when a port follows. The host in lower case.
pub(crate) fn server(text: &str) -> Result<(String, Option<u16>), String> {
    let wrong = || "HOST or HOST:PORT, IPv6 in brackets".to_owned();
    let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
        match rest.strip_prefix(':') {
            Some(rest) => (host, Some(port(rest)?)),
            None if rest.is_empty() => (host, None),
            None => return Err(wrong()),
        }
    } else {
        match text.split_once(':') {
            // More than one colon: an IPv6 address without brackets has no port.
            Some(_) if text.parse::<std::net::Ipv6Addr>().is_ok() => (text, None),
            Some((host, rest)) => (host, Some(port(rest)?)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err(wrong());
    }
    Ok((host.to_ascii_lowercase(), port))
}

/// The name of a header: a token (RFC 9110, section 5.1), in lower case.
pub(crate) fn header(text: &str) -> Result<String, String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text.is_empty() || !text.bytes().all(token) {
        return Err("the name of a header".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// A decimal number times `factor`, exactly; what is below one is cut off.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u64 = fraction.parse().ok()?;
    let below = u128::from(fraction) * u128::from(factor) / u128::from(scale);
    whole
        .checked_mul(factor)?
        .checked_add(u64::try_from(below).ok()?)
}

/// Below this nothing could be read.
const SMALLEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("1.5g"), Ok(3 << 29));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for wrong in ["", "M", "1x", "10k", "-1G", "99999999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_lengths_of_time() {
        assert_eq!(duration("2s"), Ok(Span::from_secs(2)));
        assert_eq!(duration("500ms"), Ok(Span::from_millis(500)));
        assert_eq!(duration("1.5min"), Ok(Span::from_secs(90)));
        assert_eq!(duration("0"), Ok(Span::ZERO));
        for wrong in ["", "s", "-2s", "2 s", "2y", "1e9s", "99999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_clock_offsets() {
        let of = |file: &str, millis| Ok((file.to_owned(), Span::from_millis(millis)));
        assert_eq!(clock_offset("b.pcap=-1.5s"), of("b.pcap", -1500));
        assert_eq!(clock_offset("b.pcap=+200ms"), of("b.pcap", 200));
        assert_eq!(clock_offset("a=b.pcap=2"), of("a=b.pcap", 2000));
        assert_eq!(clock_offset("-=-1h"), of("-", -3_600_000));
        assert_eq!(
            clock_offset("x=500us"),
            Ok(("x".to_owned(), Span::from_nanos(500_000)))
        );
        for wrong in [
            "", "b.pcap", "=2s", "b=", "b=-", "b=--2s", "b=soon", "b=2 s",
        ] {
            assert!(clock_offset(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_servers() {
        let named = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(server("Mcp.Example"), named("mcp.example", None));
        assert_eq!(server("10.0.0.9:8080"), named("10.0.0.9", Some(8080)));
        assert_eq!(server("[fd00::9]:8080"), named("fd00::9", Some(8080)));
        assert_eq!(server("[::1]"), named("::1", None));
        assert_eq!(server("fd00::9"), named("fd00::9", None));
        for wrong in [
            "",
            ":80",
            "host:",
            "host:99999",
            "[::1",
            "[::1]x",
            "[host]:1",
            "a:b:c",
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_header_names() {
        assert_eq!(header("X-Session"), Ok("x-session".to_owned()));
        for wrong in ["", "a b", "a:", "ä"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }
}
