//! What to send, to whom, for how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The command line, read.
pub(crate) struct Plan {
    pub(crate) address: String,
    /// The request's header fields but for `host` and `content-length`, as an HTTP/1.1 client
    /// writes them.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Expected,
    /// Whether each @ of the body stands for the number of the request.
    pub(crate) numbered: bool,
    pub(crate) fill_bytes: usize,
    pub(crate) connections: u32,
    pub(crate) http2: bool,
    /// Most requests in flight on one HTTP/2 connection.
    pub(crate) streams: usize,
    /// The file of the certificate that the proxy must show, if TLS is to be spoken.
    pub(crate) tls: Option<String>,
    time: Duration,
    /// Requests per second over all connections; `None` sends the next one when one is answered.
    rate: Option<f64>,
    /// How many requests may still begin, over all connections.
    quota: AtomicU64,
}

impl Plan {
    /// Reads `--name value` pairs, and the files that they name.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        let mut plan = Plan {
            address: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            expected: Expected::default(),
            numbered: false,
            fill_bytes: 0,
            connections: 1,
            http2: false,
            streams: 1,
            tls: None,
            time: Duration::from_secs(3600),
            rate: None,
            quota: AtomicU64::new(u64::MAX),
        };
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            plan.set(&name, value)?;
        }
        if plan.address.is_empty() || plan.body.is_empty() {
            return Err("--address and --body are needed".into());
        }
        Ok(plan)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let number = || {
            value
                .parse::<f64>()
                .map_err(|error| format!("{name} {value}: {error}"))
        };
        let file = || std::fs::read(&value).map_err(|error| format!("{value}: {error}"));
        match name {
            "--headers" => self.headers = headers(&file()?)?,
            "--body" => self.body = file()?,
            "--expect" => self.expected = Expected::new(&file()?),
            "--numbered" => self.numbered = value == "yes",
            "--fill" => self.fill_bytes = number()? as usize,
            "--connections" => self.connections = number()?.max(1.0) as u32,
            "--streams" => self.streams = number()?.max(1.0) as usize,
            "--seconds" => self.time = Duration::from_secs_f64(number()?),
            "--rate" => self.rate = Some(number()?),
            "--requests" => self.quota = AtomicU64::new(number()? as u64),
            "--http2" => self.http2 = value == "yes",
            "--address" => self.address = value,
            "--tls" => self.tls = Some(value),
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
    }

    /// The timetable of connection `number`, which begins now.
    pub(crate) fn timetable(&self, number: u32) -> Timetable<'_> {
        let now = Instant::now();
        let gaps = |rate| Gaps::new(number, f64::from(self.connections) / rate);
        Timetable {
            plan: self,
            gaps: self.rate.map(gaps),
            end: now + self.time,
            due: now,
            left: 0,
        }
    }
}

/// The one right answer; where it has an @, any number is right.
#[derive(Default)]
pub(crate) struct Expected {
    before: Vec<u8>,
    after: Option<Vec<u8>>,
}

impl Expected {
    fn new(text: &[u8]) -> Expected {
        let mut parts = text.splitn(2, |byte| *byte == b'@').map(<[u8]>::to_vec);
        Expected {
            before: parts.next().unwrap_or_default(),
            after: parts.next(),
        }
    }

    /// Whether `body` is the right answer.
    pub(crate) fn is(&self, body: &[u8]) -> bool {
        let Some(after) = &self.after else {
            return body == self.before;
        };
        body.strip_prefix(&self.before[..])
            .and_then(|rest| rest.strip_suffix(&after[..]))
            .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    }
}

fn headers(file: &[u8]) -> Result<Vec<(String, String)>, String> {
    String::from_utf8_lossy(file)
        .lines()
        .map(|line| {
            line.split_once(": ")
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .ok_or_else(|| format!("no header field: {line}"))
        })
        .collect()
}

/// When the requests of one connection begin.
pub(crate) struct Timetable<'a> {
    plan: &'a Plan,
    gaps: Option<Gaps>,
    end: Instant,
    due: Instant,
    /// How many requests of all connections were left before this one.
    left: u64,
}

impl Timetable<'_> {
    /// Whether requests begin at their own moments, whatever became of those before.
    pub(crate) fn is_paced(&self) -> bool {
        self.gaps.is_some()
    }

    /// The number of the request that [`next`](Self::next) let begin: no other has the same.
    pub(crate) fn number(&self) -> u64 {
        self.left
    }

    /// Waits until the next request is due, and gives the moment from which its answer is waited
    /// for; `None` once no more is to be sent.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        let quota = &self.plan.quota;
        let left = |left: u64| left.checked_sub(1);
        self.left = quota
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .ok()?;
        let mut start = Instant::now();
        if let Some(gaps) = &mut self.gaps {
            self.due += gaps.next();
            if self.due > start {
                std::thread::sleep((self.due - start).min(self.end - start.min(self.end)));
                // The thread itself woke late, which is no fault of the peer: it counts from here.
                start = Instant::now();
            } else {
                // The answer before came too late to begin in time: the wait belongs to the peer.
                start = self.due;
            }
        }
        (Instant::now() < self.end).then_some(start)
    }
}

/// Exponentially distributed gaps between the events of one connection, the same in every run.
pub(crate) struct Gaps {
    state: u64,
    mean_seconds: f64,
}

impl Gaps {
    pub(crate) fn new(number: u32, mean_seconds: f64) -> Self {
        Self {
            state: 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(u64::from(number) + 1),
            mean_seconds,
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        // Between 0 and 1, and never 0, which has no logarithm.
        let fraction = ((self.state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        Duration::from_secs_f64(-fraction.ln() * self.mean_seconds)
    }
}
