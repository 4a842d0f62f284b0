//! A load generator that sends one fixed HTTP/1.1 request over a few connections, reads every
//! answer whole and compares it with the expected one. `compare` builds it with a bare `rustc`.
//!
//! It exists because the common generators only keep connections busy (a closed loop), where
//! latency says how many connections there are and little about the proxy. With `--rate` each
//! connection follows its own timetable of random (Poisson) arrivals instead, and an answer that
//! comes after the next request was due makes that request late: its wait is counted, not hidden.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: load --address HOST:PORT --request FILE --expect FILE --connections N \
    (--seconds S [--rate PER_SECOND] | --requests N)";

/// A peer that says nothing for this long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// An answer's head and body together stay below this.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What to send, to whom, for how long.
struct Plan {
    address: String,
    request: Vec<u8>,
    expected_body: Vec<u8>,
    connections: u32,
    time: Duration,
    /// Requests per second over all connections; `None` sends the next one when one is answered.
    rate: Option<f64>,
    /// How many requests may still begin, over all connections.
    quota: AtomicU64,
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    latencies_ns: Vec<u64>,
    wrong: u64,
    first_wrong: Option<String>,
}

fn main() -> ExitCode {
    let plan = match plan_from(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(message) => {
            eprintln!("load: {message}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    let barrier = Barrier::new(plan.connections as usize);
    let begun = Instant::now();
    let seen = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.connections)
            .map(|number| {
                scope.spawn({
                    let (plan, barrier) = (&plan, &barrier);
                    move || converse(plan, number, barrier)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a connection's thread does not panic"))
            .collect::<Vec<_>>()
    });
    println!("{}", summary(seen, begun.elapsed()));
    ExitCode::SUCCESS
}

fn plan_from(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan {
        address: String::new(),
        request: Vec::new(),
        expected_body: Vec::new(),
        connections: 1,
        time: Duration::from_secs(3600),
        rate: None,
        quota: AtomicU64::new(u64::MAX),
    };
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        let number = || {
            value
                .parse::<f64>()
                .map_err(|error| format!("{name} {value}: {error}"))
        };
        let file = || std::fs::read(&value).map_err(|error| format!("{value}: {error}"));
        match name.as_str() {
            "--address" => plan.address = value,
            "--request" => plan.request = file()?,
            "--expect" => plan.expected_body = file()?,
            "--connections" => plan.connections = number()?.max(1.0) as u32,
            "--seconds" => plan.time = Duration::from_secs_f64(number()?),
            "--rate" => plan.rate = Some(number()?),
            "--requests" => plan.quota = AtomicU64::new(number()? as u64),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    if plan.address.is_empty() || plan.request.is_empty() {
        return Err("--address and --request are needed".into());
    }
    Ok(plan)
}

/// Runs one connection to its end; the first failure of the connection itself ends it early.
fn converse(plan: &Plan, number: u32, barrier: &Barrier) -> Seen {
    let mut seen = Seen::default();
    let connected = connect(&plan.address);
    // Everybody waits here, failed or not, so that no thread waits for ever.
    barrier.wait();
    if let Err(message) = connected.and_then(|stream| exchange_all(plan, number, stream, &mut seen))
    {
        seen.wrong += 1;
        seen.first_wrong.get_or_insert(message);
    }
    seen
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let connect = || {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(stream)
    };
    connect().map_err(|error: std::io::Error| format!("connecting to {address}: {error}"))
}

fn exchange_all(
    plan: &Plan,
    number: u32,
    mut stream: TcpStream,
    seen: &mut Seen,
) -> Result<(), String> {
    let mut answer = Vec::with_capacity(16 * 1024);
    let mut gaps = plan
        .rate
        .map(|rate| Gaps::new(number, f64::from(plan.connections) / rate));
    let begun = Instant::now();
    let mut due = begun;
    while plan
        .quota
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok()
    {
        let mut start = Instant::now();
        if let Some(gaps) = &mut gaps {
            due += gaps.next();
            if due > start {
                std::thread::sleep(due - start);
                // The thread itself woke late, which is no fault of the peer: it counts from here.
                start = Instant::now();
            } else {
                // The answer before came too late to begin in time: the wait belongs to the peer.
                start = due;
            }
        }
        if begun.elapsed() >= plan.time {
            break;
        }
        stream
            .write_all(&plan.request)
            .map_err(|error| format!("sending: {error}"))?;
        let verdict = read_answer(&mut stream, &mut answer, &plan.expected_body)?;
        seen.latencies_ns.push(start.elapsed().as_nanos() as u64);
        if let Some(message) = verdict {
            seen.wrong += 1;
            seen.first_wrong.get_or_insert(message);
        }
    }
    Ok(())
}

/// Reads one answer whole. `Ok(Some(…))` says what was wrong with a readable one; `Err` means that
/// the connection is of no more use.
fn read_answer(
    stream: &mut TcpStream,
    answer: &mut Vec<u8>,
    expected_body: &[u8],
) -> Result<Option<String>, String> {
    answer.clear();
    let mut whole_bytes = None;
    let mut body_at = 0;
    let mut piece = [0; 4096];
    while whole_bytes.is_none_or(|whole| answer.len() < whole) {
        let count = stream
            .read(&mut piece)
            .map_err(|error| format!("reading: {error}"))?;
        if count == 0 || answer.len() + count > ANSWER_BYTES_MAX {
            return Err(format!(
                "the answer ended early or is too long, after {} bytes",
                answer.len()
            ));
        }
        answer.extend_from_slice(&piece[..count]);
        if whole_bytes.is_none()
            && let Some(at) = answer.windows(4).position(|four| four == b"\r\n\r\n")
        {
            body_at = at + 4;
            whole_bytes = Some(body_at + content_length(&answer[..at])?);
        }
    }
    let is_right = answer.starts_with(b"HTTP/1.1 2") && &answer[body_at..] == expected_body;
    Ok((!is_right).then(|| String::from_utf8_lossy(&answer[..answer.len().min(600)]).into_owned()))
}

fn content_length(head: &[u8]) -> Result<usize, String> {
    let head = String::from_utf8_lossy(head);
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| format!("an answer without a Content-Length:\n{head}"))
}

/// Exponentially distributed gaps between the requests of one connection, the same in every run.
struct Gaps {
    state: u64,
    mean_seconds: f64,
}

impl Gaps {
    fn new(number: u32, mean_seconds: f64) -> Self {
        Self {
            state: 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(u64::from(number) + 1),
            mean_seconds,
        }
    }

    fn next(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        // Between 0 and 1, and never 0, which has no logarithm.
        let fraction = ((self.state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        Duration::from_secs_f64(-fraction.ln() * self.mean_seconds)
    }
}

/// One line of JSON; `first_wrong` is quoted by Rust's rules, which agree with JSON's on ASCII text.
fn summary(seen: Vec<Seen>, elapsed: Duration) -> String {
    let wrong: u64 = seen.iter().map(|one| one.wrong).sum();
    let first_wrong = seen
        .iter()
        .find_map(|one| one.first_wrong.clone())
        .unwrap_or_default();
    let first_wrong: String = first_wrong
        .chars()
        .filter(|char| matches!(char, ' '..='~'))
        .collect();
    let mut latencies_ns: Vec<u64> = seen.into_iter().flat_map(|one| one.latencies_ns).collect();
    latencies_ns.sort_unstable();
    let at = |share: f64| {
        latencies_ns
            .get((latencies_ns.len() as f64 * share) as usize)
            .map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    format!(
        "{{\"requests\": {}, \"seconds\": {:.6}, \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"wrong\": {wrong}, \"first_wrong\": {first_wrong:?}}}",
        latencies_ns.len(),
        elapsed.as_secs_f64(),
        at(0.50),
        at(0.99),
    )
}
