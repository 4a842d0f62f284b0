//! The keys that we decide on, and the memory of the keys that an object had.

use std::hash::{BuildHasher, RandomState};

use smallvec::SmallVec;

use super::Value;
use crate::protocol::members::folds_to;

/// A key that we decide on. Each stands in one object only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Name,
    Uri,
    TaskId,
    Cursor,
    ProtocolVersion,
    Meta,
    Arguments,
    InputResponses,
    RequestState,
    MetaProtocolVersion,
    ClientCapabilities,
    ClientInfo,
    LogLevel,
    ProgressToken,
}

const KEYS: usize = Key::ProgressToken as usize + 1;

/// An object whose keys we decide on, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Object {
    Envelope,
    Params,
    Meta,
}

const ENVELOPE: [Key; 6] = [
    Key::Jsonrpc,
    Key::Id,
    Key::Method,
    Key::Params,
    Key::Result,
    Key::Error,
];

const PARAMS: [Key; 9] = [
    Key::Name,
    Key::Uri,
    Key::TaskId,
    Key::Cursor,
    Key::ProtocolVersion,
    Key::Meta,
    Key::Arguments,
    Key::InputResponses,
    Key::RequestState,
];

const META: [Key; 5] = [
    Key::MetaProtocolVersion,
    Key::ClientCapabilities,
    Key::ClientInfo,
    Key::LogLevel,
    Key::ProgressToken,
];

impl Object {
    /// The key that has exactly this name. (Patterns, because the compiler turns them into a
    /// few comparisons of words; a search in the tables would call a function for each.)
    #[inline]
    pub(super) fn key(self, name: &[u8]) -> Option<Key> {
        let key = match (self, name) {
            (Object::Envelope, b"jsonrpc") => Key::Jsonrpc,
            (Object::Envelope, b"id") => Key::Id,
            (Object::Envelope, b"method") => Key::Method,
            (Object::Envelope, b"params") => Key::Params,
            (Object::Envelope, b"result") => Key::Result,
            (Object::Envelope, b"error") => Key::Error,
            (Object::Params, b"name") => Key::Name,
            (Object::Params, b"uri") => Key::Uri,
            (Object::Params, b"taskId") => Key::TaskId,
            (Object::Params, b"cursor") => Key::Cursor,
            (Object::Params, b"protocolVersion") => Key::ProtocolVersion,
            (Object::Params, b"_meta") => Key::Meta,
            (Object::Params, b"arguments") => Key::Arguments,
            (Object::Params, b"inputResponses") => Key::InputResponses,
            (Object::Params, b"requestState") => Key::RequestState,
            (Object::Meta, b"progressToken") => Key::ProgressToken,
            (Object::Meta, _) => match name.strip_prefix(b"io.modelcontextprotocol/")? {
                b"protocolVersion" => Key::MetaProtocolVersion,
                b"clientCapabilities" => Key::ClientCapabilities,
                b"clientInfo" => Key::ClientInfo,
                b"logLevel" => Key::LogLevel,
                _ => return None,
            },
            _ => return None,
        };
        Some(key)
    }

    /// The name of the key for which a reader that ignores case would take this one, though it
    /// has another name.
    pub(super) fn case_variant(self, name: &[u8]) -> Option<&'static str> {
        let name = std::str::from_utf8(name).ok()?;
        let known = self.keys().iter().map(|key| key.name());
        known
            .into_iter()
            .find(|known| *known != name && folds_to(name, known))
    }

    /// How a sentence calls the object.
    pub(super) fn name(self) -> &'static str {
        match self {
            Object::Envelope => "the message",
            Object::Params => "params",
            Object::Meta => "params._meta",
        }
    }

    fn keys(self) -> &'static [Key] {
        match self {
            Object::Envelope => &ENVELOPE,
            Object::Params => &PARAMS,
            Object::Meta => &META,
        }
    }
}

impl Key {
    /// The key as the specification writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Key::Jsonrpc => "jsonrpc",
            Key::Id => "id",
            Key::Method => "method",
            Key::Params => "params",
            Key::Result => "result",
            Key::Error => "error",
            Key::Name => "name",
            Key::Uri => "uri",
            Key::TaskId => "taskId",
            Key::Cursor => "cursor",
            Key::ProtocolVersion => "protocolVersion",
            Key::Meta => "_meta",
            Key::Arguments => "arguments",
            Key::InputResponses => "inputResponses",
            Key::RequestState => "requestState",
            Key::MetaProtocolVersion => "io.modelcontextprotocol/protocolVersion",
            Key::ClientCapabilities => "io.modelcontextprotocol/clientCapabilities",
            Key::ClientInfo => "io.modelcontextprotocol/clientInfo",
            Key::LogLevel => "io.modelcontextprotocol/logLevel",
            Key::ProgressToken => "progressToken",
        }
    }
}

/// The value of each key that we decide on, where there was one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values([Option<Value>; KEYS]);

impl Values {
    #[inline]
    pub(super) fn none() -> Values {
        Values([None; KEYS])
    }

    #[inline]
    pub(super) fn of(&self, key: Key) -> Option<Value> {
        self.0[key as usize]
    }

    #[inline]
    pub(super) fn set(&mut self, key: Key, value: Value) {
        self.0[key as usize] = Some(value);
    }

    #[inline]
    pub(super) fn set_end(&mut self, key: Key, end: usize) {
        if let Some(value) = &mut self.0[key as usize] {
            value.end = end;
        }
    }
}

/// Remembers which keys the open objects had, without the keys: two that differ and yet have
/// the same digest are as good as impossible, and would only be refused. The digest is keyed
/// by a secret of the process, so that nobody can compute such a pair.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    digests: SmallVec<[u64; 16]>,
    hasher: RandomState,
}

impl Seen {
    pub(super) fn new() -> Seen {
        Seen {
            digests: SmallVec::new(),
            hasher: RandomState::new(),
        }
    }

    /// Where the keys of an object that begins now will start.
    #[inline]
    pub(super) fn mark(&self) -> usize {
        self.digests.len()
    }

    /// Remembers a key of the object that began at the mark; false if it had it already.
    #[inline]
    pub(super) fn insert(&mut self, mark: usize, name: &[u8]) -> bool {
        let digest = self.hasher.hash_one(name);
        let new = !self.digests[mark..].contains(&digest);
        if new {
            self.digests.push(digest);
        }
        new
    }

    /// Forgets the object that began at the mark, and all within it.
    #[inline]
    pub(super) fn forget(&mut self, mark: usize) {
        self.digests.truncate(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_found_by_its_exact_name_only() {
        for object in [Object::Envelope, Object::Params, Object::Meta] {
            for key in object.keys() {
                let name = key.name();
                assert_eq!(object.key(name.as_bytes()), Some(*key));
                assert_eq!(object.key(name.to_uppercase().as_bytes()), None);
                assert_eq!(object.case_variant(name.as_bytes()), None);
                let variant = object.case_variant(name.to_uppercase().as_bytes());
                assert_eq!(variant, Some(name));
            }
        }
    }

    #[test]
    fn case_is_folded_as_go_folds_it() {
        let variant = |name: &str| Object::Params.case_variant(name.as_bytes());
        assert_eq!(variant("taskid"), Some("taskId"));
        assert_eq!(variant("ta\u{17F}\u{212A}Id"), Some("taskId"));
        assert_eq!(variant("argument\u{17F}"), Some("arguments"));
        // The dotless and the dotted i belong to no ASCII letter, nor do fullwidth letters.
        assert_eq!(variant("ur\u{131}"), None);
        assert_eq!(variant("UR\u{130}"), None);
        assert_eq!(variant("\u{FF4E}ame"), None);
        assert_eq!(variant("names"), None);
    }

    #[test]
    fn objects_remember_their_own_keys() {
        let mut seen = Seen::new();
        let outer = seen.mark();
        assert!(seen.insert(outer, b"a"));
        let inner = seen.mark();
        assert!(seen.insert(inner, b"a"));
        assert!(!seen.insert(inner, b"a"));
        seen.forget(inner);
        assert!(seen.insert(outer, b"b"));
        assert!(!seen.insert(outer, b"a"));
    }
}
