use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};

use super::*;
use crate::policy::plan::LegacyScope;
use crate::protocol::frame::{self, Bounds, Paths};

const SECRET: &[u8] = b"secret";

/// A request, of which each test changes what it is about.
#[derive(Clone)]
struct Sent {
    route: &'static str,
    upstream: &'static str,
    policy: Cache,
    method: &'static str,
    version: Version,
    uri: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    params: String,
}

impl Default for Sent {
    fn default() -> Sent {
        Sent {
            route: "weather",
            upstream: "upstream",
            policy: Cache::default(),
            method: "tools/list",
            version: Version::V2026_07_28,
            uri: "/mcp",
            headers: vec![("host", "a.example")],
            params: params("", ""),
        }
    }
}

/// Parameters with these members, and with these of `_meta`; each with a comma behind it.
fn params(members: &str, meta: &str) -> String {
    format!(
        r#"{{{members}"_meta":{{{meta}"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}},"a":1}}}}}}"#
    )
}

impl Sent {
    fn with_params(members: &str, meta: &str) -> Sent {
        Sent {
            params: params(members, meta),
            ..Sent::default()
        }
    }

    fn legacy(scope: LegacyScope, headers: &[(&'static str, &'static str)]) -> Sent {
        let ttl = Duration::from_secs(60);
        Sent {
            policy: Cache {
                legacy: Some(LegacyCache { ttl, scope }),
                ..Cache::default()
            },
            version: Version::V2025_06_18,
            headers: headers.to_vec(),
            params: "{}".into(),
            ..Sent::default()
        }
    }

    /// What is made of the question that it asks.
    fn asks<T>(&self, then: impl FnOnce(Question<'_>) -> T) -> Result<T, Why> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{}","params":{}}}"#,
            self.method, self.params
        );
        let frame = frame::scan(Bytes::from(body), &Bounds::default(), &Paths::default()).unwrap();
        let mut request = Request::post(self.uri).body(()).unwrap();
        for (name, value) in &self.headers {
            request.headers_mut().append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let (head, ()) = request.into_parts();
        let era = self.version.era();
        let asking = Asking {
            route: self.route,
            policy: &self.policy,
            upstream: self.upstream,
            changes: &Arc::default(),
            kind: Kind::of(self.method, era).unwrap(),
            era,
            version: Some(self.version),
            head: &head,
            frame: &frame,
        };
        Question::of(asking, SECRET).map(then)
    }

    fn key(&self) -> Key {
        self.asks(|question| question.key).unwrap()
    }

    fn list(&self) -> Digest {
        self.asks(|question| question.list).unwrap()
    }

    fn refused(&self) -> Why {
        self.asks(|question| question.key).unwrap_err()
    }
}

#[test]
fn what_no_answer_depends_on_is_no_part_of_the_key() {
    let usual = Sent::default().key();
    for meta in [
        r#""progressToken":1,"#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"#,
        r#""io.modelcontextprotocol/logLevel":"debug","#,
        r#""traceparent":"00-1-1-00","tracestate":"a=b","baggage":"c=d","#,
    ] {
        assert_eq!(Sent::with_params("", meta).key(), usual, "{meta}");
    }
    // Nor does it depend on how the same is written.
    let written = Sent {
        params: r#"{ "_m\u0065ta" : {"io.modelcontextprotocol/clientCapabilities":
            { "a":1 , "elicitation" : {} },
            "io.modelcontextprotocol/protocolVersion":"2026-07-2\u0038" } }"#
            .into(),
        headers: vec![("host", "A.Example"), ("user-agent", "other")],
        ..Sent::default()
    };
    assert_eq!(written.key(), usual);
}

#[test]
fn everything_else_is_a_part_of_it() {
    let read = |uri: &str| Sent {
        method: "resources/read",
        ..Sent::with_params(&format!(r#""uri":"{uri}","#), "")
    };
    let sent = [
        Sent::default(),
        Sent {
            route: "other",
            ..Sent::default()
        },
        Sent {
            upstream: "other",
            ..Sent::default()
        },
        Sent {
            method: "prompts/list",
            ..Sent::default()
        },
        Sent {
            method: "server/discover",
            ..Sent::default()
        },
        Sent {
            uri: "/mcp?a=1",
            ..Sent::default()
        },
        Sent {
            uri: "/mcp?a=2",
            ..Sent::default()
        },
        Sent {
            headers: vec![("host", "b.example")],
            ..Sent::default()
        },
        Sent::with_params(r#""cursor":"a","#, ""),
        Sent::with_params(r#""cursor":"b","#, ""),
        Sent::with_params(r#""cursor":null,"#, ""),
        Sent::with_params(r#""x":1,"#, ""),
        Sent::with_params(r#""x":1.0,"#, ""),
        Sent::with_params(r#""x":9007199254740992,"#, ""),
        Sent::with_params(r#""x":9007199254740993,"#, ""),
        Sent::with_params(r#""x":"1","#, ""),
        Sent::with_params(r#""x":[1],"#, ""),
        Sent::with_params(r#""progressToken":1,"#, ""),
        Sent::with_params("", r#""x":1,"#),
        Sent::with_params("", r#""com.example/tenant":"a","#),
        Sent::with_params("", r#""progressToken ":"a","#),
        Sent {
            params: params("", "").replace("elicitation", "sampling"),
            ..Sent::default()
        },
        read("file:///a"),
        read("file:///b"),
        read("file:///A"),
    ];
    let keys: Vec<_> = sent.iter().map(Sent::key).collect();
    for (index, key) in keys.iter().enumerate() {
        let same = keys.iter().filter(|other| *other == key).count();
        assert_eq!(same, 1, "{:?} {}", sent[index].params, sent[index].uri);
    }
}

#[test]
fn a_credential_shares_nothing_with_those_who_have_none() {
    let with = |line| Sent {
        headers: vec![("host", "a.example"), line],
        ..Sent::default()
    };
    let (bare, mine, other) = (
        Sent::default(),
        with(("authorization", "Bearer a")),
        with(("x-api-key", "b")),
    );
    assert_eq!(bare.key().audience, Audience::Anybody);
    assert_eq!(mine.key().audience, Audience::Credentialed);
    assert_eq!(mine.key(), other.key(), "what is public is so for both");
    let keys = |sent: &Sent| sent.asks(|question| question.keys().collect::<Vec<_>>());
    assert_eq!(keys(&bare).unwrap(), [bare.key()]);
    assert_eq!(keys(&mine).unwrap(), [mine.key(), bare.key()]);
}

#[test]
fn what_belongs_to_a_legacy_session_stays_in_it() {
    let session = |headers: &[(&'static str, &'static str)]| {
        let usual = [("host", "a.example"), ("user-agent", "x")];
        Sent::legacy(LegacyScope::Session, &[&usual[..], headers].concat())
    };
    let mine = session(&[("mcp-session-id", "a"), ("authorization", "Bearer a")]);
    assert_eq!(mine.key().audience, Audience::Session);
    assert_eq!(
        mine.asks(|question| question.keys().count()),
        Ok(1),
        "nothing of others"
    );
    let again = session(&[
        ("mcp-session-id", "a"),
        ("authorization", "Bearer a"),
        ("traceparent", "00-1-1-00"),
    ]);
    assert_eq!(mine.key(), again.key());
    for other in [
        session(&[("mcp-session-id", "b"), ("authorization", "Bearer a")]),
        session(&[("mcp-session-id", "a"), ("authorization", "Bearer b")]),
        session(&[("mcp-session-id", "a")]),
        session(&[
            ("mcp-session-id", "a"),
            ("authorization", "Bearer a"),
            ("cookie", "c"),
        ]),
    ] {
        assert_ne!(mine.key(), other.key(), "{:?}", other.headers);
    }
    assert_eq!(session(&[]).refused(), Why::NoSession);
    let public = |id| Sent::legacy(LegacyScope::Public, &[("mcp-session-id", id)]);
    assert_eq!(public("a").key(), public("b").key());
    assert_eq!(public("a").key().audience, Audience::Credentialed);
}

#[test]
fn pages_belong_to_their_list() {
    let page = |cursor: &str| Sent::with_params(&format!(r#""cursor":"{cursor}","#), "");
    let first = Sent::default();
    assert_eq!(first.key().digest, first.list());
    assert_eq!(page("a").list(), first.list());
    assert_eq!(page("b").list(), first.list());
    assert_eq!(page("a").key(), page(r"\u0061").key());
    let target = page("a").asks(|question| question.target.map(Cow::into_owned));
    assert_eq!(target, Ok(Some("a".into())));
    // Of a resource it is a parameter like any other.
    let read = |cursor| Sent {
        method: "resources/read",
        ..Sent::with_params(&format!(r#""uri":"a:b","cursor":{cursor},"#), "")
    };
    assert_ne!(read("1").list(), read("2").list());
}

#[test]
fn what_is_never_answered_from_memory_says_why() {
    let off = Cache {
        enabled: false,
        ..Cache::default()
    };
    for (sent, why) in [
        (
            Sent {
                policy: off,
                ..Sent::default()
            },
            Why::Off,
        ),
        (
            Sent::with_params(r#""inputResponses":null,"#, ""),
            Why::Input,
        ),
        (Sent::with_params(r#""requestState":"a","#, ""), Why::Input),
        (
            Sent {
                version: Version::V2025_11_25,
                ..Sent::default()
            },
            Why::Legacy,
        ),
        (
            Sent {
                method: "resources/read",
                ..Sent::default()
            },
            Why::Params,
        ),
        (
            Sent {
                method: "resources/read",
                ..Sent::with_params(r#""uri":1,"#, "")
            },
            Why::Params,
        ),
        (
            Sent {
                params: r#"{"_meta":[]}"#.into(),
                ..Sent::default()
            },
            Why::Params,
        ),
        (Sent::with_params(r#""x":{"a":1,"a":2},"#, ""), Why::Params),
    ] {
        assert_eq!(sent.refused(), why, "{}", sent.params);
    }
}

#[test]
fn digests_are_those_of_one_process() {
    let sent = Sent::default();
    let other = sent.asks(|question| {
        let other = Question::of(question.asking, b"other").unwrap();
        (question.key, other.key)
    });
    let (mine, theirs) = other.unwrap();
    assert_ne!(mine, theirs);
}
