//! Who may be given an answer, as long as routes authenticate nobody.

use serde_json::json;

use super::{Counter, Stage, cache_status, document, hinted, list, number_of, numbering};
use crate::harness::{Reply, Request};

/// Headers any of which may be a credential.
const CREDENTIALS: [(&str, &str); 6] = [
    ("Authorization", "Bearer secret"),
    ("Cookie", "sid=secret"),
    ("X-Api-Key", "secret"),
    ("Proxy-Anything", "secret"),
    ("X-Unknown", ""),
    ("Mcp-Param-Token", "secret"),
];

fn bare() -> Request {
    list("prompts/list")
}

#[test]
fn what_a_credential_fetched_is_not_for_those_without() {
    for (name, value) in CREDENTIALS {
        let stage = Stage::new(numbering());
        let with = bare().header(name, value);
        stage.stores(name, &with);
        let answer = stage.stores(name, &bare());
        assert_eq!(number_of(&answer), 1, "{name}");
        // Each is served its own from now on.
        assert_eq!(number_of(&stage.hits(name, &with)), 0, "{name}");
        assert_eq!(number_of(&stage.hits(name, &bare())), 1, "{name}");
        // Public is public: another credential is served it too.
        let other = bare().header("Authorization", "Bearer other");
        assert_eq!(number_of(&stage.hits(name, &other)), 0, "{name}");
    }
}

#[test]
fn what_came_without_a_credential_is_for_everybody() {
    let stage = Stage::new(numbering());
    stage.stores("bare", &bare());
    for (name, value) in CREDENTIALS {
        assert_eq!(number_of(&stage.hits(name, &bare().header(name, value))), 0);
    }
    assert_eq!(
        number_of(&stage.hits("a query", &bare().target("/mcp?"))),
        0
    );
}

#[test]
fn a_query_may_be_a_credential() {
    let stage = Stage::new(numbering());
    let keyed = bare().target("/mcp?key=secret");
    stage.stores("a query", &keyed);
    stage.stores("bare", &bare());
    stage.hits("a query", &keyed);
    stage.stores("another", &bare().target("/mcp?key=other"));
}

/// The 401 that starts a client's sign-in is never hidden.
#[test]
fn a_server_that_asks_for_credentials_is_asked_each_time() {
    let stage = Stage::new(|request| match request.head.has("authorization") {
        true => numbering()(request),
        false => Reply::with_lines(
            401,
            "WWW-Authenticate: Bearer resource_metadata=\"https://x\"\r\n",
            "",
        ),
    });
    let with = bare().header("Authorization", "Bearer good");
    stage.stores("signed in", &with);
    for _ in 0..2 {
        let answer = stage.misses("a stranger", &bare(), "error");
        assert_eq!(answer.status, 401);
        assert!(answer.head.has("www-authenticate"));
    }
    stage.hits("signed in", &with);
}

/// A route that does not authenticate passes credentials on, and keeps nothing private.
#[test]
fn private_answers_stay_with_whom_they_were_for() {
    let counter = Counter::default();
    let stage = Stage::new(move |request| {
        let members = format!(
            r#""number":{},"of":{:?}"#,
            counter.next(),
            request.head.value("authorization")
        );
        let members = members
            .replace("Some(", "")
            .replace("None", "null")
            .replace(')', "");
        document(
            request,
            &hinted(&members, r#""ttlMs":60000,"cacheScope":"private""#),
        )
    });
    for token in ["a", "b", "a"] {
        let request = bare().header("Authorization", &format!("Bearer {token}"));
        let answer = stage.misses(token, &request, "private");
        assert_eq!(answer.json()["result"]["of"], format!("Bearer {token}"));
        let received = stage.site.upstream.last();
        assert_eq!(
            received.head.values("authorization"),
            [format!("Bearer {token}")]
        );
    }
    assert_eq!(
        stage.misses("bare", &bare(), "private").json()["result"]["of"],
        json!(null)
    );
}

fn legacy(method: &str) -> Request {
    Request::legacy(method, json!({}))
}

fn with_legacy(scope: &str) -> Stage {
    let legacy = json!({"legacy": {"ttl": "1m", "scope": scope}});
    let counter = Counter::default();
    Stage::with(
        // An older server says nothing of how long and for whom.
        move |request| document(request, &format!(r#"{{"number":{}}}"#, counter.next())),
        |policy| policy.set("/routes/0/cache", legacy),
    )
}

#[test]
fn answers_of_older_versions_are_not_kept_unless_the_policy_says_so() {
    let stage = Stage::new(numbering());
    for _ in 0..2 {
        stage.bypasses("older", &legacy("tools/list"), "legacy");
        stage.bypasses(
            "older",
            &legacy("tools/list").header("Mcp-Session-Id", "s"),
            "legacy",
        );
    }
}

#[test]
fn what_is_of_a_session_is_for_the_same_session_and_credentials() {
    let stage = with_legacy("session");
    let of = |session: &str| legacy("tools/list").header("Mcp-Session-Id", session);
    for _ in 0..2 {
        stage.bypasses("no session", &legacy("tools/list"), "no_session");
        stage.bypasses("an empty one", &of(""), "no_session");
    }
    let first = stage.stores("a session", &of("one"));
    assert_eq!(
        cache_status(&first),
        "weirgate; fwd=uri-miss; stored; ttl=60"
    );
    stage.stores("another", &of("two"));
    let signed = of("one").header("Authorization", "Bearer a");
    stage.stores("the same with a credential", &signed);
    stage.stores(
        "with another",
        &of("one").header("Authorization", "Bearer b"),
    );
    stage.stores("with another header", &of("one").header("X-Key", "a"));
    let again = stage.hits("a session", &of("one").id("7"));
    assert_eq!(number_of(&again), number_of(&first));
    assert!(
        again.json()["result"].get("ttlMs").is_none(),
        "nothing is added: {again:?}"
    );
    stage.hits("with a credential", &signed);
    stage.hits("another", &of("two"));
}

#[test]
fn what_the_policy_declares_public_is_for_everybody_of_its_kind() {
    let stage = with_legacy("public");
    let of = |session: &str| legacy("tools/list").header("Mcp-Session-Id", session);
    // Some servers ask for a credential only when a session begins.
    stage.stores("a session", &of("one"));
    stage.hits("another", &of("two"));
    stage.stores("none", &legacy("tools/list"));
    stage.hits("none", &legacy("tools/list"));
    stage.hits("a session", &of("one"));
    // Calls are never kept.
    for _ in 0..2 {
        let before = stage.fetched();
        let told = stage.tell(&Request::legacy_call("a").header("Mcp-Session-Id", "one"));
        assert_eq!(told.cache_status(), "");
        assert_eq!(stage.fetched(), before + 1);
    }
}

#[test]
fn older_servers_errors_and_initialize_are_not_kept() {
    let legacy_cache = json!({"legacy": {"ttl": "1m", "scope": "public"}});
    let stage = Stage::with(
        |request| {
            Reply::json(
                200,
                format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#,
                    super::id_of(request)
                ),
            )
        },
        |policy| policy.set("/routes/0/cache", legacy_cache),
    );
    for _ in 0..2 {
        stage.misses("an error", &legacy("prompts/list"), "error");
    }
    for _ in 0..2 {
        let told = stage.tell(&Request::initialize("2025-11-25"));
        assert_eq!(told.cache_status(), "");
    }
    assert_eq!(stage.fetched(), 4);
}
