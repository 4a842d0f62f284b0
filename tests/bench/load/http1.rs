//! HTTP/1.1 as a client: one request at a time on each connection.

use crate::chunked::Chunked;
use crate::plan::{Expected, Plan};
use crate::seen::Fault;
use crate::wire::Wire;

/// An answer's head and body together stay below this.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What is read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// The request's head for a body of `body_bytes`.
pub(crate) fn head(plan: &Plan, body_bytes: usize) -> Vec<u8> {
    let mut head = format!("POST /mcp HTTP/1.1\r\nhost: {}\r\n", plan.address);
    for (name, value) in &plan.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {body_bytes}\r\n\r\n"));
    head.into_bytes()
}

/// What of an answer has been read so far.
#[derive(Default)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    body_at: usize,
}

impl Answer {
    /// Reads one answer whole; `Ok(Some(…))` says what is wrong with a readable one, `Err` means
    /// that the connection is of no more use.
    pub(crate) fn read(
        &mut self,
        wire: &Wire,
        expected: &Expected,
    ) -> Result<Option<Fault>, Fault> {
        self.read_head(wire)?;
        let length = self
            .field("content-length")
            .and_then(|text| text.parse().ok());
        let whole = match length {
            Some(length) => self.body_at.saturating_add(length),
            None => return Err(self.telling(Fault::Wrong, "an answer without Content-Length: ")),
        };
        while self.bytes.len() < whole {
            self.more(wire)?;
        }
        if !self.is_success() {
            return Ok(Some(self.telling(Fault::Refused, "")));
        }
        let is_right = expected.is(self.body());
        Ok((!is_right).then(|| self.telling(Fault::Wrong, "")))
    }

    /// Reads up to the end of the head; an answer that is no success is a refusal.
    pub(crate) fn read_stream_head(&mut self, wire: &Wire) -> Result<Chunked, Fault> {
        self.read_head(wire)?;
        if !self.is_success() {
            return Err(self.telling(Fault::Refused, ""));
        }
        if !self
            .field("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
        {
            return Err(self.telling(Fault::Wrong, "a stream that is not chunked: "));
        }
        Ok(Chunked::default())
    }

    /// What was read behind the head.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body_at..]
    }

    fn read_head(&mut self, wire: &Wire) -> Result<(), Fault> {
        self.bytes.clear();
        loop {
            self.more(wire)?;
            if let Some(at) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                self.body_at = at + 4;
                return Ok(());
            }
        }
    }

    fn more(&mut self, wire: &Wire) -> Result<(), Fault> {
        let mut piece = [0; PIECE_BYTES];
        let answered = self.bytes.len();
        let count = wire
            .receive(&mut piece)
            .map_err(|error| Fault::after(answered, format!("reading the answer: {error}")))?;
        if count == 0 || answered + count > ANSWER_BYTES_MAX {
            let message = format!("the answer ended early or is too long, after {answered} bytes");
            return Err(Fault::after(answered, message));
        }
        self.bytes.extend_from_slice(&piece[..count]);
        Ok(())
    }

    fn is_success(&self) -> bool {
        self.bytes.starts_with(b"HTTP/1.1 2")
    }

    fn field(&self, wanted: &str) -> Option<&str> {
        let head = str::from_utf8(&self.bytes[..self.body_at]).ok()?;
        head.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.trim())
    }

    fn telling(&self, fault: fn(String) -> Fault, before: &str) -> Fault {
        let shown = &self.bytes[..self.bytes.len().min(800)];
        fault(format!("{before}{}", String::from_utf8_lossy(shown)))
    }
}
