//! A refusal as an HTTP response: which status, which body, in which form the client reads it.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::telling::{Data, Telling};
use crate::protocol::version::Era;

/// Which form of answer a client accepts, of the two that we have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepts {
    /// `application/json`: wherever it is acceptable, or where nothing that we have is.
    Json,
    /// `text/event-stream` and not JSON.
    EventStream,
}

impl Accepts {
    /// Reads the value of an `Accept` header (RFC 9110, 12.5.1): of the ranges that match a form,
    /// the most specific one says whether it is acceptable.
    fn of(accept: Option<&HeaderValue>) -> Accepts {
        let accept = accept.and_then(|line| line.to_str().ok()).unwrap_or("*/*");
        let json = is_acceptable(accept, "application/json", "application/*");
        let stream = is_acceptable(accept, "text/event-stream", "text/*");
        if stream && !json {
            Accepts::EventStream
        } else {
            Accepts::Json
        }
    }
}

fn is_acceptable(accept: &str, form: &str, group: &str) -> bool {
    let mut found = None;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let ranks = [(form, 2), (group, 1), ("*/*", 0)];
        let rank = ranks
            .iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known));
        if let Some((_, rank)) = rank
            && found.is_none_or(|(best, _)| *rank > best)
        {
            found = Some((*rank, !parts.any(is_zero_weight)));
        }
    }
    found.is_some_and(|(_, acceptable)| acceptable)
}

/// Whether a parameter of a media range says that the range is not acceptable.
fn is_zero_weight(parameter: &str) -> bool {
    let weight = parameter
        .strip_prefix("q=")
        .or_else(|| parameter.strip_prefix("Q="));
    weight.and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0)
}

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
            Accepts::Json => ("application/json", json),
            Accepts::EventStream => ("text/event-stream", event(&json)),
        }
    };
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    if let Some(allow) = telling.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if to.closes || telling.closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
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

fn event(json: &[u8]) -> Vec<u8> {
    [b"event: message\ndata: ", json, b"\n\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_chosen_wherever_it_is_acceptable() {
        for (accept, accepts) in [
            ("application/json, text/event-stream", Accepts::Json),
            ("text/event-stream, application/json;q=0.1", Accepts::Json),
            ("text/event-stream", Accepts::EventStream),
            ("TEXT/Event-Stream; q=1", Accepts::EventStream),
            (
                "text/event-stream, application/json;q=0",
                Accepts::EventStream,
            ),
            ("text/event-stream;q=0", Accepts::Json),
            ("application/json;q=0.0, */*", Accepts::EventStream),
            ("*/*;q=0, text/*", Accepts::EventStream),
            ("text/html", Accepts::Json),
            ("*/*", Accepts::Json),
        ] {
            let line = HeaderValue::from_static(accept);
            assert_eq!(Accepts::of(Some(&line)), accepts, "{accept}");
        }
        assert_eq!(Accepts::of(None), Accepts::Json);
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
