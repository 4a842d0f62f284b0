//! What the connections saw, and how it is told.

use std::time::Duration;

/// Why an exchange is not the expected one.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The peer does not do what was asked: no connection, no such protocol, an error status.
    Refused(String),
    /// The peer does it, and wrongly.
    Wrong(String),
}

impl Fault {
    /// A refusal if nothing was answered yet, else a wrong answer.
    pub(crate) fn after(answered: usize, message: String) -> Fault {
        if answered == 0 {
            Fault::Refused(message)
        } else {
            Fault::Wrong(message)
        }
    }
}

/// What one connection saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) latencies_ns: Vec<u64>,
    refused: u64,
    wrong: u64,
    first: Option<String>,
}

impl Seen {
    pub(crate) fn fault(&mut self, fault: Fault) {
        let message = match fault {
            Fault::Refused(message) => {
                self.refused += 1;
                message
            }
            Fault::Wrong(message) => {
                self.wrong += 1;
                message
            }
        };
        self.first.get_or_insert(message);
    }

    pub(crate) fn latency(&mut self, time: Duration) {
        self.latencies_ns.push(time.as_nanos() as u64);
    }
}

/// One line of JSON; `first` is quoted by Rust's rules, which agree with JSON's on ASCII text.
pub(crate) fn summary(seen: Vec<Seen>, elapsed: Duration) -> String {
    let refused: u64 = seen.iter().map(|one| one.refused).sum();
    let wrong: u64 = seen.iter().map(|one| one.wrong).sum();
    let first = seen.iter().find_map(|one| one.first.clone());
    let first: String = first
        .unwrap_or_default()
        .chars()
        .map(|char| if char == '\n' { ' ' } else { char })
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
        "{{\"requests\": {}, \"seconds\": {:.6}, \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"refused\": {refused}, \"wrong\": {wrong}, \"first\": {first:?}}}",
        latencies_ns.len(),
        elapsed.as_secs_f64(),
        at(0.50),
        at(0.99),
    )
}
