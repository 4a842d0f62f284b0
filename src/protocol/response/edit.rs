//! What changes in a response on its way out.

use std::{iter, mem};

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

/// A run of unchanged bytes from this length on is shared rather than copied: a piece more costs
/// about as much on its way out.
const SHARED_BYTES_MIN: usize = 4096;
/// Room for what is usually copied: the ends of a response, with its id and how long it is fresh.
const COPIED_BYTES: usize = 256;

/// The bytes of an edited response, in the pieces that they leave in.
#[derive(Clone, Debug, Default)]
pub struct Pieces(SmallVec<[Bytes; 3]>);

impl Pieces {
    /// All in one, which is put together where there are several.
    #[must_use]
    pub fn whole(mut self) -> Bytes {
        match &mut self.0[..] {
            [] => Bytes::new(),
            [only] => mem::take(only),
            several => several.concat().into(),
        }
    }
}

impl From<Bytes> for Pieces {
    fn from(whole: Bytes) -> Pieces {
        Pieces(SmallVec::from_iter([whole]))
    }
}

impl IntoIterator for Pieces {
    type Item = Bytes;
    type IntoIter = smallvec::IntoIter<[Bytes; 3]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Pieces as they come: what is copied is put together until something is shared.
struct Joining<'a> {
    bytes: &'a Bytes,
    pieces: SmallVec<[Bytes; 3]>,
    copied: Vec<u8>,
}

impl Joining<'_> {
    fn copy(&mut self, bytes: &[u8]) {
        if self.copied.is_empty() {
            self.copied.reserve(COPIED_BYTES.max(bytes.len()));
        }
        self.copied.extend_from_slice(bytes);
    }

    fn unchanged(&mut self, span: Span) {
        match span.len() < SHARED_BYTES_MIN {
            true => self.copy(&self.bytes[span]),
            false => {
                self.end_copied();
                self.pieces.push(self.bytes.slice(span));
            }
        }
    }

    fn end_copied(&mut self) {
        if !self.copied.is_empty() {
            self.pieces.push(mem::take(&mut self.copied).into());
        }
    }
}

pub(super) fn edited(response: &Response, edit: &Edit<'_>) -> Pieces {
    let bytes = &response.bytes;
    let mut ttl_ms = itoa::Buffer::new();
    let ttl_ms = edit.ttl_ms.map(|number| ttl_ms.format(number).as_bytes());
    let mut changes = changes(response, edit, ttl_ms);
    if changes.is_empty() {
        return bytes.clone().into();
    }
    changes.sort_unstable_by_key(|(span, _)| span.start);
    let mut joining = Joining {
        bytes,
        pieces: SmallVec::new(),
        copied: Vec::new(),
    };
    let mut done = 0;
    for (span, new) in &changes {
        joining.unchanged(done..span.start);
        new.pieces(bytes).for_each(|piece| joining.copy(piece));
        done = span.end;
    }
    joining.unchanged(done..bytes.len());
    joining.end_copied();
    Pieces(joining.pieces)
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
