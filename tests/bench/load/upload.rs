//! Large bodies, one at a time on each connection, written as fast as the proxy reads.

use std::time::Instant;

use crate::calls::on_each_connection;
use crate::http1::{self, Answer};
use crate::plan::Plan;
use crate::seen::{Fault, Seen};
use crate::wire::Wire;

const PIECE_BYTES: usize = 256 * 1024;

/// Runs the plan and prints what was seen; a latency is the time of one upload.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    println!("{}", on_each_connection(plan, converse));
    Ok(())
}

fn converse(plan: &Plan, number: u32, wire: &Wire, seen: &mut Seen) -> Result<(), Fault> {
    let at = plan.body.iter().position(|byte| *byte == b'@');
    let at = at.ok_or_else(|| Fault::Wrong("the body has no @ to fill".into()))?;
    let (before, after) = (&plan.body[..at], &plan.body[at + 1..]);
    let head = http1::head(plan, before.len() + plan.fill_bytes + after.len());
    let piece: Vec<u8> = (b'A'..=b'Z')
        .chain(b'a'..=b'z')
        .chain(b'0'..=b'9')
        .cycle()
        .take(PIECE_BYTES)
        .collect();
    let mut answer = Answer::default();
    let mut timetable = plan.timetable(number);
    while timetable.next().is_some() {
        let start = Instant::now();
        let send = || {
            wire.send(&[&head, before].concat())?;
            let mut left = plan.fill_bytes;
            while left > 0 {
                let count = left.min(PIECE_BYTES);
                wire.send(&piece[..count])?;
                left -= count;
            }
            wire.send(after)
        };
        // A peer that refuses the upload may answer and close before it has read all.
        let sent: Result<(), std::io::Error> = send();
        let fault = answer.read(wire, &plan.expected)?;
        if let Err(error) = sent {
            seen.fault(fault.unwrap_or_else(|| Fault::Wrong(format!("sending: {error}"))));
            return Ok(());
        }
        seen.latency(start.elapsed());
        if let Some(fault) = fault {
            seen.fault(fault);
        }
    }
    Ok(())
}
