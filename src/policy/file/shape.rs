//! What a key takes, as its own reader tells it. A reader that is given [`Data::Asked`] reads nothing
//! and says what it would have read; so no second list of the keys can differ from what is enforced.
//!
//! [`Data::Asked`]: super::node::Data::Asked

use std::ops::RangeInclusive;

/// One of the things that a value may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text, described in words.
    Text(String),
    /// One of these words.
    Choice(Vec<String>),
    /// A size in bytes, such as `64Ki`.
    Size,
    /// A count within this range.
    Count(RangeInclusive<u64>),
    /// A time, such as `30s`.
    Duration,
    /// `{file: PATH}` or `{env: NAME}`.
    Elsewhere,
    /// A list of things that are one of these.
    List(Vec<Shape>),
    /// A mapping with these keys, each with what it takes.
    Keys(Vec<(&'static str, Vec<Shape>)>),
    /// A mapping with keys of one's own, each of which takes one of these.
    Named(Vec<Shape>),
}

/// What was told while a key was read: what follows the beginning of a list or of a mapping with
/// names of one's own is what stands in it.
pub(super) fn gathered(mut told: Vec<Shape>) -> Vec<Shape> {
    let opens = |shape: &Shape| match shape {
        Shape::List(inner) | Shape::Named(inner) => inner.is_empty(),
        _ => false,
    };
    if let Some(at) = told.iter().position(opens) {
        let inner = gathered(told.split_off(at + 1));
        match &mut told[at] {
            Shape::List(elements) | Shape::Named(elements) => *elements = inner,
            _ => {}
        }
    }
    told
}
