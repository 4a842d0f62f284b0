//! A reader that takes little at a time is no silent one.

use std::thread::sleep;
use std::time::Duration;

use super::{events, narrow};
use crate::harness::{Play, Reply, Request, Site, Upstream};

const EVENT_BYTES: usize = 64 << 10;
/// Several times what the system holds of an answer that a client takes slowly.
const EVENTS: usize = 64;
const WRITE_IDLE_TIMEOUT: &str = "800ms";
/// At most so much is taken, and then nothing for so long.
const PIECE_BYTES: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(100);

#[test]
fn a_slow_reader_is_not_taken_for_a_silent_one() {
    let mut steps = events(EVENTS, EVENT_BYTES);
    steps.push(Play::end());
    let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
    let site = Site::before(upstream, |policy| {
        policy.listen("write_idle_timeout", WRITE_IDLE_TIMEOUT)
    });
    let mut client = narrow(&site.gateway, 16 << 10);
    client.send(&Request::call("flood"));
    let (_, mut body) = client.read_head();
    let (mut all, mut piece, mut pauses) = (0, 0, 0);
    while let Some(part) = body.next(&mut client.wire).unwrap() {
        all += part.len();
        piece += part.len();
        if piece >= PIECE_BYTES {
            piece = 0;
            pauses += 1;
            sleep(PAUSE);
        }
    }
    assert_eq!(all, EVENTS * EVENT_BYTES);
    assert!(pauses > 40, "it read for far longer than the timeout");
    let record = &site.records(1)[0];
    assert_eq!(record["end"], "complete", "{record}");
    assert_eq!(record["bytes_out"], all, "{record}");
}
