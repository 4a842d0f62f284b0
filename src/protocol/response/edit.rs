//! What changes in a response on its way out.

use std::iter;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Array, List, Response, Span, text};

/// The values to replace. The default replaces none; and what a response does not have is not added
/// to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'a> {
    /// The id, raw.
    pub id: Option<&'a [u8]>,
    /// `ttlMs` of the result, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether `cacheScope` of the result becomes `private`, whatever it was.
    pub private: bool,
    /// Which items of a list stay, by their index, and in which order. Other lists keep theirs.
    pub items: &'a [(List, &'a [usize])],
    /// `supportedVersions` of the result, raw.
    pub supported_versions: Option<&'a [u8]>,
}

/// What takes the place of a value.
enum New<'a> {
    Raw(&'a [u8]),
    Items(&'a Array, &'a [usize]),
}

/// Few enough that a response is edited without a further allocation: one for each member of an
/// edit, and for each list.
type Changes<'a> = SmallVec<[(Span, New<'a>); 8]>;

pub(super) fn edited(response: &Response, edit: &Edit<'_>) -> Bytes {
    let bytes = &response.bytes;
    let mut ttl_ms = itoa::Buffer::new();
    let ttl_ms = edit.ttl_ms.map(|number| ttl_ms.format(number).as_bytes());
    let mut changes = changes(response, edit, ttl_ms);
    if changes.is_empty() {
        return bytes.clone();
    }
    changes.sort_unstable_by_key(|(span, _)| span.start);
    let removed: usize = changes.iter().map(|(span, _)| span.len()).sum();
    let added = changes.iter().flat_map(|(_, new)| new.pieces(bytes));
    let length = bytes.len() - removed + added.map(<[u8]>::len).sum::<usize>();
    let mut edited = Vec::with_capacity(length);
    let mut done = 0;
    for (span, new) in &changes {
        edited.extend_from_slice(&bytes[done..span.start]);
        new.pieces(bytes)
            .for_each(|piece| edited.extend_from_slice(piece));
        done = span.end;
    }
    edited.extend_from_slice(&bytes[done..]);
    Bytes::from(edited)
}

/// What really changes.
fn changes<'a>(response: &'a Response, edit: &Edit<'a>, ttl_ms: Option<&'a [u8]>) -> Changes<'a> {
    let mut changes = Changes::new();
    let mut replace = |span: Option<&Span>, new: Option<&'a [u8]>| {
        if let (Some(span), Some(new)) = (span, new)
            && response.bytes[span.clone()] != *new
        {
            changes.push((span.clone(), New::Raw(new)));
        }
    };
    replace(response.id.as_ref(), edit.id);
    let Some(found) = response.found() else {
        return changes;
    };
    replace(found.ttl_ms.as_ref(), ttl_ms);
    replace(found.supported_versions.as_ref(), edit.supported_versions);
    let scope = response.raw(found.cache_scope.as_ref());
    // It may say so with an escape sequence.
    let is_private = scope.and_then(text).is_some_and(|scope| scope == "private");
    let private = (edit.private && !is_private).then_some(&b"\"private\""[..]);
    replace(found.cache_scope.as_ref(), private);
    for (list, chosen) in edit.items {
        if let Some(array) = found.array(*list)
            && !chosen.iter().copied().eq(0..array.items.len())
        {
            changes.push((array.whole.clone(), New::Items(array, chosen)));
        }
    }
    changes
}

impl<'a> New<'a> {
    /// What it consists of. Items are joined by commas, without the blanks that were between them.
    fn pieces(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let (raw, items) = match *self {
            New::Raw(raw) => (Some(raw), None),
            New::Items(array, chosen) => (None, Some(pieces(bytes, array, chosen))),
        };
        raw.into_iter().chain(items.into_iter().flatten())
    }
}

fn pieces<'a>(
    bytes: &'a [u8],
    array: &'a Array,
    chosen: &'a [usize],
) -> impl Iterator<Item = &'a [u8]> {
    let items = chosen.iter().filter_map(|index| array.items.get(*index));
    let joined = items.enumerate().flat_map(|(place, item)| {
        let comma: &[u8] = if place == 0 { b"" } else { b"," };
        [comma, &bytes[item.whole.clone()]]
    });
    let (open, close) = (iter::once(&b"["[..]), iter::once(&b"]"[..]));
    open.chain(joined).chain(close)
}

#[cfg(test)]
mod tests;
