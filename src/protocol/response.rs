//! One message of an upstream's answer, read once: the bytes as they came, and where in them stands
//! what is decided on or changed on the way out.
//!
//! Nothing is ever written anew: [`Response::edited`] replaces single values and leaves every other
//! byte. So that there is one way only to understand what is kept, filtered or learned from, a key
//! that stands twice makes a message unreadable, in the envelope, in the result or error, and in the
//! items of lists; keys are compared without their escape sequences. Deeper down values are only
//! checked to be JSON, in any depth and without recursion.

mod edit;
mod notification;
mod read;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub use edit::{Edit, Pieces};
pub use notification::{Granted, Notification};

use super::members::Members;

/// What one message of an answer turned out to be.
#[derive(Clone, Debug)]
pub enum Message {
    /// A notification or a request of the server, which may come before the response.
    Other {
        /// Its method, without escape sequences.
        method: String,
    },
    /// The response.
    Response(Response),
    /// Not readable one way only.
    Unreadable(Unreadable),
}

/// Why a message cannot be read one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not one JSON value in UTF-8, or begins with a byte order mark.
    Json,
    /// It is JSON, but no object: an array, for one, since nobody asked in batches.
    NotAnObject,
    /// A key stands twice: in the message, its result or error, or an item of a list.
    RepeatedKey,
    /// It has neither a method nor a result nor an error, or more than one of them.
    Kind,
    /// A key differs in case alone from one that is decided on, so that some readers take it for that.
    CaseVariant,
    /// Its method is not a string.
    Method,
    /// Its result is not an object.
    Result,
    /// It has a result but no id.
    Id,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreadable::Json => "it is not one JSON value in UTF-8",
            Unreadable::NotAnObject => "it is not a JSON object",
            Unreadable::RepeatedKey => {
                "a key stands twice in the message, its result or error, or an item of a list"
            }
            Unreadable::CaseVariant => {
                "a key of the message, its result or an item of a list differs in case from one that \
                 is decided on"
            }
            Unreadable::Kind => "it has neither method nor result nor error, or more than one",
            Unreadable::Method => "its method is not a string",
            Unreadable::Result => "its result is not an object",
            Unreadable::Id => "it has a result but no id",
        })
    }
}

/// A JSON-RPC response: the bytes as they came, and what was found in them.
///
/// A copy shares both.
#[derive(Clone, Debug)]
pub struct Response {
    bytes: Bytes,
    id: Option<Span>,
    outcome: Outcome,
}

/// Where a value stands in the bytes.
type Span = Range<usize>;

#[derive(Clone, Debug)]
enum Outcome {
    Error(ErrorObject),
    Result(Arc<Found>),
}

/// What was found in a result.
#[derive(Clone, Debug)]
struct Found {
    whole: Span,
    is_complete: bool,
    ttl_ms: Option<Span>,
    cache_scope: Option<Span>,
    hints: Result<Hints, HintFault>,
    next_cursor: Option<Span>,
    supported_versions: Option<Span>,
    capabilities: Option<Span>,
    /// In the order of [`List::ALL`].
    arrays: [Option<Array>; 4],
}

/// An array that a list consists of.
#[derive(Clone, Debug)]
struct Array {
    whole: Span,
    items: Box<[ItemAt]>,
}

#[derive(Clone, Debug)]
struct ItemAt {
    whole: Span,
    /// The raw name, if it is a string.
    name: Option<Span>,
}

/// The error object of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorObject {
    /// Its code; absent where that is not an integer, which JSON-RPC asks for.
    pub code: Option<i64>,
}

impl ErrorObject {
    /// Whether a parameter does not hold; of a request for a page, its cursor (specification,
    /// "Pagination").
    #[must_use]
    pub fn is_invalid_params(self) -> bool {
        self.code == Some(-32602)
    }

    /// Whether the server does not know such a request: its method, its parameters, its form.
    #[must_use]
    pub fn is_of_the_request(self) -> bool {
        matches!(self.code, Some(-32602..=-32600))
    }

    /// Whether a header and the body differed, to the server.
    #[must_use]
    pub fn is_header_mismatch(self) -> bool {
        self.code == Some(-32020)
    }
}

/// What a result says of how long and by whom it may be used again (specification, "Caching").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// `ttlMs`, in milliseconds. What exceeds 64 bits is the largest that they can hold.
    pub ttl_ms: u64,
    /// `cacheScope`
    pub scope: Scope,
}

/// Who may be given a result again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anybody.
    Public,
    /// Only who asked for it.
    Private,
}

/// Why a result has no hints to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintFault {
    /// There is no `ttlMs`.
    TtlAbsent,
    /// `ttlMs` is not written with digits alone. `1.0`, `1e3` and `-0` are integers in value, but
    /// not every reader takes them for such.
    TtlInvalid,
    /// There is no `cacheScope`.
    ScopeAbsent,
    /// `cacheScope` is neither `public` nor `private`.
    ScopeInvalid,
}

impl HintFault {
    /// In one word, for a log or a header.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HintFault::TtlAbsent => "ttl-absent",
            HintFault::TtlInvalid => "ttl-invalid",
            HintFault::ScopeAbsent => "scope-absent",
            HintFault::ScopeInvalid => "scope-invalid",
        }
    }
}

/// The lists that servers give, page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// Of `tools/list`.
    Tools,
    /// Of `prompts/list`.
    Prompts,
    /// Of `resources/list`.
    Resources,
    /// Of `resources/templates/list`.
    ResourceTemplates,
}

impl List {
    /// All of them.
    pub const ALL: [List; 4] = [
        List::Tools,
        List::Prompts,
        List::Resources,
        List::ResourceTemplates,
    ];

    /// The list that this method asks for.
    #[must_use]
    pub fn of(method: &str) -> Option<List> {
        Some(match method {
            "tools/list" => List::Tools,
            "prompts/list" => List::Prompts,
            "resources/list" => List::Resources,
            "resources/templates/list" => List::ResourceTemplates,
            _ => return None,
        })
    }

    /// The key of the result that holds the items.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The key of an item that holds its name.
    #[must_use]
    pub fn name_key(self) -> &'static str {
        match self {
            List::Tools | List::Prompts => "name",
            List::Resources => "uri",
            List::ResourceTemplates => "uriTemplate",
        }
    }
}

/// An item of a list.
#[derive(Clone, Copy, Debug)]
pub struct Item<'r> {
    raw: &'r [u8],
    name: Option<&'r [u8]>,
}

impl<'r> Item<'r> {
    /// Its name (of resources, the URI; of templates, the URI template), without escape sequences.
    /// Absent where the item is no object, or its name no text.
    #[must_use]
    pub fn name(&self) -> Option<Cow<'r, str>> {
        text(self.name?)
    }

    /// The bytes as they came.
    #[must_use]
    pub fn raw(&self) -> &'r [u8] {
        self.raw
    }

    /// The raw `annotations`: what a server says of how its tool behaves.
    #[must_use]
    pub fn annotations(&self) -> Option<&'r str> {
        self.member("annotations")
    }

    /// The raw `inputSchema` of a tool.
    #[must_use]
    pub fn input_schema(&self) -> Option<&'r str> {
        self.member("inputSchema")
    }

    fn member(&self, key: &str) -> Option<&'r str> {
        Members::read(self.raw).ok()?.of(key)
    }
}

/// What a server says that it can do, as far as anybody here asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It has tools.
    pub tools: bool,
    /// It tells that its list of tools has changed.
    pub tools_list_changed: bool,
    /// It tells that its list of prompts has changed.
    pub prompts_list_changed: bool,
    /// It tells that its list of resources has changed.
    pub resources_list_changed: bool,
    /// It tells that single resources have changed.
    pub resources_subscribe: bool,
}

impl Message {
    /// Reads one message: an answer in JSON, or the data of an event.
    ///
    /// A [`Response`] keeps the bytes, and with them the whole buffer that they are a part of.
    #[must_use]
    pub fn read(bytes: Bytes) -> Message {
        read::message(bytes).unwrap_or_else(Message::Unreadable)
    }
}

impl Response {
    /// The bytes as they came.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The memory that the bytes and what was found in them take, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let found = self.found().map_or(0, |found| {
            let items = found.arrays.iter().flatten().map(|array| array.items.len());
            size_of::<Found>() + items.sum::<usize>() * size_of::<ItemAt>()
        });
        size_of::<Response>() + self.bytes.len() + found
    }

    /// The id as it is written, whatever its type. Only an error may lack one.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        self.raw(self.id.as_ref())
    }

    /// The error, if that is what it is.
    #[must_use]
    pub fn error(&self) -> Option<ErrorObject> {
        match self.outcome {
            Outcome::Error(error) => Some(error),
            Outcome::Result(_) => None,
        }
    }

    /// The raw result, if that is what it is.
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        self.raw(Some(&self.found()?.whole))
    }

    /// Whether it is a result, and one that ends the request: its `resultType` is `complete`, or
    /// absent, as older servers leave it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.found().is_some_and(|found| found.is_complete)
    }

    /// The caching hints.
    ///
    /// # Errors
    /// Of both hints the first that is not exactly valid. An error has none.
    pub fn hints(&self) -> Result<Hints, HintFault> {
        self.found()
            .map_or(Err(HintFault::TtlAbsent), |found| found.hints)
    }

    /// The items of a list, in their order. Those that are no objects or have no name are among
    /// them. Absent where the result has no such array: an answer to a request for that list then
    /// is not one.
    #[must_use]
    pub fn items(&self, list: List) -> Option<impl ExactSizeIterator<Item = Item<'_>> + Clone> {
        let array = self.found()?.array(list)?;
        Some(array.items.iter().map(|item| Item {
            raw: &self.bytes[item.whole.clone()],
            name: self.raw(item.name.as_ref()),
        }))
    }

    /// The cursor of the next page as it is written; absent on the last page, where some servers
    /// write `null`.
    #[must_use]
    pub fn next_cursor(&self) -> Option<&[u8]> {
        let cursor = self.raw(self.found()?.next_cursor.as_ref());
        cursor.filter(|raw| *raw != b"null")
    }

    /// The raw `supportedVersions` of a discover result.
    #[must_use]
    pub fn supported_versions(&self) -> Option<&[u8]> {
        self.raw(self.found()?.supported_versions.as_ref())
    }

    /// The server's capabilities, of a discover or initialize result. Absent where there are none,
    /// or none that can be read one way only.
    #[must_use]
    pub fn capabilities(&self) -> Option<Capabilities> {
        read::capabilities(self.raw(self.found()?.capabilities.as_ref())?)
    }

    /// The bytes with single values replaced; all others are those that came. Where nothing changes
    /// they are shared, and long runs of them always are; the rest is put together.
    #[must_use]
    pub fn edited(&self, edit: &Edit<'_>) -> Pieces {
        edit::edited(self, edit)
    }

    fn found(&self) -> Option<&Found> {
        match &self.outcome {
            Outcome::Error(_) => None,
            Outcome::Result(found) => Some(found),
        }
    }

    fn raw(&self, span: Option<&Span>) -> Option<&[u8]> {
        self.bytes.get(span?.clone())
    }
}

impl Found {
    fn array(&self, list: List) -> Option<&Array> {
        self.arrays[list as usize].as_ref()
    }
}

/// A string without its quotes and escape sequences. Absent if the value is none, or if half of a
/// surrogate pair stands alone in it.
fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    match memchr::memchr(b'\\', inner) {
        None => std::str::from_utf8(inner).ok().map(Cow::Borrowed),
        Some(_) => serde_json::from_slice(raw).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests;
