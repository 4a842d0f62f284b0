//! What keys and values must be, and which of them are read.

use std::borrow::Cow;
use std::mem;

use super::{Builder, Keep, Level, Place, Strict};
use crate::protocol::frame::flaw::{Detail, FlawKind};
use crate::protocol::frame::key::{Key, Object};
use crate::protocol::frame::path::NodeId;
use crate::protocol::frame::{Json, Value, text};
use crate::protocol::lexer::{Scalar, Token};

impl Builder {
    /// Finds out what the next value is the value of, and whether the key may stand here.
    pub(super) fn read_key(&mut self, token: Token<'_>) -> Option<Place> {
        let mut carry = self.carried();
        let level = self.levels.last_mut()?;
        level.keys += 1;
        let Level {
            object, keys, mark, ..
        } = *level;
        let keys_max = self.bounds.keys_max;
        let word_bytes_max = self.bounds.word_bytes_max();
        if token.end - token.start > word_bytes_max + 2 {
            let detail = Detail::object(object.name(), word_bytes_max);
            self.flaw(FlawKind::TooLong, token.start, detail);
            return None;
        }
        let Some(name) = key_name(assemble(&mut carry, token), token.escaped) else {
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
        // Behind a flaw only the id is still of use; and no key beyond the limit is remembered.
        if self.flaw.is_some() {
            return place;
        }
        if keys > keys_max {
            let detail = Detail::object(object.name(), keys_max);
            self.flaw(FlawKind::TooManyKeys, token.start, detail);
            return place;
        }
        let is_new = match place {
            Some(Place::Known(key)) => self.values.of(key).is_none(),
            _ => self.seen.insert(mark, &name),
        };
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
    pub(super) fn known(&mut self, key: Key, kind: Scalar, token: Token<'_>) {
        let json = Json::from(kind);
        let value = if let Some(offence) = offence(key, json, kind == Scalar::Integer) {
            self.flaw(offence, token.start, Detail::None);
            Value::unread(json)
        } else if let (Some(bound), Json::String | Json::Number) = (self.limit(key), json) {
            self.read(key, json, bound, token)
        } else if self.keep == Keep::Nothing {
            Value {
                json,
                start: token.start,
                end: token.end,
            }
        } else {
            Value::unread(json)
        };
        self.values.set(key, value);
    }

    /// A string or number that we read.
    fn read(&mut self, key: Key, json: Json, bound: usize, token: Token<'_>) -> Value {
        let mut carry = self.carried();
        let is_id = key == Key::Id;
        self.ids += u32::from(is_id);
        let quotes = if json == Json::String { 2 } else { 0 };
        if token.end - token.start > bound + quotes {
            let detail = Detail::Value {
                key: key.name(),
                bound,
            };
            self.flaw(FlawKind::TooLong, token.start, detail);
            return Value::unread(json);
        }
        let raw = assemble(&mut carry, token);
        // An id or a progress token is only ever passed on as it is written.
        let is_text = json == Json::String && !is_id && key != Key::ProgressToken;
        let decoded = (is_text && token.escaped).then(|| text::decode(raw));
        if let Some(None) = decoded {
            let detail = Detail::Value {
                key: key.name(),
                bound: 0,
            };
            self.flaw(FlawKind::LoneSurrogate, token.start, detail);
        }
        if key == Key::Jsonrpc && raw != b"\"2.0\"" && decoded.flatten().as_deref() != Some("2.0") {
            self.flaw(FlawKind::Version, token.start, Detail::None);
        }
        let value = self.placed(json, token.start, raw, is_id && self.ids == 1);
        if is_id {
            self.id = Some(value);
        }
        value
    }

    /// A scalar in an object that a path looks into.
    pub(super) fn argument(&mut self, node: NodeId, kind: Scalar, token: Token<'_>) {
        let mut carry = self.carried();
        if self.paths.ending_at(node).is_empty() {
            return;
        }
        let json = Json::from(kind);
        let quotes = if json == Json::String { 2 } else { 0 };
        let is_long = token.end - token.start > self.bounds.name_bytes_max + quotes;
        let value = if is_long && self.keep == Keep::Copies {
            Value::unread(json)
        } else {
            self.placed(json, token.start, assemble(&mut carry, token), false)
        };
        self.set_arguments(node, value);
    }

    /// An object or array at a key that we decide on; says whether we read it from within.
    pub(super) fn open_known(&mut self, key: Key, value: Value) -> Option<Strict> {
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

    /// The same at a node of the argument paths.
    pub(super) fn open_argument(&mut self, node: NodeId, value: Value) -> Option<Strict> {
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

    /// A value whose bytes will be found in the body, or else in a copy made now. Behind a
    /// flaw only the id is still of use, and copies must not grow with repeated keys.
    fn placed(&mut self, json: Json, start: usize, raw: &[u8], is_sole_id: bool) -> Value {
        match self.keep {
            Keep::Nothing => Value {
                json,
                start,
                end: start + raw.len(),
            },
            Keep::Copies if self.flaw.is_some() && !is_sole_id => Value::unread(json),
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
    pub(super) fn limit(&self, key: Key) -> Option<usize> {
        match key {
            Key::Id | Key::ProgressToken => Some(self.bounds.id_bytes_max),
            Key::Method => Some(self.bounds.method_bytes_max),
            Key::Name | Key::Uri | Key::TaskId | Key::Cursor => Some(self.bounds.name_bytes_max),
            Key::Jsonrpc | Key::ProtocolVersion | Key::MetaProtocolVersion => {
                Some(self.bounds.word_bytes_max())
            }
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

    /// What was carried of the token that is now complete: mostly nothing.
    #[inline]
    pub(super) fn carried(&mut self) -> Vec<u8> {
        if self.carry.is_empty() {
            Vec::new()
        } else {
            mem::take(&mut self.carry)
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

impl Value {
    /// A value of which only the type is known.
    fn unread(json: Json) -> Value {
        Value {
            json,
            start: 0,
            end: 0,
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
