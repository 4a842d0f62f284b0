//! The parameters of a request and of its `_meta` as they stand, read in one pass: for whom everything
//! in them matters, and not only what is decided on.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::lexer::{Container, DEPTH_MAX, Inside, Lexer, Reader, Scalar, Token};

/// Members of an object: their names without escape sequences, and their raw values, in the order of
/// the names.
pub type Row<'b> = SmallVec<[(Cow<'b, [u8]>, &'b [u8]); 8]>;

/// The parameters of one request.
#[derive(Debug)]
pub struct Params<'b> {
    /// All of them, without `_meta`.
    pub members: Row<'b>,
    /// What `_meta` has.
    pub meta: Row<'b>,
}

impl<'b> Params<'b> {
    /// Reads a message; without parameters or `_meta` it has none of them.
    ///
    /// Absent where it is no JSON object, where parameters or `_meta` are none, or where one of them
    /// has a member twice, so that two readers could take different ones.
    #[must_use]
    pub fn read(message: &'b [u8]) -> Option<Params<'b>> {
        let mut lexer = Lexer::new(DEPTH_MAX);
        let mut reading = Reading {
            message,
            level: Level::Outside,
            name: Cow::Borrowed(b""),
            start: 0,
            has_params: false,
            has_meta: false,
            members: Row::new(),
            meta: Row::new(),
            is_flawed: false,
        };
        lexer.feed(message, &mut reading).ok()?;
        lexer.finish(&mut reading).ok()?;
        let Reading {
            mut members,
            mut meta,
            is_flawed,
            ..
        } = reading;
        let is_sound = !is_flawed && sort(&mut members) && sort(&mut meta);
        is_sound.then_some(Params { members, meta })
    }
}

/// Puts members in order; false where one stands there twice.
fn sort(row: &mut Row<'_>) -> bool {
    row.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    row.windows(2).all(|pair| pair[0].0 != pair[1].0)
}

/// Which object is read from within.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Outside,
    Message,
    Params,
    Meta,
}

struct Reading<'b> {
    message: &'b [u8],
    level: Level,
    /// The name of the member whose value comes next, or is skipped.
    name: Cow<'b, [u8]>,
    /// Where the value that is skipped begins.
    start: usize,
    has_params: bool,
    has_meta: bool,
    members: Row<'b>,
    meta: Row<'b>,
    is_flawed: bool,
}

impl Reading<'_> {
    /// A value that is not read from within.
    fn value(&mut self, start: usize, end: usize) {
        let raw = &self.message[start..end];
        let is_object_wanted = match self.level {
            Level::Outside => true,
            Level::Message => *self.name == *b"params",
            Level::Params => *self.name == *b"_meta",
            Level::Meta => false,
        };
        self.is_flawed |= is_object_wanted;
        let name = std::mem::take(&mut self.name);
        match self.level {
            Level::Outside | Level::Message => {}
            Level::Params => self.members.push((name, raw)),
            Level::Meta => self.meta.push((name, raw)),
        }
    }
}

impl Reader for Reading<'_> {
    fn key(&mut self, token: Token<'_>) {
        let raw = &self.message[token.start..token.end];
        self.name = match token.escaped {
            false => Cow::Borrowed(&raw[1..raw.len() - 1]),
            true => match serde_json::from_slice::<String>(raw) {
                Ok(name) => Cow::Owned(name.into_bytes()),
                Err(_) => {
                    self.is_flawed = true;
                    Cow::Borrowed(raw)
                }
            },
        };
    }

    fn scalar(&mut self, _kind: Scalar, token: Token<'_>) {
        self.value(token.start, token.end);
    }

    fn open(&mut self, kind: Container, start: usize) -> Inside {
        let (level, is_twice) = match (self.level, kind, &*self.name) {
            (Level::Outside, Container::Object, _) => (Level::Message, false),
            (Level::Message, Container::Object, b"params") => {
                (Level::Params, std::mem::replace(&mut self.has_params, true))
            }
            (Level::Params, Container::Object, b"_meta") => {
                (Level::Meta, std::mem::replace(&mut self.has_meta, true))
            }
            _ => {
                self.start = start;
                return Inside::Skip;
            }
        };
        self.level = level;
        self.is_flawed |= is_twice;
        Inside::Report
    }

    fn close(&mut self, inside: Inside, end: usize) {
        match inside {
            Inside::Skip => self.value(self.start, end),
            Inside::Report => {
                self.level = match self.level {
                    Level::Meta => Level::Params,
                    Level::Params => Level::Message,
                    Level::Message | Level::Outside => Level::Outside,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Option<String> {
        let params = Params::read(message.as_bytes())?;
        let shown = |row: &Row<'_>| {
            let members = row.iter().map(|(name, raw)| {
                let text = |bytes| str::from_utf8(bytes).unwrap();
                format!("{}={}", text(name), text(raw))
            });
            members.collect::<Vec<_>>().join(" ")
        };
        Some(format!(
            "{} | {}",
            shown(&params.members),
            shown(&params.meta)
        ))
    }

    #[test]
    fn members_are_given_as_they_stand_in_the_order_of_their_names() {
        for (message, shown) in [
            ("{}", " | "),
            (r#"{"params":{}}"#, " | "),
            (r#"{"params":{"_meta":{}}}"#, " | "),
            (
                r#"{"id":1,"params":{"u":[1, {"a":2}],"_meta":{"z":{ },"b":1.0},"c":"\u0061"},"x":{}}"#,
                r#"c="\u0061" u=[1, {"a":2}] | b=1.0 z={ }"#,
            ),
            (
                r#"{"x":{"params":{"a":1}},"p\u0061rams":{"\u005fmeta":{"\u0061":1},"_m":{"_meta":{"q":1}}}}"#,
                r#"_m={"_meta":{"q":1}} | a=1"#,
            ),
        ] {
            assert_eq!(read(message).as_deref(), Some(shown), "{message}");
        }
    }

    #[test]
    fn what_two_readers_could_take_differently_is_not_read() {
        for message in [
            "",
            "{",
            "[]",
            "1",
            r#"{"params":[]}"#,
            r#"{"params":null}"#,
            r#"{"params":{"_meta":1}}"#,
            r#"{"params":{"_meta":[]}}"#,
            r#"{"params":{},"params":{}}"#,
            r#"{"params":{},"p\u0061rams":{}}"#,
            r#"{"params":{"_meta":{},"_meta":{}}}"#,
            r#"{"params":{"a":1,"a":1}}"#,
            r#"{"params":{"a":1,"\u0061":1}}"#,
            r#"{"params":{"_meta":{"a":1,"a":2}}}"#,
            r#"{"params":{"\ud800":1}}"#,
        ] {
            assert_eq!(read(message), None, "{message}");
        }
    }
}
