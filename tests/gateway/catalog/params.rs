//! `Mcp-Param-*` held against the arguments of a call.

use super::{QUERY, before, call, good, listing, lists, mismatch, passes, refused};
use crate::harness::{Gateway, Policy, Request};

/// Arguments, and a line with the header it is of.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

fn with_lines(arguments: &str, lines: &[(&str, &str)]) -> Request {
    let mut request = call(arguments);
    for (name, value) in lines {
        request = request.line(&format!("Mcp-Param-{name}"), value.as_bytes());
    }
    request
}

/// Those that agree, and go on as they stand.
const AGREE: &[Case] = &[
    (r#"{"region":"us-west1"}"#, &[("Region", "us-west1")]),
    (r#"{"region":"us\u002dwest1"}"#, &[("Region", "us-west1")]),
    (r#"{"region":"Seattle, WA"}"#, &[("Region", "Seattle, WA")]),
    (r#"{"region":"日本"}"#, &[("Region", "=?base64?5pel5pys?=")]),
    (r#"{"region":" x "}"#, &[("Region", "=?base64?IHgg?=")]),
    (
        r#"{"region":"=?base64?eA==?="}"#,
        &[("Region", "=?base64?PT9iYXNlNjQ/ZUE9PT89?=")],
    ),
    (r#"{"region":""}"#, &[("Region", "=?base64??=")]),
    (r#"{"count":42}"#, &[("Count", "42")]),
    (r#"{"count":-0}"#, &[("Count", "-0")]),
    (r#"{"count":42.0}"#, &[("Count", "42.0")]),
    (
        r#"{"count":12345678901234567890}"#,
        &[("Count", "12345678901234567890")],
    ),
    (r#"{"count":12345678901234567890}"#, &[]),
    (r#"{"count":9007199254740993}"#, &[]),
    (r#"{"dry":true}"#, &[("Dry-Run", "true")]),
    (r#"{"dry":false}"#, &[("Dry-Run", "false")]),
    (r#"{"where":{"city":"Rome"}}"#, &[("City", "Rome")]),
    (r#"{"where":"Rome"}"#, &[]),
    // The instance decides, whatever the schema asks for.
    (r#"{"region":7}"#, &[("Region", "7")]),
    (r#"{"count":"many"}"#, &[("Count", "many")]),
    (r#"{"region":null,"count":null}"#, &[]),
    (r#"{"region":{},"count":[1],"dry":[]}"#, &[]),
    ("{}", &[]),
    (
        r#"{"region":"eu","count":1,"dry":true,"where":{"city":"x"},"text":"t"}"#,
        &[
            ("Region", "eu"),
            ("Count", "1"),
            ("Dry-Run", "true"),
            ("City", "x"),
        ],
    ),
];

/// Those that agree in another spelling, and the one that goes on.
const RESPELLED: &[(&str, &str, &str, &str)] = &[
    (r#"{"region":""}"#, "Region", "", "=?base64??="),
    (r#"{"region":"us"}"#, "Region", "=?base64?dXM=?=", "us"),
    (r#"{"count":42}"#, "Count", "42.0", "42"),
    (r#"{"count":42}"#, "Count", "4.2e1", "42"),
    (r#"{"dry":true}"#, "Dry-Run", "=?base64?dHJ1ZQ==?=", "true"),
];

/// Those that do not, by what is named.
const DIFFER: &[Case] = &[
    (r#"{"region":"eu"}"#, &[("Region", "us")]),
    (r#"{"region":"eu"}"#, &[("Region", "EU")]),
    (r#"{"region":"eu"}"#, &[("Region", "eu"), ("region", "eu")]),
    (r#"{"region":"eu"}"#, &[("Region", "eu"), ("Region", "us")]),
    (r#"{"region":"eu"}"#, &[("Region", "=?base64?!!?=")]),
    (r#"{"region":"eu"}"#, &[("Region", "")]),
    (r#"{"region":""}"#, &[("Region", "x")]),
    (r#"{"region":null}"#, &[("Region", "null")]),
    (r#"{"region":null}"#, &[("Region", "")]),
    ("{}", &[("Region", "eu")]),
    (r#"{"region":{}}"#, &[("Region", "{}")]),
    (r#"{"region":["eu"]}"#, &[("Region", "eu")]),
    (
        r#"{"count":12345678901234567890}"#,
        &[("Count", "12345678901234567891")],
    ),
    (
        r#"{"count":9007199254740993}"#,
        &[("Count", "9007199254740992")],
    ),
    (r#"{"count":42}"#, &[("Count", "042")]),
    (r#"{"count":42}"#, &[("Count", "forty-two")]),
    (r#"{"count":42}"#, &[("Count", "43")]),
    (r#"{"dry":true}"#, &[("Dry-Run", "True")]),
    (r#"{"dry":true}"#, &[("Dry-Run", "1")]),
    (r#"{"where":{"city":"Rome"}}"#, &[("City", "Oslo")]),
    (r#"{"where":{}}"#, &[("City", "Rome")]),
];

/// Those whose line is not there.
const MISSING: &[(&str, &str)] = &[
    (r#"{"region":"eu"}"#, "Region"),
    (r#"{"region":""}"#, "Region"),
    (r#"{"count":0}"#, "Count"),
    (r#"{"count":9007199254740991}"#, "Count"),
    (r#"{"dry":false}"#, "Dry-Run"),
    (r#"{"where":{"city":"Rome"}}"#, "City"),
];

#[test]
fn what_agrees_goes_on_as_it_stands() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for (arguments, lines) in AGREE {
        let received = passes(
            arguments,
            &gateway,
            &upstream,
            &with_lines(arguments, lines),
        );
        for name in ["Region", "Count", "Dry-Run", "City"] {
            let sent = lines.iter().filter(|(sent, _)| *sent == name);
            let sent: Vec<_> = sent.map(|(_, value)| *value).collect();
            let values = received.head.values(&format!("mcp-param-{name}"));
            assert_eq!(values, sent, "{arguments}");
        }
    }
    assert_eq!(lists(&upstream).len(), 1);
}

#[test]
fn what_agrees_in_another_spelling_goes_on_in_the_usual_one() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for (arguments, name, line, written) in RESPELLED {
        let request = with_lines(arguments, &[(name, line)]);
        let received = passes(arguments, &gateway, &upstream, &request);
        let values = received.head.values(&format!("mcp-param-{name}"));
        assert_eq!(values, [*written], "{arguments} as {line}");
    }
}

#[test]
fn what_differs_or_is_missing_never_reaches_the_server() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for (arguments, lines) in DIFFER {
        let header = format!("Mcp-Param-{}", lines[0].0);
        let what = format!("{arguments} beside {lines:?}");
        let request = with_lines(arguments, lines);
        refused(&what, &gateway, &upstream, &request, &mismatch(&header));
    }
    for (arguments, name) in MISSING {
        let header = format!("Mcp-Param-{name}");
        let refusal = mismatch(&header).names(&["missing"]);
        refused(arguments, &gateway, &upstream, &call(arguments), &refusal);
    }
    passes("afterwards", &gateway, &upstream, &good());
}

#[test]
fn an_argument_that_stands_twice_is_refused() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for arguments in [
        r#"{"region":"eu","region":"us"}"#,
        r#"{"region":"eu","r\u0065gion":"eu"}"#,
        r#"{"region":"eu","where":{"city":"x"},"where":{"city":"x"}}"#,
    ] {
        let request = call(arguments).header("Mcp-Param-Region", "eu");
        let refusal = crate::harness::Refusal::of(400, -32600);
        refused(arguments, &gateway, &upstream, &request, &refusal);
    }
}

#[test]
fn the_names_of_headers_are_the_same_in_any_case() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for name in ["MCP-PARAM-REGION", "mcp-param-region", "McP-pArAm-ReGiOn"] {
        let right = call(r#"{"region":"eu"}"#).header(name, "eu");
        passes(name, &gateway, &upstream, &right);
        let wrong = call(r#"{"region":"eu"}"#).header(name, "us");
        let refusal = mismatch("Mcp-Param-Region");
        refused(name, &gateway, &upstream, &wrong, &refusal);
    }
}

#[test]
fn headers_of_no_argument_go_on_as_they_are() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    let request = good()
        .line("Mcp-Param-Other", "one")
        .line("Mcp-Param-Other", "=?base64?!?=")
        .line("Mcp-Param-Text", "not the text");
    let received = passes("others", &gateway, &upstream, &request);
    let values = received.head.values("mcp-param-other");
    assert_eq!(values, ["one", "=?base64?!?="]);
    let values = received.head.values("mcp-param-text");
    assert_eq!(values, ["not the text"]);
}

#[test]
fn in_legacy_versions_they_are_stripped_and_never_judged() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for line in ["eu", "us", "=?base64?!?="] {
        let request = Request::legacy_call("query")
            .edit("\"arguments\":{}", r#""arguments":{"region":"eu"}"#)
            .header("Mcp-Param-Region", line);
        let received = passes(line, &gateway, &upstream, &request);
        assert!(!received.head.has("mcp-param-region"));
    }
    assert_eq!(lists(&upstream).len(), 0);
}

#[test]
fn a_route_may_supply_what_is_missing() {
    let upstream = listing(QUERY);
    let policy = Policy::new(&upstream).remembering();
    let gateway = Gateway::start(&policy.routing_headers("missing", "mirror"));
    let arguments = r#"{"region":"日本","count":7,"dry":false,"where":{"city":"Rome"}}"#;
    // One that is there stays beside those that are not.
    let request = call(arguments).header("Mcp-Param-City", "Rome");
    let received = passes("all", &gateway, &upstream, &request);
    for (name, value) in [
        ("region", "=?base64?5pel5pys?="),
        ("count", "7"),
        ("dry-run", "false"),
        ("city", "Rome"),
    ] {
        let values = received.head.values(&format!("mcp-param-{name}"));
        assert_eq!(values, [value], "{name}");
    }
    for (arguments, lines) in DIFFER {
        let header = format!("Mcp-Param-{}", lines[0].0);
        let what = format!("{arguments} beside {lines:?}");
        let request = with_lines(arguments, lines);
        refused(&what, &gateway, &upstream, &request, &mismatch(&header));
    }
    // What no reader can take in exactly is not repeated.
    let request = call(r#"{"count":12345678901234567890,"region":null}"#);
    let received = passes("unsafe", &gateway, &upstream, &request);
    assert!(!received.head.has("mcp-param-count"));
    assert!(!received.head.has("mcp-param-region"));
    // So it is of a client that sends none of the headers.
    let bare = call(r#"{"region":"eu"}"#)
        .without("Mcp-Method")
        .without("Mcp-Name");
    let received = passes("bare", &gateway, &upstream, &bare);
    assert_eq!(received.head.values("mcp-param-region"), ["eu"]);
    assert_eq!(received.head.values("mcp-name"), ["query"]);
}
