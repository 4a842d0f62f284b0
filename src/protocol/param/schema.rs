//! Where `x-mcp-header` stands in a tool's `inputSchema`, found in one pass that builds no tree.

use std::borrow::Cow;
use std::fmt;

use http::HeaderName;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Annotation, Invalid};
use crate::protocol::header::{PARAM_PREFIX, spelled};

const KEYWORD: &str = "x-mcp-header";

/// Most annotations of one tool: far more than a request may have headers.
const ANNOTATIONS_MAX: usize = 256;

/// Most bytes of all header names and argument paths of one tool.
const NAMES_BYTES_MAX: usize = 16 << 10;

/// Most characters of a server's text that are repeated.
const QUOTED_CHARS_MAX: usize = 200;

/// The annotations of a schema, in their order. serde_json bounds how deep it looks.
///
/// # Errors
/// What makes the tool invalid.
pub(super) fn annotations(input_schema: &str) -> Result<Vec<Annotation>, Invalid> {
    let mut walk = Walk::default();
    let mut deserializer = serde_json::Deserializer::from_str(input_schema);
    let root = Seed {
        walk: &mut walk,
        place: Place::Schema { reachable: true },
    };
    let read = root.deserialize(&mut deserializer);
    if let Err(why) = read.and_then(|()| deserializer.end()) {
        let unreadable = || Invalid::unreadable(&why);
        return Err(walk.invalid.unwrap_or_else(unreadable));
    }
    if !walk.is_object {
        return Err(Invalid::NoObject);
    }
    match walk.repeated {
        // Of a schema without annotations, nothing was read.
        Some(key) if !walk.found.is_empty() => Err(Invalid::Repeated(shortened(&key))),
        Some(_) | None => Ok(walk.found),
    }
}

/// What a value of a schema is, by where it stands.
#[derive(Clone, Copy)]
enum Place {
    /// A schema; `reachable` from the root by `properties` alone.
    Schema { reachable: bool },
    /// What `properties` has: names of arguments, and their schemas.
    Properties { reachable: bool },
    /// Schemas by name.
    Named,
    /// A list of schemas, or a single one.
    List,
}

impl Place {
    /// What stands behind a keyword of JSON Schema: 2020-12, and the older ones that are still in
    /// use. None for data, where `x-mcp-header` is a key like any other.
    fn behind(keyword: &str, reachable: bool) -> Option<Place> {
        Some(match keyword {
            "properties" => Place::Properties { reachable },
            "$defs" | "definitions" | "patternProperties" | "dependentSchemas" | "dependencies" => {
                Place::Named
            }
            "items" | "prefixItems" | "allOf" | "anyOf" | "oneOf" => Place::List,
            "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => Place::Schema { reachable: false },
            _ => return None,
        })
    }
}

/// What was found so far.
#[derive(Default)]
struct Walk {
    found: Vec<Annotation>,
    /// The names of the arguments down to where the walk is.
    path: Vec<Box<str>>,
    is_object: bool,
    /// A key that stands twice.
    repeated: Option<String>,
    /// Why the walk was given up.
    invalid: Option<Invalid>,
    names_bytes: usize,
}

impl Walk {
    /// Judges the annotation of a schema that has one. `kind` is its `type`.
    fn annotate(&mut self, name: &str, kind: Option<&str>, reachable: bool) -> Result<(), Invalid> {
        let place = || shortened(&self.path.join("."));
        if !reachable || self.path.is_empty() {
            return Err(Invalid::Unreachable { at: place() });
        }
        let name: Cow<'_, str> = match serde_json::from_str(name) {
            Ok(serde_json::Value::String(name)) => name.into(),
            Ok(_) | Err(_) => return Err(Invalid::NoString { at: place() }),
        };
        let kind = kind.and_then(|kind| serde_json::from_str::<String>(kind).ok());
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            let kind = kind.as_deref().map(shortened);
            return Err(Invalid::Type { at: place(), kind });
        }
        let token = !name.is_empty() && name.bytes().all(is_tchar);
        let header = HeaderName::try_from(format!("{PARAM_PREFIX}{name}")).ok();
        let Some(header) = header.filter(|_| token) else {
            return Err(Invalid::Token {
                at: place(),
                name: shortened(&name),
            });
        };
        if self.found.iter().any(|other| other.header == header) {
            return Err(Invalid::Twice(shortened(&name)));
        }
        let path_bytes: usize = self.path.iter().map(|name| name.len()).sum();
        self.names_bytes += name.len() + path_bytes;
        if self.found.len() == ANNOTATIONS_MAX || self.names_bytes > NAMES_BYTES_MAX {
            return Err(Invalid::TooMany);
        }
        self.found.push(Annotation {
            header,
            spelled: format!("{}{name}", spelled::PARAM_PREFIX).into(),
            path: self.path.as_slice().into(),
        });
        Ok(())
    }
}

/// As much of a server's text as a log needs; what is invalid is remembered, too.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

/// A character of a token (RFC 9110, section 5.6.2).
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads the value at a place.
struct Seed<'w> {
    walk: &'w mut Walk,
    place: Place,
}

impl Seed<'_> {
    /// Reads the members of a schema; its annotation is judged when all of them are known.
    fn schema<'de, A: MapAccess<'de>>(
        &mut self,
        reachable: bool,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let mut keys = Vec::new();
        let (mut annotation, mut kind): (Option<&RawValue>, Option<&RawValue>) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match (&*key, Place::behind(&key, reachable)) {
                (KEYWORD, _) => annotation = Some(map.next_value()?),
                ("type", _) => kind = Some(map.next_value()?),
                (_, Some(place)) => map.next_value_seed(self.at(place))?,
                (_, None) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            keys.push(key);
        }
        self.note_repeated(keys);
        let Some(annotation) = annotation else {
            return Ok(());
        };
        let kind = kind.map(RawValue::get);
        let judged = self.walk.annotate(annotation.get(), kind, reachable);
        judged.map_err(|invalid| {
            self.walk.invalid = Some(invalid);
            A::Error::custom("invalid")
        })
    }

    /// Reads members whose names are no keywords.
    fn named<'de, A: MapAccess<'de>>(&mut self, place: Place, map: &mut A) -> Result<(), A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            self.walk.path.push(key.as_str().into());
            map.next_value_seed(self.at(place))?;
            self.walk.path.pop();
            keys.push(key);
        }
        self.note_repeated(keys);
        Ok(())
    }

    fn note_repeated(&mut self, mut keys: Vec<String>) {
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            self.walk.repeated = Some(pair[0].clone());
        }
    }

    fn at(&mut self, place: Place) -> Seed<'_> {
        Seed {
            walk: self.walk,
            place,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.walk.is_object |= self.walk.path.is_empty();
        let below = Place::Schema { reachable: false };
        match self.place {
            Place::Schema { reachable } => self.schema(reachable, &mut map),
            Place::Properties { reachable } => self.named(Place::Schema { reachable }, &mut map),
            // The values of `dependencies` may be lists, of names or of schemas alike.
            Place::Named => self.named(Place::List, &mut map),
            Place::List => self.at(below).visit_map(map),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let below = Place::Schema { reachable: false };
        match self.place {
            Place::List => while seq.next_element_seed(self.at(below))?.is_some() {},
            Place::Schema { .. } | Place::Properties { .. } | Place::Named => {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
