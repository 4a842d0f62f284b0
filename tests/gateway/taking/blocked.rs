//! Connections that wait for their client cost no processor time, whatever happens behind them.

use std::thread::sleep;
use std::time::Duration;

use super::{events, narrow};
use crate::harness::{Play, Reply, Request, Site, Upstream};
use crate::http2::Client2;

const EVENT_BYTES: usize = 16 << 10;
/// From what the system takes of an answer at once, to more than it and the library hold.
const EVENTS: std::ops::Range<usize> = 4..28;
/// How long the processor time is looked at, and how much of that may be used: one that spins on a
/// busy machine uses several times as much.
const PAUSE: Duration = Duration::from_secs(1);
const USED_MAX: Duration = Duration::from_millis(60);

#[test]
fn a_blocked_connection_does_not_spin_when_its_upstream_breaks_off() {
    let upstream = Upstream::with(|request| {
        let tool = request.json()["params"]["name"].clone();
        let count = tool.as_str().and_then(|tool| tool.parse().ok()).unwrap();
        let mut steps = events(count, EVENT_BYTES);
        // What came before is taken until nothing more can be.
        steps.push(Play::Pause(Duration::from_millis(300)));
        steps.push(match count % 2 {
            0 => Play::Reset,
            _ => Play::Close,
        });
        Reply::Steps(steps)
    });
    let site = Site::before(upstream, |policy| policy);
    let mut blocked: Vec<_> = EVENTS
        .map(|count| {
            let mut client = narrow(&site.gateway, 4096);
            client.send(&Request::call(&count.to_string()));
            client
        })
        .collect();
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(1000);
    let mut shared = Client2::with(&site.gateway, settings);
    let _streams: Vec<_> = EVENTS
        .map(|count| shared.send(&Request::call(&count.to_string())))
        .collect();
    let calls = EVENTS.len() * 2;
    site.upstream.wait("the upstream's breaks", |log| {
        log.requests.len() == calls && log.open() == 0
    });
    sleep(Duration::from_millis(300));

    let before = site.gateway.processor_time();
    sleep(PAUSE);
    let used = site.gateway.processor_time() - before;
    println!("{calls} blocked answers took {used:?} in {PAUSE:?}");
    assert!(used <= USED_MAX, "it spins: {used:?} in {PAUSE:?}");

    // Whoever goes on to read gets what there was, and no clean end behind it.
    for client in &mut blocked {
        let (_, mut body) = client.read_head();
        while let Ok(part) = body.next(&mut client.wire) {
            assert!(part.is_some(), "a clean end");
        }
    }
}
