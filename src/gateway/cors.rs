//! What browsers are told about requests from pages of other origins (Fetch, "CORS protocol"): the
//! answer to a preflight, and the fields without which a page may not read an answer.

use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response};

use crate::policy::plan;
use crate::protocol::header::PARAM_PREFIX;
use crate::protocol::refusal;

/// How the names of the fields begin that only the hop to a browser may write.
pub(super) const PREFIX: &str = "access-control-";

/// What a page may read beyond what it always may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "WWW-Authenticate, Retry-After, Mcp-Session-Id, MCP-Protocol-Version, Allow, Location",
);
/// Most `Mcp-Param-*` that the answer to one preflight allows. More are left out, and the browser
/// does not send its request.
const PARAMS_MAX: usize = 64;
/// Most bytes that they may take together.
const PARAMS_BYTES_MAX: usize = 8 << 10;

const TRUE: HeaderValue = HeaderValue::from_static("true");
const PRIVATE_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");
/// What the answer to a preflight depends on.
const PREFLIGHT_VARY: HeaderValue = HeaderValue::from_static(
    "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, \
     Access-Control-Request-Private-Network",
);

/// What the pages of a route's origins may do, as the fields that say so.
#[derive(Debug)]
pub(super) struct Cors {
    headers: HeaderValue,
    max_age: HeaderValue,
    credentials: bool,
}

/// The origin of a request, once its route has let it in.
#[derive(Clone, Debug)]
pub(super) struct Origin(HeaderValue);

impl Origin {
    /// The origin that `headers` name; its route has judged it.
    #[must_use]
    pub(super) fn admitted(headers: &HeaderMap) -> Option<Origin> {
        headers.get(ORIGIN).cloned().map(Origin)
    }
}

impl Cors {
    /// What `plan` allows.
    #[must_use]
    pub(super) fn new(plan: &plan::Cors) -> Cors {
        let mut headers = plan::Cors::ALWAYS.to_owned();
        for name in &plan.headers {
            headers.push_str(", ");
            headers.push_str(name);
        }
        Cors {
            // The policy has checked that its names are names.
            headers: HeaderValue::try_from(headers)
                .unwrap_or(HeaderValue::from_static(plan::Cors::ALWAYS)),
            max_age: seconds(plan.max_age),
            credentials: plan.credentials,
        }
    }

    /// The answer to a preflight from `origin`: `methods` may be used, and the headers that are
    /// listed; of the others that it asks for only `Mcp-Param-*`.
    ///
    /// A page of a public network that asks for a server in a private one may have it: that the
    /// policy names the page's origin is what the question is about.
    #[must_use]
    pub(super) fn preflight(
        &self,
        head: &Parts,
        origin: &Origin,
        methods: &'static str,
    ) -> Response<()> {
        let mut response = refusal::options(methods);
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.0.clone());
        headers.insert(
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static(methods),
        );
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, self.allowed(&head.headers));
        headers.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
        if head.headers.get(&PRIVATE_ASKED) == Some(&TRUE) {
            headers.insert(PRIVATE_ALLOWED, TRUE);
        }
        headers.insert(VARY, PREFLIGHT_VARY);
        response
    }

    /// Lets pages of `origin` read an answer, whoever made it.
    pub(super) fn expose(&self, headers: &mut HeaderMap, origin: Origin) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.0);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
        vary(headers);
    }

    /// The headers that a preflight may be told it can use.
    fn allowed(&self, headers: &HeaderMap) -> HeaderValue {
        let mut list = self.headers.as_bytes().to_vec();
        let limit = list.len() + PARAMS_BYTES_MAX;
        let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
        let names = asked.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        let params = names.map(<[u8]>::trim_ascii).filter(|name| is_param(name));
        for name in params.take(PARAMS_MAX) {
            if list.len() + ", ".len() + name.len() > limit {
                break;
            }
            list.extend_from_slice(b", ");
            list.extend_from_slice(name);
        }
        HeaderValue::try_from(list).unwrap_or_else(|_| self.headers.clone())
    }
}

/// Whether a request is a browser's question before another one.
#[must_use]
pub(super) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(ORIGIN)
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Says that an answer is another one for pages of other origins; the fields that are there stay.
pub(super) fn vary(headers: &mut HeaderMap) {
    let said = headers.get_all(VARY).iter().any(|line| {
        let mut names = line.as_bytes().split(|byte| *byte == b',');
        names.any(|name| {
            matches!(name.trim_ascii(), b"*") || name.trim_ascii().eq_ignore_ascii_case(b"origin")
        })
    });
    if !said {
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

/// Whether `name` is that of an argument's header.
fn is_param(name: &[u8]) -> bool {
    // What is no token is no name of a header, and the library gives every name in lower case.
    HeaderName::from_bytes(name).is_ok_and(|name| {
        let argument = name.as_str().strip_prefix(PARAM_PREFIX);
        argument.is_some_and(|argument| !argument.is_empty() && !argument.contains('_'))
    })
}

fn seconds(time: Duration) -> HeaderValue {
    HeaderValue::from(time.as_secs())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn asked(lines: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            let line = HeaderValue::from_bytes(line).unwrap();
            headers.append(ACCESS_CONTROL_REQUEST_HEADERS, line);
        }
        let allowed = Cors::new(&plan::Cors::default()).allowed(&headers);
        let allowed = allowed.to_str().unwrap();
        allowed.strip_prefix(plan::Cors::ALWAYS).unwrap().to_owned()
    }

    #[test]
    fn only_argument_headers_are_echoed() {
        for (lines, more) in [
            (&[&b""[..]][..], ""),
            (&[b"content-type,authorization,x-evil"], ""),
            (&[b"mcp-param-region"], ", mcp-param-region"),
            (
                &[b"Mcp-Param-Region , x,mcp-param-b"],
                ", Mcp-Param-Region, mcp-param-b",
            ),
            (
                &[b"mcp-param-a", b"mcp-param-b"],
                ", mcp-param-a, mcp-param-b",
            ),
            (&[b"mcp-param-"], ""),
            (&[b"mcp-param-*"], ", mcp-param-*"),
            (&[b"mcp-param-a b"], ""),
            (&[b"mcp-param-a_b"], ""),
            (&[b"mcp-param-a:b"], ""),
            (&[b"mcp-param-\xe9"], ""),
            (&[b"*"], ""),
            (&[b"mcp-parameter"], ""),
        ] {
            assert_eq!(asked(lines), more, "{lines:?}");
        }
    }

    #[test]
    fn what_is_echoed_is_bounded() {
        let many: Vec<_> = (0..1000)
            .map(|number| format!("mcp-param-{number}"))
            .collect();
        let allowed = asked(&[many.join(",").as_bytes()]);
        assert_eq!(allowed.matches("mcp-param-").count(), PARAMS_MAX);
        let long: Vec<_> = (0..30)
            .map(|n| format!("mcp-param-{n}{}", "x".repeat(1000)))
            .collect();
        let allowed = asked(&[long.join(",").as_bytes()]);
        assert!(allowed.len() <= PARAMS_BYTES_MAX && allowed.contains("mcp-param-0x"));
    }

    #[test]
    fn a_preflight_has_an_origin_and_asks_for_a_method() {
        let head = |method: &str, names: &[&str]| {
            let mut request = Request::builder().method(method);
            for name in names {
                request = request.header(*name, "x");
            }
            request.body(()).unwrap().into_parts().0
        };
        let asks = "access-control-request-method";
        assert!(is_preflight(&head("OPTIONS", &["origin", asks])));
        assert!(!is_preflight(&head("OPTIONS", &["origin"])));
        assert!(!is_preflight(&head("OPTIONS", &[asks])));
        assert!(!is_preflight(&head("POST", &["origin", asks])));
    }

    #[test]
    fn what_answers_vary_by_is_added_to() {
        for (before, after) in [
            (&[][..], &["Origin"][..]),
            (&["Accept"], &["Accept", "Origin"]),
            (&["Accept, origin"], &["Accept, origin"]),
            (&["*"], &["*"]),
            (&["Accept", "Original"], &["Accept", "Original", "Origin"]),
        ] {
            let mut headers = HeaderMap::new();
            for line in before {
                headers.append(VARY, HeaderValue::from_static(line));
            }
            vary(&mut headers);
            let left: Vec<_> = headers.get_all(VARY).iter().collect();
            assert_eq!(left, after, "{before:?}");
        }
    }

    #[test]
    fn cookies_go_along_only_where_the_policy_says_so() {
        let request = Request::options("/").header(ORIGIN, "https://a.example");
        let (head, ()) = request.body(()).unwrap().into_parts();
        for credentials in [false, true] {
            let cors = Cors::new(&plan::Cors {
                credentials,
                headers: vec!["X-Tenant".to_owned()],
                ..plan::Cors::default()
            });
            let origin = Origin::admitted(&head.headers).unwrap();
            let mut answers = vec![cors.preflight(&head, &origin, "POST").headers().clone()];
            let mut exposed = HeaderMap::new();
            cors.expose(&mut exposed, origin);
            answers.push(exposed);
            for headers in answers {
                assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "https://a.example");
                let may = headers.get(ACCESS_CONTROL_ALLOW_CREDENTIALS);
                assert_eq!(may, credentials.then_some(&TRUE));
            }
        }
    }
}
