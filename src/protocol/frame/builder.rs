//! From tokens to an outline: which object we are in, which key came last, and what the value
//! of that key must be.

mod rule;

use std::mem;

use bytes::Bytes;
use smallvec::SmallVec;

use super::flaw::{Detail, Flaw, FlawKind};
use super::key::{Key, Object, Seen, Values};
use super::path::NodeId;
use super::{Bounds, Json, Kind, Met, Outline, Paths, Value};
use crate::protocol::lexer::{self, Container, Cut, Inside, Reader, Scalar, Token};

/// Where values can be found once the scan is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keep {
    /// In the body, which comes in one chunk and is held whole.
    Nothing,
    /// In copies.
    Copies,
}

/// Reads the tokens and writes down what matters.
#[derive(Clone, Debug)]
pub(super) struct Builder {
    bounds: Bounds,
    paths: Paths,
    keep: Keep,
    /// The objects that we read from within, the outermost first.
    levels: SmallVec<[Level; 4]>,
    seen: Seen,
    /// What the value that comes next is the value of, or the one that is open and skipped.
    place: Place,
    values: Values,
    arguments: Box<[Option<Value>]>,
    id: Option<Value>,
    /// How many values of the key `id` were of the right type.
    ids: u32,
    root_end: Option<usize>,
    /// The first flaw. Reading goes on: JSON may be offended yet, and the id may still come.
    flaw: Option<Flaw>,
    /// The beginning of a token whose rest is in the next chunk.
    carry: Vec<u8>,
    /// The copies.
    kept: Vec<u8>,
}

/// An object that is read from within, and so read strictly.
#[derive(Clone, Copy, Debug)]
struct Level {
    object: Strict,
    /// What the object is the value of.
    place: Place,
    keys: usize,
    mark: usize,
}

#[derive(Clone, Copy, Debug)]
enum Strict {
    Known(Object),
    Argument(NodeId),
}

/// What a value is the value of.
#[derive(Clone, Copy, Debug)]
enum Place {
    Root,
    Known(Key),
    Argument(NodeId),
    Other,
}

impl Builder {
    pub(super) fn new(bounds: &Bounds, paths: &Paths, keep: Keep) -> Builder {
        Builder {
            bounds: *bounds,
            paths: paths.clone(),
            keep,
            levels: SmallVec::new(),
            seen: Seen::new(),
            place: Place::Root,
            values: Values::none(),
            arguments: vec![None; paths.len()].into_boxed_slice(),
            id: None,
            ids: 0,
            root_end: None,
            flaw: None,
            carry: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Where the root ended, if it has.
    pub(super) fn root_end(&self) -> Option<usize> {
        self.root_end
    }

    /// Whether there is a flaw already.
    pub(super) fn is_flawed(&self) -> bool {
        self.flaw.is_some()
    }

    /// The first flaw, if there is one, where copies are kept.
    pub(super) fn first_flaw(&self) -> Option<Flaw> {
        let flaw = self.flaw.clone()?;
        Some(self.echoing(flaw, &[]))
    }

    /// The values that have been met, where copies of them are kept.
    pub(super) fn met(&self) -> Met<'_> {
        Met {
            source: &self.kept,
            values: &self.values,
        }
    }

    /// How many bytes of the body are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.carry.capacity() + self.kept.capacity() + 8 * self.seen.mark()
    }

    /// Keeps the beginning of a token whose rest is in the next chunk, if it will be read.
    pub(super) fn carry(&mut self, cut: Cut, chunk: &[u8]) {
        let limit = match self.place {
            _ if cut.is_key => Some(self.bounds.word_bytes_max()),
            Place::Known(Key::Arguments) | Place::Argument(_) => Some(self.bounds.name_bytes_max),
            Place::Known(key) => self.limit(key),
            Place::Root | Place::Other => None,
        };
        let Some(limit) = limit else { return };
        // The bound is on what stands between the quotes. What is longer will not be read.
        let room = (limit + 2).saturating_sub(self.carry.len());
        let (_, part) = chunk.split_at(chunk.len() - cut.len.min(chunk.len()));
        self.carry.extend(part.iter().take(room));
    }

    /// What an error of the lexer amounts to. `body` is what has been read, if it is held.
    #[cold]
    pub(super) fn stop(&mut self, error: lexer::Error, body: &[u8]) -> Flaw {
        let flaw = Flaw::from(error);
        if flaw.is_parse_error() {
            return flaw;
        }
        self.flaw(
            flaw.kind(),
            flaw.at(),
            Detail::Bound(self.bounds.depth_max as usize),
        );
        let first = self.flaw.take().unwrap_or(flaw);
        self.echoing(first, body)
    }

    /// The end of a body that is JSON. `body` is the whole of it, if it is held.
    pub(super) fn finish(&mut self, body: Bytes) -> Result<Outline, Flaw> {
        let root_end = self.root_end.unwrap_or(0);
        let kind = match (self.flaw.take(), self.kind()) {
            (None, Ok(kind)) => kind,
            (Some(flaw), _) => return Err(self.echoing(flaw, &body)),
            (None, Err(kind)) => {
                return Err(self.echoing(Flaw::new(kind, root_end, Detail::None), &body));
            }
        };
        let source = match self.keep {
            Keep::Nothing => body,
            Keep::Copies => mem::take(&mut self.kept).into(),
        };
        Ok(Outline {
            source,
            kind,
            root_end,
            values: self.values,
            arguments: mem::take(&mut self.arguments),
        })
    }

    fn kind(&self) -> Result<Kind, FlawKind> {
        let has = |key| self.values.of(key).is_some();
        if !has(Key::Jsonrpc) {
            return Err(FlawKind::Version);
        }
        match (has(Key::Method), has(Key::Result), has(Key::Error)) {
            (true, false, false) if has(Key::Id) => Ok(Kind::Request),
            (true, false, false) => Ok(Kind::Notification),
            (false, true, false) | (false, false, true) if has(Key::Id) => Ok(Kind::Response),
            (false, true, false) | (false, false, true) => Err(FlawKind::IdType),
            (false, false, false) => Err(FlawKind::MethodMissing),
            (true, _, _) => Err(FlawKind::MethodAndResult),
            (false, true, true) => Err(FlawKind::ResultAndError),
        }
    }

    /// The flaw with the id of the message, if there is one and no more than one.
    fn echoing(&self, flaw: Flaw, body: &[u8]) -> Flaw {
        flaw.of_message(self.sole_id(body))
    }

    /// The id, if there is one of the right type and no more than one. `body` is what has been
    /// read, if it is held.
    pub(super) fn sole_id(&self, body: &[u8]) -> Option<Bytes> {
        let source = match self.keep {
            Keep::Nothing => body,
            Keep::Copies => &self.kept,
        };
        let value = self.id.filter(|_| self.ids == 1)?;
        let id = source.get(value.start..value.end)?;
        Some(Bytes::copy_from_slice(id))
    }

    /// Remembers a flaw, unless there is one already.
    #[cold]
    fn flaw(&mut self, kind: FlawKind, at: usize, detail: Detail) {
        if self.flaw.is_none() {
            self.flaw = Some(Flaw::new(kind, at, detail));
        }
    }
}

/// The tokens as they come. None of this is put into the lexer's loop: the loop is quicker
/// with more registers than with fewer calls.
impl Reader for Builder {
    #[inline(never)]
    fn key(&mut self, token: Token<'_>) {
        self.place = self.read_key(token).unwrap_or(Place::Other);
    }

    #[inline(never)]
    fn scalar(&mut self, kind: Scalar, token: Token<'_>) {
        match self.place {
            Place::Root => self.flaw(FlawKind::RootScalar, token.start, Detail::None),
            Place::Known(Key::Arguments) => {
                if let Some(root) = self.paths.root() {
                    self.argument(root, kind, token);
                }
            }
            Place::Known(key) => self.known(key, kind, token),
            Place::Argument(node) => self.argument(node, kind, token),
            Place::Other => {}
        }
        self.carry.clear();
    }

    #[inline(never)]
    fn open(&mut self, kind: Container, start: usize) -> Inside {
        let is_object = kind == Container::Object;
        let json = if is_object { Json::Object } else { Json::Array };
        // The end comes later, and only where the body is held.
        let value = Value {
            json,
            start,
            end: start,
        };
        let object = match self.place {
            Place::Root if is_object => Some(Strict::Known(Object::Envelope)),
            Place::Root => {
                self.flaw(FlawKind::RootArray, start, Detail::None);
                None
            }
            Place::Known(key) => self.open_known(key, value),
            Place::Argument(node) => self.open_argument(node, value),
            Place::Other => None,
        };
        let (Some(object), true) = (object, is_object) else {
            return Inside::Skip;
        };
        self.levels.push(Level {
            object,
            place: self.place,
            keys: 0,
            mark: self.seen.mark(),
        });
        Inside::Report
    }

    #[inline(never)]
    fn close(&mut self, inside: Inside, end: usize) {
        if inside == Inside::Report
            && let Some(level) = self.levels.pop()
        {
            self.seen.forget(level.mark);
            self.place = level.place;
        }
        let node = match self.place {
            Place::Root => {
                self.root_end = Some(end);
                None
            }
            Place::Known(_) | Place::Argument(_) if self.keep == Keep::Copies => None,
            Place::Known(key) => {
                self.values.set_end(key, end);
                self.paths.root().filter(|_| key == Key::Arguments)
            }
            Place::Argument(node) => Some(node),
            Place::Other => None,
        };
        for &path in node.map_or(&[][..], |node| self.paths.ending_at(node)) {
            if let Some(Some(value)) = self.arguments.get_mut(path) {
                value.end = end;
            }
        }
    }
}
