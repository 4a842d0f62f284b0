//! The lexer and the builder put together.

use bytes::Bytes;

use super::builder::{Builder, Keep};
use super::{Bounds, Flaw, Frame, Outline, Paths};
use crate::protocol::lexer::Lexer;

/// Reads a body that passes by in chunks, of which none is needed again.
///
/// It keeps copies of the values that [`Outline`] reads, each within its bound, and nothing
/// else of the body.
#[derive(Clone, Debug)]
pub struct Scanner {
    lexer: Lexer,
    builder: Builder,
    failed: Option<Flaw>,
}

/// Reads a whole body, which must be one JSON-RPC message.
///
/// `paths` names the arguments whose values are wanted; see [`Outline::argument`]. The frame
/// shares the body and copies nothing.
///
/// # Errors
/// The first offence against JSON, wherever it stands; if there is none, the first offence
/// against what a message may be.
pub fn scan(body: Bytes, bounds: &Bounds, paths: &Paths) -> Result<Frame, Flaw> {
    let mut lexer = Lexer::new(bounds.depth_max);
    let mut builder = Builder::new(bounds, paths, Keep::Nothing);
    let read = lexer
        .feed(&body, &mut builder)
        .and_then(|()| lexer.finish(&mut builder));
    match read {
        Ok(()) => builder.finish(body).map(Frame),
        Err(error) => Err(builder.stop(error, &body)),
    }
}

impl Scanner {
    /// A scanner at the beginning of a body. `paths` names the arguments that are wanted.
    pub fn new(bounds: &Bounds, paths: &Paths) -> Scanner {
        Scanner {
            lexer: Lexer::new(bounds.depth_max),
            builder: Builder::new(bounds, paths, Keep::Copies),
            failed: None,
        }
    }

    /// Reads the next chunk; where one ends and the next begins makes no difference.
    ///
    /// # Errors
    /// An offence against JSON, as soon as it is met. Offences against what a message may be
    /// wait for [`finish`](Scanner::finish), because one against JSON may still follow and
    /// goes first; only too great a depth ends the scan at once.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Flaw> {
        if let Some(flaw) = &self.failed {
            return Err(flaw.clone());
        }
        if let Err(error) = self.lexer.feed(chunk, &mut self.builder) {
            let flaw = self.builder.stop(error, &[]);
            self.failed = Some(flaw.clone());
            return Err(flaw);
        }
        if let Some(cut) = self.lexer.cut_token() {
            self.builder.carry(cut, chunk);
        }
        Ok(())
    }

    /// The offset behind the root's closing brace, once it is known.
    pub fn root_end(&self) -> Option<usize> {
        self.builder.root_end()
    }

    /// The body has ended.
    ///
    /// # Errors
    /// The first offence against JSON, or else the first one against what a message may be.
    pub fn finish(mut self) -> Result<Outline, Flaw> {
        if let Some(flaw) = self.failed {
            return Err(flaw);
        }
        match self.lexer.finish(&mut self.builder) {
            Ok(()) => self.builder.finish(Bytes::new()),
            Err(error) => Err(self.builder.stop(error, &[])),
        }
    }
}
