//! A JSON object as its members, each value as it stands: for the documents that are read beside the
//! hot path, and spliced rather than written anew.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, in their order. A repeated name is an error, compared after
/// unescaping: two readers could take different ones.
#[derive(Clone, Debug)]
pub struct Members<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'j> Members<'j> {
    /// Reads `json`, which must be one object.
    ///
    /// # Errors
    /// What is no JSON object, or has a member twice.
    pub fn read(json: &'j [u8]) -> Result<Members<'j>, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The value of the member with this name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&'j str> {
        let mut members = self.iter();
        members.find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Whether a reader that ignores case would take another member for the one with this name.
    #[must_use]
    pub fn has_variant_of(&self, name: &str) -> bool {
        let mut names = self.0.iter();
        names.any(|(found, _)| found != name && folds_to(found, name))
    }

    /// All members, in their order, each with its raw value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'j str)> {
        let members = self.0.iter();
        members.map(|(name, value)| (&**name, value.get()))
    }
}

/// Where `part` stands in `whole`, which it was read from.
///
/// Nothing is said of a part that was not.
#[must_use]
pub fn place(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

/// Reads an object member by member.
struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(A::Error::custom(format_args!("repeated key {:?}", pair[0])));
        }
        Ok(Members(members))
    }
}

/// A key, borrowed where it has no escape sequences.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'de>, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(text.to_owned())))
    }
}

/// Whether Go's encoding/json takes `name` for the ASCII text `known`: it compares without
/// case, and beyond ASCII two characters fold into letters, the long s and the Kelvin sign.
pub(super) fn folds_to(name: &str, known: &str) -> bool {
    let folded = name.chars().map(|character| match character {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(known
        .chars()
        .map(|character| character.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_are_written() {
        let json = r#" {"a": 1.0, "\u0062": {"x" : [9007199254740993]}, "c":null} "#;
        let members = Members::read(json.as_bytes()).unwrap();
        let all: Vec<_> = members.iter().collect();
        assert_eq!(
            all,
            [
                ("a", "1.0"),
                ("b", r#"{"x" : [9007199254740993]}"#),
                ("c", "null")
            ]
        );
        assert_eq!((members.of("a"), members.of("d")), (Some("1.0"), None));
        let place = place(json.as_bytes(), members.of("c").unwrap());
        assert_eq!(&json[place], "null");
    }

    #[test]
    fn a_member_stands_once() {
        for json in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            "[]",
            "{",
            "{} {}",
        ] {
            assert!(Members::read(json.as_bytes()).is_err(), "{json}");
        }
    }
}
