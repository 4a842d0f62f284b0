//! The keys that we decide on, and the memory of the keys that an object had.

use std::hash::{BuildHasher, RandomState};

use smallvec::SmallVec;

use super::Value;

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

const ENVELOPE: [(&str, Key); 6] = [
    ("jsonrpc", Key::Jsonrpc),
    ("id", Key::Id),
    ("method", Key::Method),
    ("params", Key::Params),
    ("result", Key::Result),
    ("error", Key::Error),
];

const PARAMS: [(&str, Key); 9] = [
    ("name", Key::Name),
    ("uri", Key::Uri),
    ("taskId", Key::TaskId),
    ("cursor", Key::Cursor),
    ("protocolVersion", Key::ProtocolVersion),
    ("_meta", Key::Meta),
    ("arguments", Key::Arguments),
    ("inputResponses", Key::InputResponses),
    ("requestState", Key::RequestState),
];

const META: [(&str, Key); 5] = [
    (
        "io.modelcontextprotocol/protocolVersion",
        Key::MetaProtocolVersion,
    ),
    (
        "io.modelcontextprotocol/clientCapabilities",
        Key::ClientCapabilities,
    ),
    ("io.modelcontextprotocol/clientInfo", Key::ClientInfo),
    ("io.modelcontextprotocol/logLevel", Key::LogLevel),
    ("progressToken", Key::ProgressToken),
];

impl Object {
    /// The key that has exactly this name.
    #[inline]
    pub(super) fn key(self, name: &[u8]) -> Option<Key> {
        let named = |(known, _): &&(&str, Key)| known.as_bytes() == name;
        self.keys().iter().find(named).map(|(_, key)| *key)
    }

    /// The name of the key for which a reader that ignores case would take this one, though it
    /// has another name.
    pub(super) fn case_variant(self, name: &[u8]) -> Option<&'static str> {
        let name = std::str::from_utf8(name).ok()?;
        let alike = |(known, _): &&(&str, Key)| *known != name && folds_to(name, known);
        self.keys().iter().find(alike).map(|(known, _)| *known)
    }

    /// How a sentence calls the object.
    pub(super) fn name(self) -> &'static str {
        match self {
            Object::Envelope => "the message",
            Object::Params => "params",
            Object::Meta => "params._meta",
        }
    }

    fn keys(self) -> &'static [(&'static str, Key)] {
        match self {
            Object::Envelope => &ENVELOPE,
            Object::Params => &PARAMS,
            Object::Meta => &META,
        }
    }
}

impl Key {
    /// How a sentence calls the key.
    pub(super) fn name(self) -> &'static str {
        let all = ENVELOPE.iter().chain(&PARAMS).chain(&META);
        all.into_iter()
            .find(|(_, key)| *key == self)
            .map_or("", |(name, _)| name)
    }
}

/// Whether Go's encoding/json takes `name` for the ASCII text `known`: it compares without
/// case, and beyond ASCII two characters fold into letters, the long s and the Kelvin sign.
fn folds_to(name: &str, known: &str) -> bool {
    let folded = name.chars().map(|character| match character {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(known
        .chars()
        .map(|character| character.to_ascii_lowercase()))
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
            for (name, key) in object.keys() {
                assert_eq!(object.key(name.as_bytes()), Some(*key));
                assert_eq!(object.key(name.to_uppercase().as_bytes()), None);
                assert_eq!(object.case_variant(name.as_bytes()), None);
                assert_eq!(
                    object.case_variant(name.to_uppercase().as_bytes()),
                    Some(*name)
                );
                assert_eq!(key.name(), *name);
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
