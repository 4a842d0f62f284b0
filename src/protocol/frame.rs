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
    /// The length of a name, a URI, a task id, a cursor or a version, and of a key where keys
    /// are remembered, in bytes.
    pub name_bytes_max: usize,
    /// The length of the id and of the progress token, in bytes.
    pub id_bytes_max: usize,
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
        self.raw(Key::Id)
    }

    /// The method, without escape sequences. Absent in a response.
    pub fn method(&self) -> Option<Cow<'_, str>> {
        text::decode(self.raw(Key::Method)?)
    }

    /// One of the strings that a message is judged by.
    pub fn text(&self, field: Field) -> Text<'_> {
        match self.values.of(field.known()) {
            None => Text::Absent,
            Some(value) if value.json != Json::String => Text::WrongType,
            Some(_) => match self.raw(field.known()).and_then(text::decode) {
                Some(decoded) => Text::Is(decoded),
                None => Text::WrongType,
            },
        }
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
        self.raw(Key::ProgressToken)
    }

    /// The value at the path with this index in the [`Paths`] that the scan was given. Absent
    /// if the path leads nowhere.
    pub fn argument(&self, path: usize) -> Option<Argument<'_>> {
        let value = (*self.arguments.get(path)?)?;
        Some(Argument {
            json: value.json,
            raw: self.bytes(value),
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

    fn raw(&self, key: Key) -> Option<&[u8]> {
        self.bytes(self.values.of(key)?)
    }

    fn bytes(&self, value: Value) -> Option<&[u8]> {
        self.source
            .get(value.start..value.end)
            .filter(|bytes| !bytes.is_empty())
    }
}
