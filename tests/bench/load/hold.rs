//! Many streams that are opened and then left alone.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::http1::{self, Answer};
use crate::plan::Plan;
use crate::seen::Fault;
use crate::wire::Wire;

/// Streams that are being opened at the same time.
const OPENERS: usize = 16;

/// Opens the streams, prints a line of JSON, waits for the end of standard input, and prints
/// another line: how many streams were no longer open or had said more than their first event.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let wires = Mutex::new(Vec::new());
    let fault = Mutex::new(None);
    let left = AtomicU32::new(plan.connections);
    let take = |left: u32| left.checked_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..OPENERS {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_ok()
                {
                    match open(plan) {
                        Ok(wire) => wires.lock().expect("no opener panics").push(wire),
                        Err(found) => {
                            fault.lock().expect("no opener panics").get_or_insert(found);
                            left.store(0, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (refused, wrong, first) = match fault.into_inner().expect("no opener panicked") {
        None => (0, 0, String::new()),
        Some(Fault::Refused(message)) => (1, 0, message),
        Some(Fault::Wrong(message)) => (0, 1, message),
    };
    let wires = wires.into_inner().expect("no opener panicked");
    let first = first.replace(|char: char| !matches!(char, ' '..='~'), " ");
    println!(
        "{{\"requests\": {}, \"refused\": {refused}, \"wrong\": {wrong}, \"first\": {first:?}}}",
        wires.len()
    );
    let io = |error: std::io::Error| error.to_string();
    std::io::stdout().flush().map_err(io)?;
    std::io::stdin().read_to_end(&mut Vec::new()).map_err(io)?;
    let disturbed = wires.iter().filter(|wire| !wire.is_quiet()).count();
    println!("{{\"disturbed\": {disturbed}}}");
    Ok(())
}

/// Opens one stream and reads its first event, which must be the expected one.
fn open(plan: &Plan) -> Result<Wire, Fault> {
    let wire = Wire::connect(plan)?;
    wire.send(&[http1::head(plan, plan.body.len()), plan.body.clone()].concat())
        .map_err(|error| Fault::Refused(format!("sending: {error}")))?;
    let mut answer = Answer::default();
    let mut chunked = answer.read_stream_head(&wire)?;
    let mut event = Vec::new();
    let mut bytes = answer.body().to_vec();
    loop {
        chunked
            .read(&bytes, |data| event.extend_from_slice(data))
            .map_err(Fault::Wrong)?;
        if event.ends_with(b"\n\n") {
            break;
        }
        bytes.resize(4096, 0);
        let count = wire
            .receive(&mut bytes)
            .map_err(|error| Fault::Wrong(format!("waiting for the first event: {error}")))?;
        if count == 0 {
            return Err(Fault::Wrong(
                "the stream ended before its first event".into(),
            ));
        }
        bytes.truncate(count);
    }
    if plan.expected.is(&event) {
        return Ok(wire);
    }
    let event = String::from_utf8_lossy(&event);
    Err(Fault::Wrong(format!("the first event came as {event}")))
}
