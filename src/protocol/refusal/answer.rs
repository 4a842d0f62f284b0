//! A refusal as an HTTP response: which status, which body, in which form the client reads it.

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::telling::{Data, Telling};
use crate::protocol;
use crate::protocol::header;
use crate::protocol::media::{self, Accepts};
use crate::protocol::version::Era;

/// Whom a refusal is told to: as much as was known when it was refused.
#[derive(Debug)]
pub struct Addressee {
    /// What the client says it accepts; read only if there is something to tell.
    pub accept: Option<HeaderValue>,
    /// The raw id of its request, if it has a readable one.
    pub id: Option<Bytes>,
    /// The era that it was placed in.
    pub era: Option<Era>,
    /// Whether the route tells legacy clients in band what can be told so.
    pub in_band: bool,
    /// Whether it asks `server/discover`: clients tell a server's era by the answer, and would
    /// take a JSON-RPC error with a 5xx for a word of the server.
    pub probe: bool,
    /// Whether its route passes requests through unread: to whoever asks there, an error of
    /// JSON-RPC means nothing.
    pub problem: bool,
    /// Whether its connection ends with the answer, because a part of its request stays unread.
    pub closes: bool,
}

impl Addressee {
    /// Whoever sent a request with these headers, of which nothing else is known yet.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Addressee {
        Addressee {
            // One list, which may stand in several lines (RFC 9110, 5.3).
            accept: header::joined(headers, ACCEPT, b", "),
            id: None,
            era: None,
            in_band: true,
            probe: false,
            problem: false,
            closes: false,
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: i32,
    message: &'a str,
    data: &'a Data,
}

/// A problem document (RFC 9457).
#[derive(Serialize)]
struct Problem<'a> {
    status: u16,
    title: &'a str,
    detail: &'a str,
    reason: &'static str,
}

/// The response that tells a refusal to `to`.
#[must_use]
pub fn answer(telling: &Telling, to: &Addressee) -> Response<Bytes> {
    // In band only reaches who waits for an answer with an id: a notification is told by status.
    let in_band = telling.in_band && to.in_band && to.era == Some(Era::Legacy) && to.id.is_some();
    let status = if in_band { 200 } else { telling.status };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (form, body) = if to.problem || (to.probe && status.is_server_error()) {
        ("application/problem+json", problem(telling, status))
    } else {
        let json = error(telling, to.id.as_deref());
        match Accepts::of(to.accept.as_ref()) {
            Accepts::Json => (media::JSON, json),
            Accepts::EventStream => (media::EVENT_STREAM, protocol::event::message(&json)),
        }
    };
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    if let Some(allow) = telling.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(seconds) = telling.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(challenge) = &telling.challenge {
        headers.insert(WWW_AUTHENTICATE, challenge.clone());
    }
    if to.closes || telling.closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The event that tells a refusal in a stream that has begun, to the request with this raw id.
#[must_use]
pub fn event(telling: &Telling, id: Option<&[u8]>) -> Vec<u8> {
    protocol::event::message(&error(telling, id))
}

/// The answer to OPTIONS: what may be asked of a path.
#[must_use]
pub fn options(allow: &'static str) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allow));
    response
}

fn error(telling: &Telling, id: Option<&[u8]>) -> Vec<u8> {
    let body = Body {
        jsonrpc: "2.0",
        // The id is spliced in as the token that the client sent; a number is never rounded.
        id: id.and_then(|raw| serde_json::from_slice(raw).ok()),
        error: ErrorBody {
            code: telling.code,
            message: &telling.message,
            data: &telling.data,
        },
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

fn problem(telling: &Telling, status: StatusCode) -> Vec<u8> {
    let problem = Problem {
        status: status.as_u16(),
        title: status.canonical_reason().unwrap_or("error"),
        detail: &telling.message,
        reason: telling.reason,
    };
    serde_json::to_vec(&problem).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_requests_pass_unread_a_problem_is_told() {
        let telling = Telling::own("host", 403, "no such host".to_owned());
        let to = Addressee {
            accept: Some(HeaderValue::from_static("text/event-stream")),
            id: None,
            era: None,
            in_band: true,
            probe: false,
            problem: true,
            closes: false,
        };
        let answer = answer(&telling, &to);
        assert_eq!(answer.status(), 403);
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/problem+json");
        let problem =
            br#"{"status":403,"title":"Forbidden","detail":"no such host","reason":"host"}"#;
        assert_eq!(answer.body()[..], problem[..]);
    }

    #[test]
    fn an_id_is_echoed_as_the_token_it_was() {
        let telling = Telling::own("not_found", 404, String::new());
        for id in ["9223372036854775807", "0", "\"\"", "\"a\\u0062\"", "-0"] {
            let to = Addressee {
                accept: None,
                id: Some(Bytes::from(id)),
                era: None,
                in_band: true,
                probe: false,
                problem: false,
                closes: false,
            };
            let body = answer(&telling, &to).into_body();
            let body = std::str::from_utf8(&body).unwrap();
            assert!(body.contains(&format!("\"id\":{id},")), "{body}");
        }
    }
}
