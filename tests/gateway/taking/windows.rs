//! Answers over HTTP/2 for which their client never makes room.

use std::thread::sleep;
use std::time::Duration;

use h2::Reason;

use super::UNTAKEN;
use crate::harness::{Policy, Request, Site};
use crate::http2::Client2;

/// Long enough for the library to have asked for the answer's body.
const WHILE: Duration = Duration::from_millis(200);

fn without_room(site: &Site) -> Client2 {
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(0);
    Client2::with(&site.gateway, settings)
}

fn soon(policy: Policy) -> Policy {
    policy.listen("write_idle_timeout", "300ms")
}

#[test]
fn what_was_never_let_out_is_not_complete() {
    let site = Site::new();
    for by_reset in [true, false] {
        let mut client = without_room(&site);
        let mut stream = client.send(&Request::call("echo"));
        assert_eq!(stream.head().unwrap().status, 200);
        sleep(WHILE);
        assert!(stream.is_silent());
        match by_reset {
            true => stream.reset(),
            false => client.close(),
        }
        let record = &site.records(1)[0];
        assert_eq!(record["end"], "client_gone", "{record}");
        assert_eq!(record["status"], 200, "{record}");
    }
    // So is an answer of our own.
    let mut client = without_room(&site);
    let mut refused = client.send(&Request::call("echo").without("Mcp-Name"));
    assert_eq!(refused.head().unwrap().status, 400);
    sleep(WHILE);
    refused.reset();
    let record = &site.records(1)[0];
    assert_eq!(record["end"], "client_gone", "{record}");
    assert_eq!(site.upstream.runs("echo"), 2);
}

#[test]
fn what_is_never_let_out_is_given_up() {
    let site = Site::with(soon);
    let mut client = without_room(&site);
    let mut stream = client.send(&Request::call("echo"));
    assert_eq!(stream.head().unwrap().status, 200);
    let record = &site.records(1)[0];
    assert_eq!(record["end"], UNTAKEN, "{record}");
    let (reason, came) = stream.read_to_reset();
    assert_eq!((reason, came.len()), (Reason::CANCEL, 0));
}

#[test]
fn what_is_let_out_in_the_end_is_complete() {
    let site = Site::new();
    let mut client = Client2::connect(&site.gateway);
    assert_eq!(client.exchange(&Request::call("echo")).status, 200);
    let record = &site.records(1)[0];
    assert_eq!(record["end"], "complete", "{record}");
}
