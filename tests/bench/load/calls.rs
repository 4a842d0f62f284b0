//! The same request over and over on a few connections.

use std::sync::Barrier;
use std::time::Instant;

use crate::http1::{self, Answer};
use crate::http2;
use crate::plan::Plan;
use crate::seen::{Fault, Seen, summary};
use crate::wire::Wire;

/// Runs the plan and prints what was seen.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let converse = if plan.http2 {
        http2::converse
    } else {
        converse
    };
    println!("{}", on_each_connection(plan, converse));
    Ok(())
}

/// Runs `converse` on every connection, from the moment on at which all of them are made.
pub(crate) fn on_each_connection(
    plan: &Plan,
    converse: fn(&Plan, u32, &Wire, &mut Seen) -> Result<(), Fault>,
) -> String {
    let barrier = Barrier::new(plan.connections as usize + 1);
    let (seen, elapsed) = std::thread::scope(|scope| {
        let start = |number| {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut seen = Seen::default();
                let wire = Wire::connect(plan);
                // Everybody waits here, failed or not, so that no thread waits for ever.
                barrier.wait();
                let done = wire.and_then(|wire| converse(plan, number, &wire, &mut seen));
                if let Err(fault) = done {
                    seen.fault(fault);
                }
                seen
            })
        };
        let threads: Vec<_> = (0..plan.connections).map(start).collect();
        barrier.wait();
        let begun = Instant::now();
        let seen: Vec<Seen> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a connection's thread does not panic"))
            .collect();
        (seen, begun.elapsed())
    });
    summary(seen, elapsed)
}

/// Runs one connection to its end; the first failure of the connection itself ends it early.
fn converse(plan: &Plan, number: u32, wire: &Wire, seen: &mut Seen) -> Result<(), Fault> {
    let mut request = numbered(plan, 0);
    let mut answer = Answer::default();
    let mut timetable = plan.timetable(number);
    while let Some(start) = timetable.next() {
        if plan.numbered {
            request = numbered(plan, timetable.number());
        }
        wire.send(&request)
            .map_err(|error| Fault::Refused(format!("sending: {error}")))?;
        let fault = answer.read(wire, &plan.expected)?;
        seen.latency(start.elapsed());
        if let Some(fault) = fault {
            seen.fault(fault);
        }
    }
    Ok(())
}

/// The request with this number.
fn numbered(plan: &Plan, number: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, piece) in plan.body.split(|byte| *byte == b'@').enumerate() {
        if index > 0 {
            body.extend_from_slice(number.to_string().as_bytes());
        }
        body.extend_from_slice(piece);
    }
    [http1::head(plan, body.len()), body].concat()
}
