//! What a request asks for, as far as its answer depends on it.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;

use super::audience::{Audience, is_harmless};
use super::change::Changes;
use super::kind::Kind;
use super::status::Why;
use crate::policy::plan::{Cache, LegacyCache};
use crate::protocol::canonical::{Digest, Numbers, canonical};
use crate::protocol::frame::{Field, Frame, Text};
use crate::protocol::params::{Params, Row};
use crate::protocol::version::{Era, Version};

/// Room that the usual request's key does not outgrow while it is put together.
const PREIMAGE_BYTES: usize = 1024;

/// A request for something that may be kept, with its way.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Asking<'q> {
    /// The name of its route.
    pub(in crate::gateway) route: &'q str,
    /// What the route keeps.
    pub(in crate::gateway) policy: &'q Cache,
    /// The name of its upstream.
    pub(in crate::gateway) upstream: &'q str,
    /// What that tells of changes.
    pub(in crate::gateway) changes: &'q Arc<Changes>,
    /// What it asks for.
    pub(in crate::gateway) kind: Kind,
    /// Its era.
    pub(in crate::gateway) era: Era,
    /// Its version, if it is one that we know.
    pub(in crate::gateway) version: Option<Version>,
    /// Its head, as it came.
    pub(in crate::gateway) head: &'q Parts,
    /// Its body.
    pub(in crate::gateway) frame: &'q Frame,
}

/// What an answer is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) digest: Digest,
    pub(super) audience: Audience,
}

/// A request that may be answered from memory.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Question<'q> {
    pub(super) key: Key,
    /// The digest of the list's first page, where it asks for a page.
    pub(super) list: Digest,
    pub(super) asking: Asking<'q>,
    /// The URI of a resource, the cursor of a page.
    pub(super) target: Option<Cow<'q, str>>,
    /// How its answer is kept, if it is of a legacy version.
    pub(super) legacy: Option<LegacyCache>,
}

impl<'q> Question<'q> {
    /// What is asked for; `secret` makes the digests of this process its own.
    ///
    /// # Errors
    /// Why the request is not answered from memory.
    pub(super) fn of(asking: Asking<'q>, secret: &[u8]) -> Result<Question<'q>, Why> {
        let Asking {
            policy,
            era,
            head,
            frame,
            kind,
            ..
        } = asking;
        if !policy.enabled {
            return Err(Why::Off);
        }
        let legacy = match era {
            Era::Modern => None,
            Era::Legacy => Some(policy.legacy.ok_or(Why::Legacy)?),
        };
        if frame.has_input_responses() || frame.has_request_state() {
            return Err(Why::Input);
        }
        let query = head.uri.query().filter(|query| !query.is_empty());
        let audience = Audience::of(era, &head.headers, query.is_some(), legacy)?;
        let target = match kind {
            Kind::Discover => None,
            Kind::Contents => Some(text(frame, Field::Uri).ok_or(Why::Params)?),
            _ => text(frame, Field::Cursor),
        };
        let mut preimage = Preimage::begin(secret);
        preimage.part(asking.route.as_bytes());
        preimage.part(asking.upstream.as_bytes());
        preimage.part(kind.method().as_bytes());
        preimage.part(version(asking.version).as_bytes());
        // Upstreams are told the host that a request named, and may be several servers by it.
        preimage.part(&host(head));
        preimage.part(query.unwrap_or_default().as_bytes());
        if audience == Audience::Session {
            preimage.headers(head);
        }
        let cursor = preimage.params(frame.body(), kind).ok_or(Why::Params)?;
        let list = Digest::of(&preimage.0);
        let digest = match cursor {
            None => list,
            Some(cursor) => {
                let mut page = Preimage::begin(secret);
                page.part(list.as_bytes());
                page.json(cursor).ok_or(Why::Params)?;
                Digest::of(&page.0)
            }
        };
        Ok(Question {
            key: Key { digest, audience },
            list,
            asking,
            target,
            legacy,
        })
    }

    /// Where an answer may be found: under the own key first, and then under that of answers which
    /// anybody may be given.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let anybody = Key {
            audience: Audience::Anybody,
            ..self.key
        };
        let too = self.key.audience == Audience::Credentialed;
        std::iter::once(self.key).chain(too.then_some(anybody))
    }
}

/// The version as it stands in a description.
pub(super) fn version(version: Option<Version>) -> &'static str {
    version.map_or("unknown", Version::as_str)
}

fn text(frame: &Frame, field: Field) -> Option<Cow<'_, str>> {
    match frame.text(field) {
        Text::Is(text) => Some(text),
        Text::Absent | Text::WrongType => None,
    }
}

fn host(head: &Parts) -> Vec<u8> {
    let named = head.headers.get(HOST).map(|host| host.as_bytes());
    let authority = head.uri.authority().map(|host| host.as_str().as_bytes());
    let host = named.or(authority).unwrap_or_default();
    host.to_ascii_lowercase()
}

/// What a digest is made of. Every part has its length before it and every row of them their
/// number, so that no two questions are put together the same.
struct Preimage(Vec<u8>);

impl Preimage {
    fn begin(secret: &[u8]) -> Preimage {
        let mut preimage = Preimage(Vec::with_capacity(PREIMAGE_BYTES));
        preimage.part(secret);
        preimage
    }

    fn part(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.extend_from_slice(part);
    }

    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&(count as u64).to_le_bytes());
    }

    /// A value in the form that all ways to write it have. Numbers stay as they are written: those
    /// that one server takes for equal may not be to another.
    fn json(&mut self, raw: &[u8]) -> Option<()> {
        let is_plain = !raw.starts_with(b"{") && !raw.starts_with(b"[") && !raw.contains(&b'\\');
        match is_plain {
            true => self.part(raw),
            false => self.part(&canonical(raw, Numbers::AsWritten).ok()?),
        }
        Some(())
    }

    /// The fields that a credential may stand in, the id of the session among them.
    fn headers(&mut self, head: &Parts) {
        let lines = || {
            let all = head.headers.iter();
            all.filter(|(name, _)| !is_harmless(name.as_str(), Era::Legacy))
        };
        self.count(lines().count());
        for (name, value) in lines() {
            self.part(name.as_str().as_bytes());
            self.part(value.as_bytes());
        }
    }

    /// The parameters in `body`, without those that no answer depends on; the cursor of a list is
    /// not put in but given back, raw.
    fn params<'b>(&mut self, body: &'b [u8], kind: Kind) -> Option<Option<&'b [u8]>> {
        let params = Params::read(body)?;
        let is_cursor = |name: &[u8]| kind.is_list() && name == b"cursor";
        self.members(&params.members, is_cursor)?;
        self.members(&params.meta, says_nothing)?;
        let mut members = params.members.iter();
        Some(members.find_map(|(name, raw)| is_cursor(name).then_some(*raw)))
    }

    fn members(&mut self, row: &Row<'_>, is_left_out: impl Fn(&[u8]) -> bool) -> Option<()> {
        let rest = || row.iter().filter(|(name, _)| !is_left_out(name));
        self.count(rest().count());
        for (name, raw) in rest() {
            self.part(name);
            self.json(raw)?;
        }
        Some(())
    }
}

/// Whether no answer depends on what `_meta` says under this name. The list is closed: everything
/// else is a part of the question.
fn says_nothing(name: &[u8]) -> bool {
    matches!(
        name,
        b"progressToken"
            | b"io.modelcontextprotocol/clientInfo"
            | b"io.modelcontextprotocol/logLevel"
            | b"traceparent"
            | b"tracestate"
            | b"baggage"
    )
}

#[cfg(test)]
mod tests;
