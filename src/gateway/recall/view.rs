//! What leaves of an answer. It is kept as the upstream gave it; what its route takes from it, and
//! in which order its lists leave, is decided anew from that.

use std::sync::Arc;

use crate::gateway::answer::Limits;
use crate::gateway::message::Call;
use crate::policy::pin::OnChange;
use crate::policy::plan::{Order, Route};
use crate::protocol::method;
use crate::protocol::response::{Edit, Item, List, Pieces, Response};
use crate::protocol::version::{Era, Version, Versions};

/// How answers to one method leave a route.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct View {
    route: Arc<Route>,
    of: Of,
}

/// What kind of answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// That to `server/discover`: the versions are those of the route.
    Discovery,
    /// A page of a list.
    List(List, Era),
    /// Something that leaves as it came.
    Other,
}

/// What of one answer leaves: the same for everybody who may be given it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::gateway) struct Selection {
    /// The items that stay, in their order; absent where all stay in theirs.
    items: Option<(List, Box<[usize]>)>,
    /// The versions, raw, where they are not those that the server lists.
    versions: Option<Box<[u8]>>,
}

impl Selection {
    /// The memory that it takes beside its own room, in bytes.
    #[must_use]
    pub(in crate::gateway) fn held_bytes(&self) -> usize {
        let items = self.items.as_ref();
        let items = items.map_or(0, |(_, items)| size_of_val::<[usize]>(items));
        items + self.versions.as_ref().map_or(0, |raw| raw.len())
    }

    /// Whether all of the answer leaves as it came.
    #[must_use]
    pub(in crate::gateway) fn is_whole(&self) -> bool {
        self.items.is_none() && self.versions.is_none()
    }
}

/// An answer that the route must change cannot be read one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Undecidable;

impl View {
    /// How the answer to `call` leaves `route`.
    #[must_use]
    pub(in crate::gateway) fn of(call: &Call<'_>, route: &Arc<Route>) -> View {
        let of = match (call.era, List::of(call.method)) {
            (Era::Modern, None) if call.method == method::DISCOVER => Of::Discovery,
            (era, Some(list)) => Of::List(list, era),
            _ => Of::Other,
        };
        View {
            route: Arc::clone(route),
            of,
        }
    }

    /// Whether an answer may have to leave otherwise than it came, so that one that cannot be read
    /// must not leave at all.
    #[must_use]
    pub(in crate::gateway) fn demands(&self) -> bool {
        match self.of {
            Of::Discovery => true,
            // A tool with an annotation that is not valid is none (specification, "Schema Extension").
            Of::List(List::Tools, Era::Modern) => {
                self.route.catalog.enabled || self.hides() || self.sorts()
            }
            Of::List(List::Tools, Era::Legacy) => self.hides() || self.sorts(),
            Of::List(..) => self.sorts(),
            Of::Other => false,
        }
    }

    /// The route.
    #[must_use]
    pub(in crate::gateway) fn route(&self) -> &Route {
        &self.route
    }

    /// Within which bounds an answer is held; one that need not be read within `entry_bytes_max`.
    #[must_use]
    pub(in crate::gateway) fn limits(&self, entry_bytes_max: usize) -> Limits {
        let (bytes_max, too_long) = match self.of {
            Of::Discovery => (
                self.route.bounds.buffer_bytes,
                "an answer that must be read and exceeds bounds.buffer_bytes",
            ),
            Of::List(..) if self.demands() => (
                self.route.catalog.list_bytes_max,
                "a list that must be read and exceeds catalog.list_bytes_max",
            ),
            Of::List(..) | Of::Other => (
                entry_bytes_max,
                "an answer that exceeds cache.entry_bytes_max",
            ),
        };
        Limits {
            bytes_max,
            too_long,
            idle_timeout: self.route.upstream.response_idle_timeout,
            whole_timeout: (self.of == Of::Discovery)
                .then_some(self.route.upstream.response_header_timeout),
        }
    }

    /// What of `response` leaves. `stays` is asked of each tool, by its position.
    ///
    /// # Errors
    /// Where that cannot be told.
    pub(in crate::gateway) fn select(
        &self,
        response: &Response,
        stays: impl Fn(usize) -> bool,
    ) -> Result<Selection, Undecidable> {
        if response.result().is_none() || !self.demands() {
            return Ok(Selection::default());
        }
        match self.of {
            Of::Discovery => Ok(Selection {
                versions: versions(response, self.route.protocol.versions)?,
                ..Selection::default()
            }),
            Of::List(list, _) => self.select_items(response, list, stays),
            Of::Other => Ok(Selection::default()),
        }
    }

    fn select_items(
        &self,
        response: &Response,
        list: List,
        stays: impl Fn(usize) -> bool,
    ) -> Result<Selection, Undecidable> {
        let Some(items) = response.items(list) else {
            // There is nothing that could be taken from it: under a name that only some readers take
            // for the list's, it could not have been read.
            return Ok(Selection::default());
        };
        let count = items.len();
        let mut stay: Vec<(usize, Item<'_>)> = items.enumerate().collect();
        if list == List::Tools {
            stay.retain(|(index, _)| stays(*index));
        }
        if self.sorts() {
            stay.sort_by_cached_key(|(_, item)| item.name());
        }
        let stay: Box<[usize]> = stay.into_iter().map(|(index, _)| index).collect();
        let is_whole = stay.len() == count && stay.is_sorted();
        Ok(Selection {
            items: (!is_whole).then_some((list, stay)),
            versions: None,
        })
    }

    /// The bytes that leave, with this id and this time to live, in milliseconds, where they are not
    /// those that came.
    #[must_use]
    pub(in crate::gateway) fn leave(
        response: &Response,
        selection: &Selection,
        id: Option<&[u8]>,
        ttl_ms: Option<u64>,
    ) -> Pieces {
        let items = selection.items.as_ref();
        let items = items.map(|(list, stay)| (*list, &**stay));
        response.edited(&Edit {
            id,
            ttl_ms,
            private: false,
            items: items.as_slice(),
            supported_versions: selection.versions.as_deref(),
        })
    }

    fn sorts(&self) -> bool {
        self.route.catalog.order == Order::Name
    }

    fn hides(&self) -> bool {
        let pin = self.route.pin.as_ref();
        pin.is_some_and(|pin| pin.on_change != OnChange::Warn)
    }
}

/// The versions of the route, where the list of a discover result is another: the modern ones that
/// the server has too, and the legacy ones, which servers that speak both eras do not name there.
fn versions(response: &Response, served: Versions) -> Result<Option<Box<[u8]>>, Undecidable> {
    // A result without a list offers nothing that could be refused afterwards.
    let Some(raw) = response.supported_versions() else {
        return Ok(None);
    };
    let offered: Vec<String> = serde_json::from_slice(raw).map_err(|_| Undecidable)?;
    let listed: Vec<&str> = served
        .iter()
        .filter(|version| !version.is_modern() || offered.iter().any(|o| o == version.as_str()))
        .map(Version::as_str)
        .collect();
    if listed == offered {
        return Ok(None);
    }
    let list = serde_json::to_vec(&listed).map_err(|_| Undecidable)?;
    Ok(Some(list.into()))
}
