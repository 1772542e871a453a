//! Steps to bytes: HTTP/1.1 with chunked event streams.

use super::model::{Act, Body, Close, Request, Response, Side, Talk};

/// Bytes that one end sends, or that it closes.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) at: i64,
    pub(crate) connection: usize,
    pub(crate) side: Side,
    pub(crate) what: Sent,
    pub(crate) lost: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Bytes(Vec<u8>),
    Close(Close),
}

/// What goes over the wire, in order of time.
pub(crate) fn flights(talk: &Talk) -> Vec<Flight> {
    let mut chunked = vec![true; talk.connections.len()];
    talk.steps
        .iter()
        .map(|step| {
            let chunked = &mut chunked[step.connection];
            if let Act::Response(response) = &step.act {
                *chunked = matches!(response.body, Body::Chunked);
            }
            let what = match &step.act {
                Act::Close(close) => Sent::Close(*close),
                act => {
                    let mut bytes = bytes(act, *chunked);
                    if step.half {
                        bytes.truncate(bytes.len() / 2);
                    }
                    Sent::Bytes(bytes)
                }
            };
            Flight {
                at: step.at,
                connection: step.connection,
                side: step.act.side(),
                what,
                lost: step.lost,
            }
        })
        .collect()
}

fn bytes(act: &Act, chunked: bool) -> Vec<u8> {
    let piece = |text: &[u8]| {
        if chunked { chunk(text) } else { text.to_vec() }
    };
    match act {
        Act::Request(request) => request_bytes(request),
        Act::Response(response) => response_bytes(response),
        Act::Event(event) => piece(event.text().as_bytes()),
        Act::Comment(text) => piece(format!(": {text}\n\n").as_bytes()),
        Act::Chunk(bytes) => piece(bytes),
        Act::End => b"0\r\n\r\n".to_vec(),
        Act::Raw(_, bytes) => bytes.clone(),
        Act::Close(_) => Vec::new(),
    }
}

fn chunk(text: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", text.len()).into_bytes();
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
    out
}

fn request_bytes(request: &Request) -> Vec<u8> {
    let first = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    let body = request.body.as_deref().unwrap_or_default();
    head(first, &request.headers, body)
}

fn response_bytes(response: &Response) -> Vec<u8> {
    let first = format!(
        "HTTP/1.1 {} {}\r\n",
        response.status,
        reason(response.status)
    );
    let body = match &response.body {
        Body::Whole(text) => text.as_str(),
        Body::Chunked | Body::UntilClose => "",
    };
    head(first, &response.headers, body)
}

fn head(mut text: String, headers: &[(String, String)], body: &str) -> Vec<u8> {
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// The reason phrase of a status (RFC 9110, section 15); nobody reads it.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        503 => "Service Unavailable",
        _ => "Other",
    }
}
