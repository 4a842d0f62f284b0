//! The same judgement by other means: serde_json decides what is JSON and decodes every text,
//! and straightforward code on its results says what a message may be.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use weirgate::protocol::frame::{Bounds, FlawKind, Json, Kind, Shape};

/// What a message says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    /// name, uri, taskId, cursor, protocolVersion, and the version of `_meta`: absent, of the
    /// wrong type, or a text.
    pub(crate) texts: [Option<Option<String>>; 6],
    pub(crate) meta: Shape,
    pub(crate) client_capabilities: Shape,
    pub(crate) has_input_responses: bool,
    pub(crate) has_request_state: bool,
    pub(crate) progress_token: Option<String>,
    pub(crate) arguments: Vec<Option<(Json, String)>>,
    pub(crate) root_end: usize,
}

/// What is to be said of a body.
pub(crate) enum Judgement {
    /// It is no JSON.
    NotJson,
    /// It is JSON and has these flaws, and this id to echo.
    Flawed(BTreeSet<&'static str>, Option<String>),
    /// It is a message.
    Message(Box<Facts>),
}

type Members<'a> = Vec<(Vec<u8>, &'a RawValue)>;

const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
const PARAMS: [&str; 9] = [
    "name",
    "uri",
    "taskId",
    "cursor",
    "protocolVersion",
    "_meta",
    "arguments",
    "inputResponses",
    "requestState",
];
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META: [&str; 5] = [
    VERSION,
    CAPABILITIES,
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
    "progressToken",
];

/// Whether serde_json takes the bytes for JSON in UTF-8.
pub(crate) fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(body).is_ok()
}

/// Judges a body.
pub(crate) fn judge(body: &[u8], bounds: &Bounds, paths: &[&[&str]]) -> Judgement {
    let Ok(root) = serde_json::from_slice::<&RawValue>(body) else {
        return Judgement::NotJson;
    };
    let mut judge = Judge {
        bounds,
        paths,
        flaws: BTreeSet::new(),
    };
    if depth(root.get()) > bounds.depth_max as usize {
        judge.flaw(FlawKind::TooDeep);
    }
    let root_end = body.len()
        - body
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
    let (mut message, mut id) = (None, None);
    match json(root) {
        Json::Object => {
            message = judge.message(members(root), root_end);
            id = sole_id(&members(root), bounds);
        }
        Json::Array => judge.flaw(FlawKind::RootArray),
        _ => judge.flaw(FlawKind::RootScalar),
    }
    match message {
        Some(facts) if judge.flaws.is_empty() => Judgement::Message(Box::new(facts)),
        _ => Judgement::Flawed(judge.flaws, id),
    }
}

struct Judge<'a> {
    bounds: &'a Bounds,
    paths: &'a [&'a [&'a str]],
    flaws: BTreeSet<&'static str>,
}

impl Judge<'_> {
    fn flaw(&mut self, kind: FlawKind) {
        self.flaws.insert(kind.as_str());
    }

    fn no_kind(&mut self, flaw: FlawKind) -> Option<Kind> {
        self.flaw(flaw);
        None
    }

    fn message(&mut self, envelope: Members<'_>, root_end: usize) -> Option<Facts> {
        self.keys(&envelope, &ENVELOPE);
        let get = |key: &str| value_of(&envelope, key);
        match get("jsonrpc").map(text) {
            Some(Some(version)) if version == "2.0" => {}
            _ => self.flaw(FlawKind::Version),
        }
        for id in envelope
            .iter()
            .filter(|(key, _)| key == b"id")
            .map(|(_, id)| *id)
        {
            if !is_id(id) {
                self.flaw(FlawKind::IdType);
            } else {
                self.length(id, self.bounds.id_bytes_max);
            }
        }
        for method in envelope
            .iter()
            .filter(|(key, _)| key == b"method")
            .map(|(_, method)| *method)
        {
            if json(method) != Json::String {
                self.flaw(FlawKind::MethodType);
            } else {
                self.decided(method, self.bounds.method_bytes_max);
            }
        }
        let kind = match (get("method"), get("id"), get("result"), get("error")) {
            (Some(_), Some(_), None, None) => Some(Kind::Request),
            (Some(_), None, None, None) => Some(Kind::Notification),
            (None, Some(_), Some(_), None) | (None, Some(_), None, Some(_)) => Some(Kind::Response),
            (None, None, Some(_), None) | (None, None, None, Some(_)) => {
                self.no_kind(FlawKind::IdType)
            }
            (None, _, None, None) => self.no_kind(FlawKind::MethodMissing),
            (Some(_), _, _, _) => self.no_kind(FlawKind::MethodAndResult),
            (None, _, Some(_), Some(_)) => self.no_kind(FlawKind::ResultAndError),
        };
        let mut facts = Facts {
            kind: kind.unwrap_or(Kind::Request),
            id: get("id").map(|id| id.get().to_owned()),
            method: get("method").and_then(text),
            texts: [const { None }; 6],
            meta: Shape::Absent,
            client_capabilities: Shape::Absent,
            has_input_responses: false,
            has_request_state: false,
            progress_token: None,
            arguments: vec![None; self.paths.len()],
            root_end,
        };
        for params in envelope
            .iter()
            .filter(|(key, _)| key == b"params")
            .map(|(_, params)| *params)
        {
            match json(params) {
                Json::Object => self.params(members(params), &mut facts),
                Json::Null => {}
                _ => self.flaw(FlawKind::ParamsType),
            }
        }
        kind.map(|_| facts)
    }

    fn params(&mut self, params: Members<'_>, facts: &mut Facts) {
        self.keys(&params, &PARAMS);
        for (key, value) in &params {
            let Some(index) = PARAMS.iter().position(|known| known.as_bytes() == key) else {
                continue;
            };
            match PARAMS[index] {
                "_meta" => {
                    facts.meta = shape(value);
                    if facts.meta == Shape::Object {
                        self.meta(members(value), facts);
                    }
                }
                "arguments" => self.arguments(value, facts),
                "inputResponses" => facts.has_input_responses = true,
                "requestState" => facts.has_request_state = true,
                "protocolVersion" => {
                    facts.texts[index] = Some(self.decided(value, self.bounds.word_bytes_max()));
                }
                _ => facts.texts[index] = Some(self.decided(value, self.bounds.name_bytes_max)),
            }
        }
    }

    fn meta(&mut self, meta: Members<'_>, facts: &mut Facts) {
        self.keys(&meta, &META);
        for (key, value) in &meta {
            match key.as_slice() {
                key if key == VERSION.as_bytes() => {
                    facts.texts[5] = Some(self.decided(value, self.bounds.word_bytes_max()));
                }
                key if key == CAPABILITIES.as_bytes() => facts.client_capabilities = shape(value),
                b"progressToken" if matches!(json(value), Json::String | Json::Number) => {
                    self.length(value, self.bounds.id_bytes_max);
                    facts.progress_token = Some(value.get().to_owned());
                }
                _ => {}
            }
        }
    }

    /// Follows the paths.
    fn arguments(&mut self, value: &RawValue, facts: &mut Facts) {
        let mut stack = vec![(value, Vec::<&str>::new())];
        while let Some((value, here)) = stack.pop() {
            for (index, path) in self.paths.iter().enumerate() {
                if *path == here {
                    facts.arguments[index] = Some((json(value), value.get().to_owned()));
                }
            }
            let onward: BTreeSet<&str> = self
                .paths
                .iter()
                .filter(|path| path.len() > here.len() && path.starts_with(&here))
                .map(|path| path[here.len()])
                .collect();
            if onward.is_empty() || json(value) != Json::Object {
                continue;
            }
            let members = members(value);
            self.keys(&members, &[]);
            for step in onward {
                if let Some(value) = value_of(&members, step) {
                    let there = here.iter().copied().chain([step]).collect();
                    stack.push((value, there));
                }
            }
        }
    }

    /// A text that decides: decoded if it is a string, and then within its bound.
    fn decided(&mut self, value: &RawValue, bound: usize) -> Option<String> {
        if json(value) != Json::String {
            return None;
        }
        self.length(value, bound);
        let decoded = text(value);
        if decoded.is_none() {
            self.flaw(FlawKind::LoneSurrogate);
        }
        decoded
    }

    fn length(&mut self, value: &RawValue, bound: usize) {
        if written(value) > bound {
            self.flaw(FlawKind::TooLong);
        }
    }

    fn keys(&mut self, members: &Members<'_>, known: &[&str]) {
        if members.len() > self.bounds.keys_max {
            self.flaw(FlawKind::TooManyKeys);
        }
        let mut seen = BTreeSet::new();
        for (key, _) in members {
            if !seen.insert(key) {
                self.flaw(FlawKind::RepeatedKey);
            }
            let Ok(key) = std::str::from_utf8(key) else {
                self.flaw(FlawKind::LoneSurrogate);
                continue;
            };
            let folded = key.replace('\u{17F}', "s").replace('\u{212A}', "k");
            if !known.contains(&key)
                && known
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(&folded))
            {
                self.flaw(FlawKind::CaseVariant);
            }
        }
    }
}

fn sole_id(envelope: &Members<'_>, bounds: &Bounds) -> Option<String> {
    let ids: Vec<_> = envelope
        .iter()
        .filter(|(key, id)| key == b"id" && is_id(id))
        .collect();
    match ids[..] {
        [(_, id)] if written(id) <= bounds.id_bytes_max => Some(id.get().to_owned()),
        _ => None,
    }
}

fn is_id(value: &RawValue) -> bool {
    match json(value) {
        Json::String => true,
        Json::Number => value
            .get()
            .trim_start_matches('-')
            .bytes()
            .all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// How long a value is as it is written, without quotes.
fn written(value: &RawValue) -> usize {
    let quotes = if json(value) == Json::String { 2 } else { 0 };
    value.get().len() - quotes
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

fn value_of<'a>(members: &Members<'a>, key: &str) -> Option<&'a RawValue> {
    members
        .iter()
        .find(|(name, _)| name == key.as_bytes())
        .map(|(_, value)| *value)
}

fn shape(value: &RawValue) -> Shape {
    if json(value) == Json::Object {
        Shape::Object
    } else {
        Shape::WrongType
    }
}

fn json(value: &RawValue) -> Json {
    match value.get().as_bytes()[0] {
        b'{' => Json::Object,
        b'[' => Json::Array,
        b'"' => Json::String,
        b't' | b'f' => Json::Boolean,
        b'n' => Json::Null,
        _ => Json::Number,
    }
}

/// How many objects and arrays lie within one another.
pub(crate) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The members of an object in their order, none of them lost. The keys are bytes, because
/// serde_json decodes half a surrogate pair into bytes but not into a string.
fn members(object: &RawValue) -> Members<'_> {
    struct Object<'a>(Members<'a>);
    struct Key(Vec<u8>);
    struct ObjectVisitor;
    struct KeyVisitor;

    impl<'de> Visitor<'de> for KeyVisitor {
        type Value = Key;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a key")
        }

        fn visit_bytes<E>(self, key: &[u8]) -> Result<Key, E> {
            Ok(Key(key.to_vec()))
        }

        fn visit_str<E>(self, key: &str) -> Result<Key, E> {
            Ok(Key(key.as_bytes().to_vec()))
        }
    }

    impl<'de> Deserialize<'de> for Key {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
            deserializer.deserialize_bytes(KeyVisitor)
        }
    }

    impl<'de> Visitor<'de> for ObjectVisitor {
        type Value = Object<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
            let mut members = Vec::new();
            while let Some((key, value)) = map.next_entry::<Key, &RawValue>()? {
                members.push((key.0, value));
            }
            Ok(Object(members))
        }
    }

    impl<'de> Deserialize<'de> for Object<'de> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<'de>, D::Error> {
            deserializer.deserialize_map(ObjectVisitor)
        }
    }

    serde_json::from_str::<Object<'_>>(object.get())
        .expect("an object that was read before")
        .0
}
