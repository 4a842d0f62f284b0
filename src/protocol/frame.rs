//! One message, read once: the bytes as they came, and where in them stands what we decide on.
//!
//! [`scan`] reads a body that is held whole and gives a [`Frame`]. [`Scanner`] reads a body
//! that passes by in chunks and gives an [`Outline`], which holds copies of the few short
//! values that matter. Either refuses what two readers could understand differently; a
//! [`Flaw`] says what that was.

mod builder;
mod flaw;
mod key;
mod path;
mod scanner;
mod text;

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;

pub use flaw::{Flaw, FlawKind};
pub use path::Paths;
pub use scanner::{Scanner, scan};

use key::Key;

/// What a message may not exceed. Text is measured as it is written, between its quotes and
/// with its escape sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// How many objects and arrays may lie within one another; at most
    /// [`DEPTH_MAX`](crate::protocol::lexer::DEPTH_MAX).
    pub depth_max: u32,
    /// How many keys an object may have whose keys are remembered.
    pub keys_max: usize,
    /// The length of `method`, in bytes.
    pub method_bytes_max: usize,
    /// The length of a name, a URI, a task id or a cursor, in bytes.
    pub name_bytes_max: usize,
    /// The length of the id and of the progress token, in bytes.
    pub id_bytes_max: usize,
}

impl Bounds {
    /// What the protocol's own keys and versions may always have, however short names must be;
    /// the longest of them has 42 bytes.
    const WORD_BYTES_MIN: usize = 128;

    /// The length of a key where keys are remembered, and of a version, in bytes.
    #[must_use]
    pub fn word_bytes_max(&self) -> usize {
        self.name_bytes_max.max(Bounds::WORD_BYTES_MIN)
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            depth_max: 64,
            keys_max: 256,
            method_bytes_max: 256,
            name_bytes_max: 8192,
            id_bytes_max: 512,
        }
    }
}

/// What a message is, by JSON-RPC 2.0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It has a method and an id.
    Request,
    /// It has a method and no id.
    Notification,
    /// It has a result or an error, and no method.
    Response,
}

/// The values that [`Outline::text`] reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// `params.name`
    Name,
    /// `params.uri`
    Uri,
    /// `params.taskId`
    TaskId,
    /// `params.cursor`
    Cursor,
    /// `params.protocolVersion`, which `initialize` carries
    ProtocolVersion,
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`
    MetaProtocolVersion,
}

impl Field {
    /// The name of the key.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.known().name()
    }

    fn known(self) -> Key {
        match self {
            Field::Name => Key::Name,
            Field::Uri => Key::Uri,
            Field::TaskId => Key::TaskId,
            Field::Cursor => Key::Cursor,
            Field::ProtocolVersion => Key::ProtocolVersion,
            Field::MetaProtocolVersion => Key::MetaProtocolVersion,
        }
    }
}

/// A value that ought to be a string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Text<'a> {
    /// The key is not there.
    Absent,
    /// The value is something else, possibly null.
    WrongType,
    /// The string, without its escape sequences.
    Is(Cow<'a, str>),
}

/// A value that ought to be an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The key is not there.
    Absent,
    /// The value is something else, possibly null.
    WrongType,
    /// An object.
    Object,
}

/// The types of JSON values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// Any number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The value at a chosen argument path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Argument<'a> {
    /// Its type.
    pub json: Json,
    /// Its bytes as they stand in the body. Absent where the body passed by and the value was
    /// not kept: an array, an object, or longer than [`Bounds::name_bytes_max`].
    pub raw: Option<&'a [u8]>,
}

impl<'a> Argument<'a> {
    /// The string, without its escape sequences. None if it is no string, was not kept, or has half
    /// of a surrogate pair, which no text can hold.
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        text::decode(self.raw.filter(|_| self.json == Json::String)?)
    }
}

/// What a message says of itself. Only a scan that found no flaw makes one.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Holds what the spans of the values point to: the whole body, or what was kept of it.
    source: Bytes,
    kind: Kind,
    root_end: usize,
    values: key::Values,
    arguments: Box<[Option<Value>]>,
}

/// A message that is held whole: its outline, and the body that it was read from.
#[derive(Clone, Debug)]
pub struct Frame(Outline);

/// A value that was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Value {
    json: Json,
    /// Where it stands in the source; `start == end` if it was not kept.
    start: usize,
    end: usize,
}

impl Frame {
    /// The body, byte by byte as it came.
    pub fn body(&self) -> &Bytes {
        &self.0.source
    }
}

/// A frame is an outline whose values are all at hand.
impl Deref for Frame {
    type Target = Outline;

    fn deref(&self) -> &Outline {
        &self.0
    }
}

impl Outline {
    /// Request, notification or response.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The id as it is written: digits, or a string in its quotes.
    pub fn id(&self) -> Option<&[u8]> {
        self.met().raw(Key::Id)
    }

    /// The id, as a part of the bytes that it was read from.
    pub fn shared_id(&self) -> Option<Bytes> {
        self.id().map(|id| self.source.slice_ref(id))
    }

    /// The method, without escape sequences. Absent in a response.
    pub fn method(&self) -> Option<Cow<'_, str>> {
        self.met().method()
    }

    /// One of the strings that a message is judged by.
    pub fn text(&self, field: Field) -> Text<'_> {
        self.met().text(field)
    }

    /// `params._meta`
    pub fn meta(&self) -> Shape {
        self.shape(Key::Meta)
    }

    /// `params._meta["io.modelcontextprotocol/clientCapabilities"]`
    pub fn client_capabilities(&self) -> Shape {
        self.shape(Key::ClientCapabilities)
    }

    /// Whether `params.inputResponses` is there, whatever its type.
    pub fn has_input_responses(&self) -> bool {
        self.values.of(Key::InputResponses).is_some()
    }

    /// Whether `params.requestState` is there, whatever its type.
    pub fn has_request_state(&self) -> bool {
        self.values.of(Key::RequestState).is_some()
    }

    /// `params._meta.progressToken` as it is written, if it is a string or a number.
    pub fn progress_token(&self) -> Option<&[u8]> {
        let value = self.values.of(Key::ProgressToken)?;
        matches!(value.json, Json::String | Json::Number).then_some(())?;
        self.met().raw(Key::ProgressToken)
    }

    /// The value at the path with this index in the [`Paths`] that the scan was given. Absent
    /// if the path leads nowhere.
    pub fn argument(&self, path: usize) -> Option<Argument<'_>> {
        let value = (*self.arguments.get(path)?)?;
        Some(Argument {
            json: value.json,
            raw: self.met().bytes(value),
        })
    }

    /// The offset in the body behind the closing brace. Only blanks follow it.
    pub fn root_end(&self) -> usize {
        self.root_end
    }

    fn shape(&self, key: Key) -> Shape {
        match self.values.of(key) {
            None => Shape::Absent,
            Some(Value {
                json: Json::Object, ..
            }) => Shape::Object,
            Some(_) => Shape::WrongType,
        }
    }

    fn met(&self) -> Met<'_> {
        Met {
            source: &self.source,
            values: &self.values,
        }
    }
}

/// The values that a scan has met, be it over or not.
#[derive(Clone, Copy, Debug)]
struct Met<'a> {
    source: &'a [u8],
    values: &'a key::Values,
}

impl<'a> Met<'a> {
    fn method(self) -> Option<Cow<'a, str>> {
        text::decode(self.raw(Key::Method)?)
    }

    fn text(self, field: Field) -> Text<'a> {
        match self.values.of(field.known()) {
            None => Text::Absent,
            Some(value) if value.json != Json::String => Text::WrongType,
            Some(_) => match self.raw(field.known()).and_then(text::decode) {
                Some(decoded) => Text::Is(decoded),
                None => Text::WrongType,
            },
        }
    }

    fn raw(self, key: Key) -> Option<&'a [u8]> {
        self.bytes(self.values.of(key)?)
    }

    fn bytes(self, value: Value) -> Option<&'a [u8]> {
        self.source
            .get(value.start..value.end)
            .filter(|bytes| !bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = r#"{"jsonrpc":"2.0","id":17,"method":"tools\/call","params":{
        "name":"query","arguments":{"region":"us-west1","where":{"zone":"b","n":[1,2]},"limit":2.50},
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p\u0031"}}} "#;

    fn scanned(body: &str, paths: &[&[&str]]) -> Result<Frame, Flaw> {
        let paths = Paths::new(paths.iter().map(|path| path.iter()));
        scan(
            Bytes::copy_from_slice(body.as_bytes()),
            &Bounds::default(),
            &paths,
        )
    }

    fn is(text: &str) -> Text<'_> {
        Text::Is(Cow::Borrowed(text))
    }

    #[test]
    fn a_call_is_read() {
        let paths: [&[&str]; 5] = [
            &["region"],
            &["where", "zone"],
            &["where"],
            &["limit"],
            &["region", "x"],
        ];
        let frame = scanned(CALL, &paths).unwrap();
        assert_eq!(frame.kind(), Kind::Request);
        assert_eq!(frame.id(), Some(&b"17"[..]));
        assert_eq!(frame.method().as_deref(), Some("tools/call"));
        assert_eq!(frame.text(Field::Name), is("query"));
        assert_eq!(frame.text(Field::Uri), Text::Absent);
        assert_eq!(frame.text(Field::MetaProtocolVersion), is("2026-07-28"));
        assert_eq!(frame.text(Field::ProtocolVersion), Text::Absent);
        assert_eq!(frame.meta(), Shape::Object);
        assert_eq!(frame.client_capabilities(), Shape::Object);
        assert_eq!(frame.progress_token(), Some(&br#""p\u0031""#[..]));
        assert!(!frame.has_input_responses() && !frame.has_request_state());
        assert_eq!(frame.root_end(), CALL.len() - 1);
        let argument = |path| {
            frame
                .argument(path)
                .map(|found| (found.json, found.raw.unwrap()))
        };
        assert_eq!(argument(0), Some((Json::String, &b"\"us-west1\""[..])));
        assert_eq!(argument(1), Some((Json::String, &b"\"b\""[..])));
        assert_eq!(
            argument(2),
            Some((Json::Object, &br#"{"zone":"b","n":[1,2]}"#[..]))
        );
        assert_eq!(argument(3), Some((Json::Number, &b"2.50"[..])));
        assert_eq!((argument(4), argument(5)), (None, None));
    }

    #[test]
    fn a_frame_points_into_the_body_and_copies_nothing() {
        let body = Bytes::from_static(CALL.as_bytes());
        let frame = scan(body.clone(), &Bounds::default(), &Paths::default()).unwrap();
        assert_eq!(frame.body().as_ptr(), body.as_ptr());
        let Text::Is(Cow::Borrowed(name)) = frame.text(Field::Name) else {
            panic!("the name was copied");
        };
        assert!(body.as_ptr_range().contains(&name.as_ptr()));
    }

    #[test]
    fn messages_are_told_apart() {
        let kind = |members: &str| {
            scanned(&format!(r#"{{"jsonrpc":"2.0",{members}}}"#), &[]).map(|frame| frame.kind())
        };
        assert_eq!(kind(r#""id":0,"method":"ping""#), Ok(Kind::Request));
        assert_eq!(
            kind(r#""method":"notifications/initialized","params":null"#),
            Ok(Kind::Notification)
        );
        assert_eq!(kind(r#""id":"","result":null"#), Ok(Kind::Response));
        assert_eq!(
            kind(r#""id":1,"error":{"code":1,"message":""}"#),
            Ok(Kind::Response)
        );
        for answer in [r#""result":{}"#, r#""error":{}"#] {
            let flaw = kind(answer).unwrap_err();
            assert_eq!(flaw.kind(), FlawKind::IdType, "an answer to nothing");
        }
    }

    #[test]
    fn what_is_of_the_wrong_type_is_neither_absent_nor_a_text() {
        let frame = scanned(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":null,"uri":7,
            "inputResponses":null,"_meta":[],"arguments":"x"}}"#,
            &[&[], &["region"]],
        )
        .unwrap();
        assert_eq!(frame.text(Field::Name), Text::WrongType);
        assert_eq!(frame.text(Field::Uri), Text::WrongType);
        assert_eq!(
            (frame.meta(), frame.client_capabilities()),
            (Shape::WrongType, Shape::Absent)
        );
        assert!(frame.has_input_responses());
        let arguments = frame.argument(0).unwrap();
        assert_eq!(
            (arguments.json, arguments.raw),
            (Json::String, Some(&b"\"x\""[..]))
        );
        assert_eq!(frame.argument(1), None);
    }

    #[test]
    fn only_objects_that_a_path_leads_into_are_strict() {
        let body = |arguments: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"arguments":{arguments}}}}}"#
            )
        };
        let kind = |arguments: &str, paths: &[&[&str]]| {
            scanned(&body(arguments), paths)
                .err()
                .map(|flaw| flaw.kind())
        };
        let repeated = r#"{"a":1,"b":{"c":1,"c":2},"\u0061":2}"#;
        assert_eq!(kind(repeated, &[]), None);
        assert_eq!(kind(repeated, &[&[]]), None);
        assert_eq!(kind(repeated, &[&["x"]]), Some(FlawKind::RepeatedKey));
        let nested = r#"{"a":1,"b":{"c":1,"c":2},"A":2}"#;
        assert_eq!(kind(nested, &[&["a"]]), None);
        assert_eq!(kind(nested, &[&["b"]]), None);
        assert_eq!(kind(nested, &[&["b", "x"]]), Some(FlawKind::RepeatedKey));
    }
}
