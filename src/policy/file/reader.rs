//! Nodes → typed values. A value that is not as it must be is reported and left at its default, so
//! that the reading goes on and all flaws are told at once.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::policy::finding::{Finding, Flaw, Origin, Place, shown};
use crate::policy::unit;

use super::key::suggest;
use super::node::{Data, Node, Scalar, Word, is_date, mistaken_for};
use super::shape::Shape;

/// Reads values and collects what is wrong with them.
pub(super) struct Reader<'a> {
    /// Errors so far.
    pub(super) findings: Vec<Finding>,
    /// What is allowed but probably not meant.
    pub(super) warnings: Vec<Finding>,
    /// The variables that `{env: NAME}` may name; an argument, so that tests need no process-wide
    /// state.
    pub(super) environment: &'a dyn Fn(&str) -> Option<OsString>,
    /// Whether lock files are read. They are not where they are about to be written.
    pub(super) reads_locks: bool,
    /// What the readers of [`Data::Asked`] have told.
    pub(super) told: Vec<Shape>,
}

impl<'a> Reader<'a> {
    /// One that has found nothing yet.
    pub(super) fn new(environment: &'a dyn Fn(&str) -> Option<OsString>) -> Reader<'a> {
        Reader {
            findings: Vec::new(),
            warnings: Vec::new(),
            environment,
            reads_locks: true,
            told: Vec::new(),
        }
    }
}

impl Reader<'_> {
    /// Reports an error.
    pub(super) fn refuse(&mut self, origin: impl Into<Origin>, flaw: Flaw) {
        self.findings.push(Finding::new(origin, flaw));
    }

    /// Reports what is allowed but probably not meant.
    pub(super) fn warn(&mut self, origin: impl Into<Origin>, flaw: Flaw) {
        self.warnings.push(Finding::new(origin, flaw));
    }

    /// Whether `node` only asks what is taken there; then that has been told.
    pub(super) fn is_asked(&mut self, node: &Node, shape: impl FnOnce() -> Shape) -> bool {
        let is_asked = matches!(node.data, Data::Asked);
        if is_asked {
            self.told.push(shape());
        }
        is_asked
    }

    /// Whether `node` is the word `word`, which stands in place of a value.
    pub(super) fn is_word(&mut self, node: &Node, word: &str) -> bool {
        if self.is_asked(node, || Shape::Choice(vec![word.to_owned()])) {
            return false;
        }
        matches!(&node.data, Data::Scalar(scalar) if scalar.text == word)
    }

    /// The scalar that `node` must be; `wanted` says what it stands for.
    fn scalar<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n Scalar> {
        if self.is_asked(node, || Shape::Text(wanted.to_owned())) {
            return None;
        }
        match &node.data {
            Data::Scalar(scalar) if !scalar.is_empty() => return Some(scalar),
            Data::Refused | Data::Asked => return None,
            Data::Scalar(_) | Data::List(_) | Data::Mapping(_) => {}
        }
        let cause = format!("expected {wanted}, found {}", node.describe());
        let hint = match &node.data {
            Data::List(_) => format!("write {wanted}; what begins with a bracket needs quotes"),
            _ => format!("write {wanted}"),
        };
        self.refuse(&node.place, Flaw::new(cause, hint));
        None
    }

    /// Text that every YAML reader takes for text.
    pub(super) fn text<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n str> {
        let scalar = self.scalar(node, wanted)?;
        if let Some(other) = scalar.mistaken_for() {
            self.refuse(&node.place, unquoted(&scalar.text, other));
            return None;
        }
        // An escape in double quotes can make any character.
        if scalar.text.contains(char::is_control) {
            let flaw = Flaw::new(
                format!("{wanted} cannot have a control character or a line break in it"),
                "write it in one line, without escapes",
            );
            self.refuse(&node.place, flaw);
            return None;
        }
        Some(&scalar.text)
    }

    /// The same into `into`.
    pub(super) fn string(&mut self, node: &Node, wanted: &str, into: &mut String) {
        if let Some(text) = self.text(node, wanted) {
            text.clone_into(into);
        }
    }

    /// Text read by `parse` into `into`.
    pub(super) fn parsed<T>(
        &mut self,
        node: &Node,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, Flaw>,
        into: &mut T,
    ) {
        let Some(scalar) = self.scalar(node, wanted) else {
            return;
        };
        match parse(&scalar.text) {
            Ok(value) => *into = value,
            Err(flaw) => self.refuse(&node.place, flaw),
        }
    }

    /// A number in the form that `parse` takes.
    fn number<N: TryFrom<u64>>(
        &mut self,
        node: &Node,
        wanted: &str,
        range: &RangeInclusive<u64>,
        parse: fn(&str, &RangeInclusive<u64>) -> Result<u64, Flaw>,
        into: &mut N,
    ) {
        let mut number = None;
        self.parsed(
            node,
            wanted,
            |text| parse(text, range).map(Some),
            &mut number,
        );
        // The ranges of the tables fit the fields on every platform that we build for.
        if let Some(Ok(number)) = number.map(N::try_from) {
            *into = number;
        }
    }

    /// A size in bytes.
    pub(super) fn size<N: TryFrom<u64>>(
        &mut self,
        node: &Node,
        range: RangeInclusive<u64>,
        into: &mut N,
    ) {
        if self.is_asked(node, || Shape::Size) {
            return;
        }
        self.number(
            node,
            "a size such as `64Ki`",
            &range,
            unit::parse_size,
            into,
        );
    }

    /// A count of things.
    pub(super) fn count<N: TryFrom<u64>>(
        &mut self,
        node: &Node,
        range: RangeInclusive<u64>,
        into: &mut N,
    ) {
        if self.is_asked(node, || Shape::Count(range.clone())) {
            return;
        }
        self.number(
            node,
            "a number such as `100`",
            &range,
            unit::parse_count,
            into,
        );
    }

    /// A time from one millisecond to a week; zero would refuse everything, and what is meant by
    /// it is different in every product.
    pub(super) fn duration(&mut self, node: &Node, into: &mut Duration) {
        if self.is_asked(node, || Shape::Duration) {
            return;
        }
        let range = 1..=7 * 24 * 3_600_000;
        let mut millis = u64::MAX;
        self.number(
            node,
            "a time such as `30s`",
            &range,
            unit::parse_duration,
            &mut millis,
        );
        if millis != u64::MAX {
            *into = Duration::from_millis(millis);
        }
    }

    /// A time, or `off` for none.
    pub(super) fn duration_or_off(&mut self, node: &Node, into: &mut Option<Duration>) {
        if self.is_word(node, "off") {
            *into = None;
            return;
        }
        let before = self.findings.len();
        let mut time = Duration::ZERO;
        self.duration(node, &mut time);
        if self.findings.len() == before {
            *into = Some(time);
        }
    }

    /// Whether the key of an entry is text to every YAML reader; it is reported if it is not.
    pub(super) fn is_text(&mut self, word: &Word) -> bool {
        let other = word.plain.then(|| mistaken_for(&word.text)).flatten();
        if let Some(other) = other {
            self.refuse(&word.place.alone(), unquoted(&word.text, other));
        }
        other.is_none()
    }

    /// One of the words of `choices`.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node, choices: &[(&str, T)], into: &mut T) {
        let words = || choices.iter().map(|(name, _)| (*name).to_owned()).collect();
        if self.is_asked(node, || Shape::Choice(words())) {
            return;
        }
        let names: Vec<_> = choices
            .iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let wanted = format!("one of {}", names.join(", "));
        let Some(scalar) = self.scalar(node, &wanted) else {
            return;
        };
        match choices.iter().find(|(name, _)| *name == scalar.text) {
            Some((_, value)) => *into = *value,
            None => {
                let near = suggest(&scalar.text, choices.iter().map(|(name, _)| *name));
                let hint = near.map_or_else(
                    || format!("write {wanted}"),
                    |near| format!("did you mean `{near}`? Write {wanted}"),
                );
                let cause = format!("expected {wanted}, found {}", shown(&scalar.text));
                self.refuse(&node.place, Flaw::new(cause, hint));
            }
        }
    }

    /// The elements of a list that has some.
    pub(super) fn list<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n [Node]> {
        if self.is_asked(node, || Shape::List(Vec::new())) {
            return Some(std::slice::from_ref(node));
        }
        match &node.data {
            Data::List(list) if !list.is_empty() => return Some(list),
            Data::List(_) => {
                let flaw = Flaw::new(
                    "the list is empty",
                    format!("write {wanted}, or remove the key for its default"),
                );
                self.refuse(&node.place, flaw);
            }
            Data::Refused | Data::Asked => {}
            Data::Scalar(_) | Data::Mapping(_) => {
                let cause = format!("expected {wanted}, found {}", node.describe());
                let hint = match &node.data {
                    Data::Scalar(scalar) if !scalar.is_empty() && !scalar.text.contains('@') => {
                        format!(
                            "write it in brackets: `[ {} ]`",
                            shown(&scalar.text).trim_matches('`')
                        )
                    }
                    _ => format!("write {wanted}"),
                };
                self.refuse(&node.place, Flaw::new(cause, hint));
            }
        }
        None
    }

    /// A list of texts, each read by `parse` and none twice.
    pub(super) fn texts<T: PartialEq>(
        &mut self,
        node: &Node,
        wanted: &str,
        parse: impl Fn(&str) -> Result<T, Flaw>,
    ) -> Option<Vec<T>> {
        let before = self.findings.len();
        let mut values = Vec::new();
        for element in self.list(node, wanted)? {
            let Some(text) = self.text(element, "text") else {
                continue;
            };
            match parse(text) {
                Ok(value) if values.contains(&value) => self.refuse(
                    &element.place,
                    Flaw::of(text, "is listed twice", "remove one of them"),
                ),
                Ok(value) => values.push(value),
                Err(flaw) => self.refuse(&element.place, flaw),
            }
        }
        (self.findings.len() == before).then_some(values)
    }

    /// A name of a route or an upstream.
    pub(super) fn name(&mut self, text: &str, plain: bool, place: &Place) -> bool {
        if plain && let Some(other) = mistaken_for(text) {
            self.refuse(place, unquoted(text, other));
            return false;
        }
        let valid = text.len() <= 63
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !valid {
            let flaw = Flaw::of(
                text,
                "is not a name",
                "write at most 63 letters, digits, `-`, `_` and `.`, the first a letter or digit",
            );
            self.refuse(place, flaw);
        }
        valid
    }
}

/// The flaw of text that some YAML readers take for something else. Tools that rewrite policies
/// (templates, GitOps) are such readers.
fn unquoted(text: &str, other: &str) -> Flaw {
    let what = if is_date(text) { "a date" } else { other };
    Flaw::new(
        format!(
            "{} without quotes is {what} to some YAML readers",
            shown(text)
        ),
        format!("quote it: `\"{text}\"`"),
    )
}
