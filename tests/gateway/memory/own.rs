//! The gateway's own subscription to what a server tells of changes: one for each server that offers
//! to tell, begun once something of it is kept.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Counter, Stage, document, id_of, is_own, list, method_of, public, read};
use crate::harness::wire::PATIENCE;
use crate::harness::{
    MODERN, Play, Policy, Received, Reply, Request, Upstream, VERSION_KEY, eventually,
};

const LISTEN: &str = "subscriptions/listen";

/// A server that offers to tell of these changes, and whose subscriptions the test writes.
struct Offering {
    stage: Stage,
    begun: Receiver<Sender<Play>>,
}

fn offer(capabilities: &Value) -> String {
    json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": capabilities,
           "ttlMs": 0, "cacheScope": "private"})
    .to_string()
}

fn all() -> Value {
    let changes = json!({"listChanged": true});
    json!({"tools": changes, "prompts": changes, "resources": {"listChanged": true, "subscribe": true}})
}

impl Offering {
    fn new(capabilities: &Value, shape: impl FnOnce(Policy) -> Policy) -> Offering {
        let (begin, begun) = std::sync::mpsc::channel();
        let (begin, counter, offer) = (Mutex::new(begin), Counter::default(), offer(capabilities));
        let upstream = Upstream::with(move |request| {
            match (is_own(request), method_of(request).as_str()) {
                (true, "server/discover") => document(request, &offer),
                (true, LISTEN) => {
                    let (plays, follow) = std::sync::mpsc::channel();
                    // A test that has ended wants no further answer.
                    let _ = begin.lock().unwrap().send(plays);
                    Reply::follow(Arc::new(Mutex::new(follow)))
                }
                _ => document(request, &public(&format!(r#""number":{}"#, counter.next()))),
            }
        });
        Offering {
            stage: Stage::before(upstream, shape),
            begun,
        }
    }

    /// The next subscription, which the server grants; waits until the gateway has heard of it.
    fn subscribed(&self) -> Sender<Play> {
        let plays = self.begun.recv_timeout(PATIENCE).expect("a subscription");
        let before = self.followed();
        plays.send(Play::sse_head()).unwrap();
        tell(
            &plays,
            "notifications/subscriptions/acknowledged",
            json!({"notifications": {}}),
        );
        eventually("that it is followed", || self.followed() > before);
        plays
    }

    fn followed(&self) -> usize {
        let lines = self.stage.site.gateway.lines();
        lines
            .iter()
            .filter(|line| line.contains("are followed"))
            .count()
    }

    /// Whether the next answer to this comes from memory.
    fn is_kept(&self, request: &Request) -> bool {
        self.stage.tell(request).record["cache"] == "hit"
    }
}

fn tell(plays: &Sender<Play>, method: &str, mut params: Value) {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": "weirgate"});
    let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    plays
        .send(Play::chunk(format!("data: {message}\n\n")))
        .expect("a subscription at work");
}

/// The requests that the gateway made for itself.
fn own(stage: &Stage) -> Vec<Received> {
    let requests = stage.site.upstream.log().requests;
    requests.into_iter().filter(is_own).collect()
}

/// Their methods.
fn own_methods(stage: &Stage) -> Vec<String> {
    own(stage).iter().map(method_of).collect()
}

fn plain(policy: Policy) -> Policy {
    policy
}

#[test]
fn it_asks_for_what_the_server_offers_and_as_nobody_else() {
    for (capabilities, asked) in [
        (all(), [true, true, true]),
        (
            json!({"tools": {"listChanged": true}, "prompts": {}}),
            [true, false, false],
        ),
        (
            json!({"resources": {"listChanged": true}, "tools": {"listChanged": false}}),
            [false, false, true],
        ),
    ] {
        let offering = Offering::new(&capabilities, plain);
        let signed = list("prompts/list")
            .header("Authorization", "Bearer secret")
            .header("Cookie", "a=secret")
            .header("X-Key", "secret");
        offering.stage.stores("signed", &signed);
        let _plays = offering.subscribed();
        let own = own(&offering.stage);
        let methods: Vec<String> = own.iter().map(method_of).collect();
        assert_eq!(methods, ["server/discover", LISTEN]);
        for request in &own {
            let json = request.json();
            assert_eq!(json["params"]["_meta"][VERSION_KEY], MODERN);
            assert_eq!(request.head.values("mcp-method"), [method_of(request)]);
            assert_eq!(request.head.values("mcp-protocol-version"), [MODERN]);
            let head = format!("{:?}", request.head);
            assert!(
                !head.contains("secret") && !head.contains("forwarded-for"),
                "{head}"
            );
        }
        let [tools, prompts, resources] = asked;
        let notifications = &own[1].json()["params"]["notifications"];
        for (key, asked) in [
            ("toolsListChanged", tools),
            ("promptsListChanged", prompts),
            ("resourcesListChanged", resources),
        ] {
            assert_eq!(
                notifications[key].as_bool().unwrap_or(false),
                asked,
                "{key}: {notifications}"
            );
        }
    }
}

#[test]
fn what_has_changed_is_fetched_again() {
    let offering = Offering::new(&all(), plain);
    let lists = [
        list("tools/list"),
        list("prompts/list"),
        list("resources/list"),
        read("x://h/a/b"),
    ];
    for list in &lists {
        offering.stage.stores("first", list);
    }
    let plays = offering.subscribed();
    let drops = |what: &str, gone: usize| {
        eventually(what, || !offering.is_kept(&lists[gone]));
        for list in &lists {
            offering.stage.hits(what, list);
        }
    };
    let changed = |what: &str| format!("notifications/{what}/list_changed");
    tell(&plays, &changed("tools"), json!({}));
    drops("tools", 0);
    tell(&plays, &changed("prompts"), json!({}));
    drops("prompts", 1);
    tell(&plays, &changed("resources"), json!({}));
    drops("resources", 2);
    tell(
        &plays,
        "notifications/resources/updated",
        json!({"uri": "x://h/a"}),
    );
    drops("a resource", 3);
    assert_eq!(
        own_methods(&offering.stage),
        ["server/discover", LISTEN],
        "once"
    );
}

#[test]
fn where_it_breaks_off_everything_is_dropped_and_it_comes_back() {
    let offering = Offering::new(&all(), plain);
    let lists = [
        list("tools/list"),
        list("prompts/list"),
        list("server/discover"),
        read("x:a"),
    ];
    for list in &lists {
        offering.stage.stores("first", list);
    }
    for end in [Play::Close, Play::Reset, Play::end()] {
        let plays = offering.subscribed();
        // What came while nobody listened may have changed.
        lists
            .iter()
            .for_each(|list| drop(offering.stage.tell(list)));
        for list in &lists {
            offering.stage.hits("listened for", list);
        }
        plays.send(end).unwrap();
        offering
            .stage
            .site
            .gateway
            .wait_for_line("are not followed any more");
        eventually("the end of it", || !offering.is_kept(&lists[0]));
        for list in &lists[1..] {
            offering.stage.misses("missed", list, "stored");
        }
    }
    let _plays = offering.subscribed();
    for list in &lists {
        offering.stage.misses("again", list, "stored");
    }
}

#[test]
fn a_server_that_ends_it_in_good_order_is_left_alone() {
    let offering = Offering::new(&all(), plain);
    let tools = list("tools/list");
    offering.stage.stores("first", &tools);
    let plays = offering.subscribed();
    let closed = r#"{"jsonrpc":"2.0","id":"weirgate","result":{"resultType":"complete"}}"#;
    plays
        .send(Play::chunk(format!("data: {closed}\n\n")))
        .unwrap();
    plays.send(Play::end()).unwrap();
    eventually("the end of it", || !offering.is_kept(&tools));
    // Longer than until it would come back.
    sleep(Duration::from_millis(2_500));
    offering.stage.hits("kept all the same", &tools);
    assert_eq!(own_methods(&offering.stage), ["server/discover", LISTEN]);
}

#[test]
fn a_server_that_offers_nothing_is_left_alone() {
    let error = r#"{"jsonrpc":"2.0","id":"weirgate","error":{"code":-32601,"message":"no"}}"#;
    let offers = |capabilities: Value| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"weirgate","result":{}}}"#,
            offer(&capabilities)
        )
    };
    for (status, body) in [
        (200, offers(json!({}))),
        (
            200,
            offers(json!({"tools": {}, "prompts": {"listChanged": false}})),
        ),
        (200, offers(json!({"tools": {"listChanged": "true"}}))),
        (200, error.to_owned()),
        (404, error.to_owned()),
        (401, String::new()),
    ] {
        let counter = Counter::default();
        let what = body.clone();
        let upstream = Upstream::with(move |request| match is_own(request) {
            true => Reply::json(status, &body),
            false => document(request, &public(&format!(r#""number":{}"#, counter.next()))),
        });
        let stage = Stage::before(upstream, plain);
        stage.stores("first", &list("tools/list"));
        eventually("the question", || !own(&stage).is_empty());
        sleep(Duration::from_millis(300));
        for method in ["prompts/list", "resources/list"] {
            stage.stores(method, &list(method));
            stage.hits(method, &list(method));
        }
        assert_eq!(own_methods(&stage), ["server/discover"], "{status} {what}");
    }
}

#[test]
fn a_server_that_grants_none_is_left_alone() {
    let counter = Counter::default();
    let offer = offer(&all());
    let upstream =
        Upstream::with(
            move |request| match (is_own(request), method_of(request).as_str()) {
                (true, "server/discover") => document(request, &offer),
                (true, _) => Reply::json(
                    404,
                    format!(
                        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#,
                        id_of(request)
                    ),
                ),
                _ => document(request, &public(&format!(r#""number":{}"#, counter.next()))),
            },
        );
    let stage = Stage::before(upstream, plain);
    stage.stores("first", &list("tools/list"));
    eventually("the question", || own(&stage).len() == 2);
    sleep(Duration::from_millis(300));
    stage.hits("kept", &list("tools/list"));
    assert_eq!(own_methods(&stage), ["server/discover", LISTEN]);
}

#[test]
fn nothing_is_asked_where_nothing_is_kept() {
    let script = |request: &Received| {
        document(
            request,
            &super::hinted(r#""number":1"#, r#""ttlMs":60000,"cacheScope":"private""#),
        )
    };
    let stages = [
        Stage::before(Upstream::with(script), plain),
        Stage::before(Upstream::with(script), |policy| {
            policy.set("/routes/0/cache", json!("off"))
        }),
    ];
    for stage in stages {
        for method in ["tools/list", "server/discover"] {
            stage.tell(&list(method));
        }
        sleep(Duration::from_millis(300));
        assert_eq!(own_methods(&stage), Vec::<String>::new());
    }
}

#[test]
fn routes_that_lead_to_one_server_share_it() {
    let offering = Offering::new(&all(), |policy| {
        policy.set(
            "/routes",
            json!([
                {"name": "main", "path": "/mcp", "upstream": "up"},
                {"name": "other", "path": "/other", "upstream": "up"},
            ]),
        )
    });
    let (main, other) = (list("tools/list"), list("tools/list").target("/other"));
    offering.stage.stores("main", &main);
    offering.stage.stores("other", &other);
    let plays = offering.subscribed();
    offering.stage.hits("main", &main);
    offering.stage.hits("other", &other);
    tell(&plays, "notifications/tools/list_changed", json!({}));
    eventually("the change", || !offering.is_kept(&main));
    offering.stage.misses("other", &other, "stored");
    assert_eq!(own_methods(&offering.stage), ["server/discover", LISTEN]);
}

#[test]
fn it_ends_when_the_gateway_does() {
    let mut offering = Offering::new(&all(), plain);
    offering.stage.stores("first", &list("tools/list"));
    let _plays = offering.subscribed();
    let listening = own(&offering.stage)[1].connection;
    let site = &mut offering.stage.site;
    assert!(site.upstream.log().ended(listening).is_none());
    assert_eq!(site.gateway.end_by("TERM"), Some(0));
    site.upstream.wait("the end of the subscription", |log| {
        log.ended(listening).is_some()
    });
}
