//! From tokens to an outline: which object we are in, which key came last, and what the value
//! of that key must be.

use std::borrow::Cow;
use std::mem;

use bytes::Bytes;
use smallvec::SmallVec;

use super::flaw::{Detail, Flaw, FlawKind};
use super::key::{Key, Object, Seen, Values};
use super::path::NodeId;
use super::{Bounds, Json, Kind, Outline, Paths, Value, text};
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

    /// Keeps the beginning of a token whose rest is in the next chunk, if it will be read.
    pub(super) fn carry(&mut self, cut: Cut, chunk: &[u8]) {
        let limit = match self.place {
            _ if cut.is_key => Some(self.bounds.name_bytes_max),
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
    pub(super) fn finish(mut self, body: Bytes) -> Result<Outline, Flaw> {
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
            Keep::Copies => self.kept.into(),
        };
        let Builder {
            values, arguments, ..
        } = self;
        Ok(Outline {
            source,
            kind,
            root_end,
            values,
            arguments,
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
            (false, true, false) | (false, false, true) => Ok(Kind::Response),
            (false, false, false) => Err(FlawKind::MethodMissing),
            (true, _, _) => Err(FlawKind::MethodAndResult),
            (false, true, true) => Err(FlawKind::ResultAndError),
        }
    }

    /// The flaw with the id of the message, if there is one and no more than one.
    fn echoing(&self, flaw: Flaw, body: &[u8]) -> Flaw {
        let source = match self.keep {
            Keep::Nothing => body,
            Keep::Copies => &self.kept,
        };
        let id = self.id.filter(|_| self.ids == 1);
        let id = id.and_then(|value| source.get(value.start..value.end));
        flaw.of_message(id.map(Bytes::copy_from_slice))
    }

    /// Remembers a flaw, unless there is one already.
    #[cold]
    fn flaw(&mut self, kind: FlawKind, at: usize, detail: Detail) {
        if self.flaw.is_none() {
            self.flaw = Some(Flaw::new(kind, at, detail));
        }
    }
}

/// The tokens as they come.
impl Reader for Builder {
    #[inline]
    fn key(&mut self, token: Token<'_>) {
        let mut carry = self.carried();
        self.place = self.read_key(token, &mut carry).unwrap_or(Place::Other);
    }

    #[inline]
    fn scalar(&mut self, kind: Scalar, token: Token<'_>) {
        let mut carry = self.carried();
        match self.place {
            Place::Root => self.flaw(FlawKind::RootScalar, token.start, Detail::None),
            Place::Known(Key::Arguments) => {
                if let Some(root) = self.paths.root() {
                    self.argument(root, kind, token, &mut carry);
                }
            }
            Place::Known(key) => self.known(key, kind, token, &mut carry),
            Place::Argument(node) => self.argument(node, kind, token, &mut carry),
            Place::Other => {}
        }
    }

    #[inline]
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

    #[inline]
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

/// What the tokens mean.
impl Builder {
    /// What was carried of the token that is now complete: mostly nothing.
    #[inline]
    fn carried(&mut self) -> Vec<u8> {
        if self.carry.is_empty() {
            Vec::new()
        } else {
            mem::take(&mut self.carry)
        }
    }

    /// Finds out what the next value is the value of, and whether the key may stand here.
    fn read_key(&mut self, token: Token<'_>, carry: &mut Vec<u8>) -> Option<Place> {
        let level = self.levels.last_mut()?;
        level.keys += 1;
        let Level {
            object, keys, mark, ..
        } = *level;
        let Bounds {
            keys_max,
            name_bytes_max,
            ..
        } = self.bounds;
        if token.end - token.start > name_bytes_max + 2 {
            let detail = Detail::object(object.name(), name_bytes_max);
            self.flaw(FlawKind::TooLong, token.start, detail);
            return None;
        }
        let raw = assemble(carry, token);
        let Some(name) = key_name(raw, token.escaped) else {
            self.flaw(
                FlawKind::LoneSurrogate,
                token.start,
                Detail::object(object.name(), 0),
            );
            return None;
        };
        let place = match object {
            Strict::Known(object) => object.key(&name).map(Place::Known),
            Strict::Argument(node) => self.paths.member(node, &name).map(Place::Argument),
        };
        let is_new = match place {
            Some(Place::Known(key)) => self.values.of(key).is_none(),
            _ => keys > keys_max || self.seen.insert(mark, &name),
        };
        if keys > keys_max {
            let detail = Detail::object(object.name(), keys_max);
            self.flaw(FlawKind::TooManyKeys, token.start, detail);
        }
        if !is_new {
            let detail = Detail::key(object.name(), &name, "");
            self.flaw(FlawKind::RepeatedKey, token.start, detail);
        }
        if let (None, Strict::Known(object)) = (place, object)
            && let Some(known) = object.case_variant(&name)
        {
            let detail = Detail::key(object.name(), &name, known);
            self.flaw(FlawKind::CaseVariant, token.start, detail);
        }
        place
    }

    /// A scalar at a key that we decide on.
    fn known(&mut self, key: Key, kind: Scalar, token: Token<'_>, carry: &mut Vec<u8>) {
        let json = Json::from(kind);
        if let Some(offence) = offence(key, json, kind == Scalar::Integer) {
            self.flaw(offence, token.start, Detail::None);
        } else if let (Some(bound), Json::String | Json::Number) = (self.limit(key), json) {
            return self.read(key, json, bound, token, carry);
        }
        let end = if self.keep == Keep::Nothing {
            token.end
        } else {
            token.start
        };
        self.values.set(
            key,
            Value {
                json,
                start: token.start,
                end,
            },
        );
    }

    /// A string or number that we read.
    fn read(&mut self, key: Key, json: Json, bound: usize, token: Token<'_>, carry: &mut Vec<u8>) {
        self.ids += u32::from(key == Key::Id);
        let quotes = if json == Json::String { 2 } else { 0 };
        if token.end - token.start > bound + quotes {
            let detail = Detail::Value {
                key: key.name(),
                bound,
            };
            self.flaw(FlawKind::TooLong, token.start, detail);
            return self.values.set(
                key,
                Value {
                    json,
                    start: 0,
                    end: 0,
                },
            );
        }
        let raw = assemble(carry, token);
        let decides = !matches!(key, Key::Id | Key::ProgressToken) && json == Json::String;
        if token.escaped && decides && text::decode(raw).is_none() {
            let detail = Detail::Value {
                key: key.name(),
                bound: 0,
            };
            self.flaw(FlawKind::LoneSurrogate, token.start, detail);
        }
        if key == Key::Jsonrpc && text::decode(raw).as_deref() != Some("2.0") {
            self.flaw(FlawKind::Version, token.start, Detail::None);
        }
        // Behind a flaw only the id is of use: what else is kept must not grow with repeats.
        if self.flaw.is_some() && (key != Key::Id || self.ids > 1) {
            return self.values.set(
                key,
                Value {
                    json,
                    start: 0,
                    end: 0,
                },
            );
        }
        let value = self.placed(json, token.start, raw);
        if key == Key::Id {
            self.id = Some(value);
        }
        self.values.set(key, value);
    }

    /// A scalar in an object that a path looks into.
    fn argument(&mut self, node: NodeId, kind: Scalar, token: Token<'_>, carry: &mut Vec<u8>) {
        if self.paths.ending_at(node).is_empty() {
            return;
        }
        let json = Json::from(kind);
        let value = match self.keep {
            Keep::Nothing => Value {
                json,
                start: token.start,
                end: token.end,
            },
            // Two more bytes for the quotes, if it has any.
            Keep::Copies if token.end - token.start > self.bounds.name_bytes_max + 2 => Value {
                json,
                start: 0,
                end: 0,
            },
            Keep::Copies => {
                let raw = assemble(carry, token);
                self.placed(json, token.start, raw)
            }
        };
        self.set_arguments(node, value);
    }

    /// An object or array at a key that we decide on; says whether we read it from within.
    fn open_known(&mut self, key: Key, value: Value) -> Option<Strict> {
        if let Some(offence) = offence(key, value.json, false) {
            self.flaw(offence, value.start, Detail::None);
        }
        self.values.set(key, value);
        match key {
            Key::Params => Some(Strict::Known(Object::Params)),
            Key::Meta => Some(Strict::Known(Object::Meta)),
            Key::Arguments => self.open_argument(self.paths.root()?, value),
            _ => None,
        }
    }

    /// The same for an argument.
    fn open_argument(&mut self, node: NodeId, value: Value) -> Option<Strict> {
        self.set_arguments(node, value);
        self.paths
            .looks_into(node)
            .then_some(Strict::Argument(node))
    }

    fn set_arguments(&mut self, node: NodeId, value: Value) {
        for &path in self.paths.ending_at(node) {
            if let Some(argument) = self.arguments.get_mut(path) {
                *argument = Some(value);
            }
        }
    }

    /// A value whose bytes will be found in the body, or else in a copy made now.
    fn placed(&mut self, json: Json, start: usize, raw: &[u8]) -> Value {
        match self.keep {
            Keep::Nothing => Value {
                json,
                start,
                end: start + raw.len(),
            },
            Keep::Copies => {
                let start = self.kept.len();
                self.kept.extend_from_slice(raw);
                Value {
                    json,
                    start,
                    end: self.kept.len(),
                }
            }
        }
    }

    /// How long a value may be that we read; none for those of which we note the type alone.
    fn limit(&self, key: Key) -> Option<usize> {
        match key {
            Key::Id | Key::ProgressToken => Some(self.bounds.id_bytes_max),
            Key::Method => Some(self.bounds.method_bytes_max),
            Key::Jsonrpc
            | Key::Name
            | Key::Uri
            | Key::TaskId
            | Key::Cursor
            | Key::ProtocolVersion
            | Key::MetaProtocolVersion => Some(self.bounds.name_bytes_max),
            Key::Params
            | Key::Result
            | Key::Error
            | Key::Meta
            | Key::Arguments
            | Key::InputResponses
            | Key::RequestState
            | Key::ClientCapabilities
            | Key::ClientInfo
            | Key::LogLevel => None,
        }
    }
}

impl Strict {
    /// How a sentence calls the object.
    fn name(self) -> &'static str {
        match self {
            Strict::Known(object) => object.name(),
            Strict::Argument(_) => "the arguments",
        }
    }
}

impl From<Scalar> for Json {
    fn from(kind: Scalar) -> Json {
        match kind {
            Scalar::Null => Json::Null,
            Scalar::Boolean => Json::Boolean,
            Scalar::Integer | Scalar::Decimal => Json::Number,
            Scalar::String => Json::String,
        }
    }
}

/// What is wrong with the type of a value, if anything: most mistakes are for others to judge.
fn offence(key: Key, json: Json, is_integer: bool) -> Option<FlawKind> {
    match (key, json) {
        (Key::Jsonrpc | Key::Method | Key::Id, Json::String) => None,
        (Key::Id, Json::Number) if is_integer => None,
        (Key::Params, Json::Object | Json::Null) => None,
        (Key::Jsonrpc, _) => Some(FlawKind::Version),
        (Key::Method, _) => Some(FlawKind::MethodType),
        (Key::Id, _) => Some(FlawKind::IdType),
        (Key::Params, _) => Some(FlawKind::ParamsType),
        _ => None,
    }
}

/// The whole token, though chunks may have cut it: what was carried, and the rest.
#[inline]
fn assemble<'a>(carry: &'a mut Vec<u8>, token: Token<'a>) -> &'a [u8] {
    if carry.is_empty() {
        return token.bytes;
    }
    carry.extend_from_slice(token.bytes);
    carry
}

/// The name of a key without its quotes and escape sequences.
#[inline]
fn key_name(raw: &[u8], escaped: bool) -> Option<Cow<'_, [u8]>> {
    if escaped {
        return Some(Cow::Owned(text::decode(raw)?.into_owned().into_bytes()));
    }
    raw.get(1..raw.len() - 1).map(Cow::Borrowed)
}
