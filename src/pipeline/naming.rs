//! Headers that say which process answered, which proxy passed a request on, and by which id its
//! senders trace it.

use crate::{
    limits::Limits,
    mcp::message,
    model::{
        exchange::{BackendName, Teller},
        message::PayloadHash,
    },
};

/// Headers as every road gives them.
type Headers<'h> = [(&'h str, &'h [u8])];

/// Every name that a response gives the process behind it, the most trusted first: the headers
/// `asked` for, the usual ones, sticky cookies that it sets, and those that the client brought and
/// the balancer did not replace (`brought`).
pub(super) fn names(
    headers: &Headers<'_>,
    asked: &[String],
    brought: Vec<BackendName>,
    limits: &Limits,
) -> Vec<BackendName> {
    let mut names = Vec::new();
    for &(header, value) in headers {
        let is = |name: &&str| header.eq_ignore_ascii_case(name);
        if let Some(index) = asked.iter().position(|name| is(&name.as_str())) {
            add(
                &mut names,
                Teller::Asked(number(index)),
                header,
                value,
                limits,
            );
        } else if let Some(index) = HEADERS.iter().position(is) {
            add(
                &mut names,
                Teller::Usual(number(index)),
                header,
                value,
                limits,
            );
        } else if header.eq_ignore_ascii_case("set-cookie") {
            let pair = value.split(|&byte| byte == b';').next().unwrap_or(value);
            names.extend(cookie(pair, limits));
        }
    }
    for name in brought {
        if names.iter().all(|known| known.teller != name.teller) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| name.teller);
    names.dedup_by_key(|name| name.teller);
    names
}

/// The sticky cookies that a request brings.
pub(super) fn cookies(headers: &Headers<'_>, limits: &Limits) -> Vec<BackendName> {
    all(headers, "cookie")
        .flat_map(|value| value.split(|&byte| byte == b';'))
        .filter_map(|pair| cookie(pair, limits))
        .collect()
}

/// The id by which the senders of a request trace it: what proxies pass on of it, as a hash.
pub(super) fn trace(headers: &Headers<'_>) -> Option<PayloadHash> {
    TRACES.iter().find_map(|&(name, separator, place)| {
        let value = all(headers, name).next()?;
        let id = value
            .split(|&byte| byte == separator)
            .nth(place)?
            .trim_ascii();
        // A few bytes are a counter rather than an id.
        (id.len() >= 8).then(|| message::hash(id))
    })
}

/// Whether a proxy says that it passed a request on.
pub(super) fn is_forwarded(headers: &Headers<'_>) -> bool {
    FORWARDED
        .iter()
        .any(|name| all(headers, name).next().is_some())
}

/// The address of the client for whom a proxy sent a request, as a hash: the first one that it names
/// (RFC 7239, section 5.2).
pub(super) fn on_behalf(headers: &Headers<'_>) -> Option<PayloadHash> {
    let first = |value: &'_ [u8]| -> Option<PayloadHash> {
        let first = value.split(|&byte| byte == b',').next()?.trim_ascii();
        let quoted = |byte: u8| matches!(byte, b'"' | b'[' | b']');
        let bare: Vec<u8> = first
            .iter()
            .copied()
            .filter(|&byte| !quoted(byte))
            .collect();
        (!bare.is_empty()).then(|| message::hash(&bare))
    };
    let told = CLIENTS.iter().find_map(|name| all(headers, name).next());
    if let Some(value) = told {
        return first(value);
    }
    let forwarded = all(headers, "forwarded").next()?;
    let hop = forwarded.split(|&byte| byte == b',').next()?;
    hop.split(|&byte| byte == b';').find_map(|pair| {
        let (name, value) = pair.trim_ascii().split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then(|| first(value))?
    })
}

fn all<'h>(headers: &Headers<'h>, name: &str) -> impl Iterator<Item = &'h [u8]> {
    headers
        .iter()
        .filter(move |(header, _)| header.eq_ignore_ascii_case(name))
        .map(|(_, value)| *value)
}

fn add(names: &mut Vec<BackendName>, teller: Teller, header: &str, value: &[u8], limits: &Limits) {
    let text = text(value, limits);
    let mut name = text.as_str();
    if header.to_ascii_lowercase().contains("upstream") {
        // nginx lists every server it tried (`a, b`; `a : b` after an internal redirect): the last
        // one answered.
        name = name.rsplit(',').next().unwrap_or(name);
        name = name.rsplit(" : ").next().unwrap_or(name).trim();
    }
    // Fastly's caches name themselves so, not what is behind them.
    let is_cache = header.eq_ignore_ascii_case("x-served-by") && name.starts_with("cache-");
    if !name.is_empty() && name != "-" && !is_cache {
        names.push(BackendName {
            teller,
            name: name.into(),
        });
    }
}

/// The backend that a sticky cookie names.
fn cookie(pair: &[u8], limits: &Limits) -> Option<BackendName> {
    let text = text(pair, limits);
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim().trim_matches('"'));
    let index = COOKIES.iter().position(|known| match known {
        Cookie::Named(known) | Cookie::Route(known) => name == *known,
        Cookie::Beginning(start) => name.starts_with(start),
    })?;
    let value = match COOKIES.get(index)? {
        // `ID.route`: the id is the application's own.
        Cookie::Route(_) => value.rsplit_once('.')?.1,
        // Encrypted, and another one each time.
        Cookie::Beginning(_) if value.starts_with('!') => return None,
        Cookie::Named(_) | Cookie::Beginning(_) => value,
    };
    (!value.is_empty()).then(|| BackendName {
        teller: Teller::Usual(number(HEADERS.len() + index)),
        name: value.into(),
    })
}

fn text(value: &[u8], limits: &Limits) -> String {
    let value = value.get(..limits.text).unwrap_or(value);
    String::from_utf8_lossy(value).trim().to_owned()
}

fn number(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Response headers by which balancers, platforms and applications name the process that answered:
/// names by convention (`http-response set-header X-Server %s` in HAProxy, `add_header X-Upstream
/// $upstream_addr` in nginx, the host or pod name in applications). Names of software (`Server`,
/// `X-Powered-By`), of edges (`Via`, `CF-Ray`, `X-Amz-Cf-Pop`) and of requests (`X-Request-Id`,
/// `X-Vercel-Id`) are none.
const HEADERS: &[&str] = &[
    "x-backend",
    "x-backend-server",
    "x-backend-name",
    "x-backend-host",
    "x-backend-id",
    "x-served-by",
    "x-handled-by",
    "x-upstream",
    "x-upstream-addr",
    "x-upstream-host",
    "x-upstream-server",
    "x-envoy-upstream-host",
    "x-haproxy-server",
    "x-instance",
    "x-instance-id",
    "x-app-instance",
    "x-pod",
    "x-pod-name",
    "x-container-id",
    "x-replica",
    "x-replica-id",
    "x-worker",
    "x-worker-id",
    "x-node",
    "x-node-id",
    "x-server",
    "x-server-id",
    "x-server-name",
    "x-hostname",
    "fly-machine-id",
    "fly-instance-id",
];

/// How a cookie names a backend.
enum Cookie {
    /// Its value does.
    Named(&'static str),
    /// What stands behind the last dot of its value does.
    Route(&'static str),
    /// A cookie whose name begins so; its value does.
    Beginning(&'static str),
}

/// Cookies by which balancers stick to a backend, with one value for one backend: HAProxy's
/// `SERVERID`, nginx' `route` and `srv_id`, Apache's `ROUTEID`, Tomcat's `jvmRoute`, Cloud Foundry's
/// instance, Azure's hashes, Traefik's address, F5's pool member. Those that are encrypted anew for
/// every response (`AWSALB`), or made for each client (`INGRESSCOOKIE`, `GCLB`), name nothing.
const COOKIES: &[Cookie] = &[
    Cookie::Named("SERVERID"),
    Cookie::Named("SERVER_USED"),
    Cookie::Named("SRVNAME"),
    Cookie::Named("srv_id"),
    Cookie::Named("route"),
    Cookie::Named("ROUTEID"),
    Cookie::Route("JSESSIONID"),
    Cookie::Named("__VCAP_ID__"),
    Cookie::Named("ARRAffinity"),
    Cookie::Named("ApplicationGatewayAffinity"),
    Cookie::Named("_TRAEFIK_BACKEND"),
    Cookie::Beginning("BIGipServer"),
];

/// Headers that carry the id of a trace, and where in them: the part of this number between these
/// separators.
const TRACES: &[(&str, u8, usize)] = &[
    ("traceparent", b'-', 1),
    ("x-b3-traceid", b';', 0),
    ("b3", b'-', 0),
    ("uber-trace-id", b':', 0),
    ("x-amzn-trace-id", b';', 0),
    ("x-cloud-trace-context", b'/', 0),
    ("x-request-id", b';', 0),
    ("x-correlation-id", b';', 0),
];

/// Headers by which proxies name the client, besides `Forwarded`.
const CLIENTS: &[&str] = &[
    "x-forwarded-for",
    "cf-connecting-ip",
    "true-client-ip",
    "x-envoy-external-address",
    "x-real-ip",
    "x-client-ip",
];

/// Headers that proxies add to what they pass on.
const FORWARDED: &[&str] = &["via", "forwarded", "x-forwarded-for", "x-real-ip"];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(headers: &[(&str, &str)], asked: &[&str], cookie: &str) -> Vec<String> {
        let headers: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        let limits = Limits::default();
        let brought = cookies(&[("Cookie", cookie.as_bytes())], &limits);
        names(&headers, &asked, brought, &limits)
            .iter()
            .map(|name| name.name.to_string())
            .collect()
    }

    #[test]
    fn headers_asked_for_come_first() {
        let headers = [
            ("X-Served-By", "pod-1"),
            ("X-Mine", "a"),
            ("X-Backend", "b"),
        ];
        assert_eq!(told(&headers, &["x-mine"], ""), ["a", "b", "pod-1"]);
        assert_eq!(told(&headers, &[], ""), ["b", "pod-1"]);
    }

    #[test]
    fn of_several_upstreams_the_last_one_answered() {
        let upstream = |value| told(&[("X-Upstream-Addr", value)], &[], "");
        assert_eq!(upstream("10.0.0.1:80, 10.0.0.2:80"), ["10.0.0.2:80"]);
        assert_eq!(upstream("10.0.0.1:80 : [::1]:81"), ["[::1]:81"]);
        assert!(upstream("-").is_empty());
    }

    #[test]
    fn sticky_cookies_name_what_they_stick_to() {
        let set = |value| told(&[("Set-Cookie", value)], &[], "");
        assert_eq!(set("SERVERID=s1; path=/"), ["s1"]);
        assert_eq!(set("JSESSIONID=AB12.cd.worker2; HttpOnly"), ["worker2"]);
        assert!(set("JSESSIONID=AB12; HttpOnly").is_empty());
        assert_eq!(
            set("BIGipServerpool=1677787402.36895.0000"),
            ["1677787402.36895.0000"]
        );
        assert!(set("BIGipServerpool=!x8Yz").is_empty());
        assert!(set("AWSALB=abc; Expires=x").is_empty());
        assert!(told(&[("X-Served-By", "cache-fra-1, cache-lhr-2")], &[], "").is_empty());
    }

    #[test]
    fn a_cookie_that_is_not_replaced_was_kept_to() {
        assert_eq!(told(&[], &[], "a=b; SERVERID=s1"), ["s1"]);
        assert_eq!(
            told(&[("Set-Cookie", "SERVERID=s2")], &[], "SERVERID=s1"),
            ["s2"]
        );
    }

    #[test]
    fn traces_are_told_by_their_id_alone() {
        let of = |name: &str, value: &str| trace(&[(name, value.as_bytes())]);
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let one = of("traceparent", &format!("00-{id}-00f067aa0ba902b7-01"));
        let two = of("Traceparent", &format!("00-{id}-aaaaaaaaaaaaaaaa-01"));
        assert!(one.is_some());
        assert_eq!(one, two);
        assert_eq!(of("x-request-id", "7"), None);
        assert!(is_forwarded(&[("X-Forwarded-For", b"10.0.0.1")]));
    }

    #[test]
    fn the_client_that_a_proxy_names_is_the_first() {
        let of = |name: &str, value: &str| on_behalf(&[(name, value.as_bytes())]);
        let client = of("X-Forwarded-For", "203.0.113.7");
        assert!(client.is_some());
        assert_eq!(of("x-forwarded-for", " 203.0.113.7, 10.0.0.5"), client);
        assert_eq!(of("X-Real-IP", "203.0.113.7"), client);
        let hops = "proto=https;For=\"203.0.113.7\";by=10.0.0.9, for=10.0.0.5";
        assert_eq!(of("Forwarded", hops), client);
        let six = of("X-Forwarded-For", "2001:db8::7");
        assert_eq!(of("forwarded", "for=\"[2001:db8::7]\""), six);
        assert_ne!(six, client);
        for none in ["", " , 10.0.0.5"] {
            assert_eq!(of("X-Forwarded-For", none), None, "{none:?}");
        }
        assert_eq!(of("Forwarded", "by=10.0.0.9;é"), None);
        assert_eq!(of("Via", "1.1 proxy"), None);
    }
}
