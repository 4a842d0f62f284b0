//! The definition of the tool that a call names, and the headers of its arguments held against them
//! (specification, "Custom Headers from Tool Parameters").

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::Whose;
use super::learning::Learning;
use super::lists::{Knowledge, ListKey};
use super::tool::Tool;
use crate::gateway::cache::Change;
use crate::gateway::inquiry::Inquiry;
use crate::gateway::message::Call;
use crate::gateway::own::{self, Behalf};
use crate::gateway::recall::{self, Unfetched};
use crate::gateway::relay::Deadline;
use crate::gateway::sender::Sender;
use crate::gateway::serving::{Running, Serving};
use crate::policy::pin::{self, OnChange, Standing};
use crate::policy::plan::Missing;
use crate::protocol::frame::{self, Frame};
use crate::protocol::header;
use crate::protocol::members::Members;
use crate::protocol::method;
use crate::protocol::refusal::{CatalogFault, HeaderFault, MessageFault, Refusal, UpstreamFault};
use crate::protocol::response::List;
use crate::protocol::version::Era;

/// Most pages of a list that are fetched for one call.
const PAGES_MAX: usize = 100;

/// The lines that go upstream in place of the client's; all others agree as they stand, or are none
/// that the tool has.
pub(in crate::gateway) type ParamLines = Vec<(HeaderName, HeaderValue)>;

/// A call whose tool is asked for.
pub(in crate::gateway) struct Calling<'a> {
    /// The gateway.
    pub(in crate::gateway) gateway: &'a Running,
    /// Its route.
    pub(in crate::gateway) serving: &'a Serving,
    /// Its head.
    pub(in crate::gateway) head: &'a Parts,
    /// What it asks for.
    pub(in crate::gateway) call: Call<'a>,
    /// Its body, where that is at hand.
    pub(in crate::gateway) body: Option<&'a Bytes>,
    /// When it must have been answered.
    pub(in crate::gateway) deadline: Option<Deadline>,
}

impl Calling<'_> {
    /// The definition of the tool; none where its headers are not judged by it, or where it cannot be
    /// had, of which the log learns.
    ///
    /// # Errors
    /// The definition cannot be had, and must be; or it is not what was pinned.
    pub(in crate::gateway) async fn definition(
        &self,
        inquiry: &mut Inquiry<'_>,
    ) -> Result<Option<Arc<Tool>>, Refusal> {
        let Call {
            era, is_request, ..
        } = self.call;
        let route = &*self.serving.route;
        let judges = is_request && era == Era::Modern && route.catalog.enabled;
        // What is sent as a notification may be run all the same.
        let is_judged = judges || self.pin().is_some();
        let Some(name) = self
            .call
            .name
            .filter(|_| is_judged && self.call.method == method::CALL)
        else {
            return Ok(None);
        };
        let knowledge = match self.known(name) {
            Knowledge::Unknown => Box::pin(self.learn(name, &inquiry.sender)).await?,
            known => known,
        };
        self.check_pin(name, &knowledge)?;
        match knowledge {
            _ if !judges => Ok(None),
            Knowledge::Known(tool) => Ok(Some(tool)),
            _ if route.catalog.required => Err(CatalogFault::Unknown {
                upstream: route.upstream.name.clone(),
                tool: name.to_owned(),
            }
            .into()),
            Knowledge::Absent | Knowledge::Unknown | Knowledge::NoList => {
                inquiry.exchange.schema("none");
                Ok(None)
            }
        }
    }

    /// Holds the headers of the arguments of the call in `frame` against them.
    ///
    /// # Errors
    /// What is missing, repeated, malformed, unexpected or different (−32020); an argument that stands
    /// twice (−32600).
    pub(in crate::gateway) async fn judge(
        &self,
        frame: &Frame,
        inquiry: &mut Inquiry<'_>,
    ) -> Result<ParamLines, Refusal> {
        let Some(tool) = self.definition(inquiry).await? else {
            return Ok(Vec::new());
        };
        let fault = match self.agree(&tool, frame)? {
            Ok(lines) => return Ok(lines),
            Err(fault) => fault,
        };
        // The tool may have changed since its list was read; then it is judged by what it is now.
        let name = tool.name();
        let catalog = &self.serving.catalog;
        if !catalog.doubts_tool(
            Whose::ALL.map(|whose| self.key(whose)),
            name,
            Instant::now(),
        ) {
            return Err(fault.into());
        }
        self.serving.follower.changes().changed(Change::Tools);
        let knowledge = Box::pin(self.learn(name, &inquiry.sender)).await?;
        self.check_pin(name, &knowledge)?;
        match knowledge {
            Knowledge::Known(tool) => Ok(self.agree(&tool, frame)??),
            Knowledge::Absent | Knowledge::Unknown | Knowledge::NoList => Err(fault.into()),
        }
    }

    /// What the tool must be as, where only those may be called that are as they were pinned.
    fn pin(&self) -> Option<&pin::Pin> {
        let pin = self.serving.route.pin.as_ref();
        pin.filter(|pin| pin.on_change == OnChange::Block)
    }

    fn check_pin(&self, name: &str, knowledge: &Knowledge) -> Result<(), CatalogFault> {
        let Some(pin) = self.pin() else {
            return Ok(());
        };
        let how = match knowledge {
            Knowledge::Known(tool) if tool.is_ambiguous() => {
                "cannot be held against what was pinned: its server lists two of its name"
            }
            Knowledge::Known(tool) => match pin.lock.standing(name, tool.digest()) {
                Standing::Pinned => return Ok(()),
                Standing::Changed => "is not the one that was pinned: its definition has changed",
                Standing::Added => "was not pinned",
            },
            Knowledge::Absent | Knowledge::Unknown | Knowledge::NoList => {
                "cannot be held against what was pinned: its server does not list it"
            }
        };
        Err(CatalogFault::NotPinned {
            tool: name.to_owned(),
            how,
        })
    }

    fn agree(
        &self,
        tool: &Tool,
        frame: &Frame,
    ) -> Result<Result<ParamLines, HeaderFault>, MessageFault> {
        // Clients drop a tool with annotations that are not valid; whoever calls it all the same has
        // none that anybody could go by.
        let Some(annotations) = tool.annotations().ok().filter(|all| !all.is_empty()) else {
            return Ok(Ok(Vec::new()));
        };
        let route = &*self.serving.route;
        let bounds = &route.bounds.message;
        let found = frame::scan(frame.body().clone(), bounds, annotations.paths())
            .map_err(MessageFault::Unreadable)?;
        let supplies = route.protocol.missing == Missing::Mirror;
        Ok(annotations.agree(&found, &self.head.headers, bounds.name_bytes_max, supplies))
    }

    fn key(&self, whose: Whose) -> ListKey {
        let Call { era, version, .. } = self.call;
        self.serving.catalog.key(whose, era, version, self.head)
    }

    fn known(&self, name: &str) -> Knowledge {
        let now = Instant::now();
        let epoch = self.serving.follower.changes().tools();
        let lists = &self.serving.catalog.lists;
        match lists.tool(self.key(Whose::Everybody), name, epoch, now) {
            Knowledge::Unknown => lists.tool(self.key(Whose::Caller), name, epoch, now),
            known => known,
        }
    }

    /// Has the list fetched, once for all calls of the same caller that wait for it, and within the
    /// time that the call has.
    async fn learn(&self, name: &str, sender: &Sender) -> Result<Knowledge, Refusal> {
        let route = &*self.serving.route;
        let turn = self.serving.catalog.turn(self.key(Whose::Caller));
        let learning = async {
            // Whoever has waited too long goes beside the others.
            let _turn = timeout(route.cache.wait_timeout, turn.lock()).await;
            match self.known(name) {
                Knowledge::Unknown => self.fetch(name, sender).await,
                known => Ok(known),
            }
        };
        match self.deadline {
            None => learning.await,
            Some(deadline) => timeout_at(deadline.at, learning)
                .await
                .unwrap_or_else(|_| Err(deadline.fault(&route.upstream).into())),
        }
    }

    /// Fetches the list until the tool is found in it, or it ends.
    async fn fetch(&self, name: &str, sender: &Sender) -> Result<Knowledge, Refusal> {
        let Call { era, version, .. } = self.call;
        let behalf = Behalf::of(self.head, sender, era);
        let capabilities = self.capabilities();
        let mut cursor: Option<Vec<u8>> = None;
        let mut has_restarted = false;
        for _ in 0..PAGES_MAX {
            let message = own::message(
                era,
                version,
                LIST,
                &capabilities,
                &member(cursor.as_deref()),
            );
            let text = cursor
                .as_deref()
                .and_then(|raw| serde_json::from_slice(raw).ok());
            let learning = Learning::new(self.serving, self.head, era, version, text);
            let page = recall::fetch(
                self.gateway,
                self.serving,
                &behalf,
                version,
                message,
                learning,
            );
            let page = Box::pin(page).await;
            let is_refused = match &page {
                Ok(page) => page.error().is_some(),
                Err(Unfetched::Status(status, _)) => status.is_client_error(),
                Err(Unfetched::Refused(_)) => false,
            };
            if is_refused && cursor.is_some() && !has_restarted {
                // The list has changed since its pages were read, so that they are void.
                self.serving.follower.changes().changed(Change::Tools);
                (cursor, has_restarted) = (None, true);
                continue;
            }
            let page = match page {
                Ok(page) => page,
                Err(unfetched) => return self.unlisted(unfetched),
            };
            if let Some(error) = page.error() {
                return self.no_list(error.is_of_the_request());
            }
            if page.items(List::Tools).is_none() {
                return self.no_list(true);
            }
            match self.known(name) {
                Knowledge::Unknown => {}
                known => return Ok(known),
            }
            match page.next_cursor() {
                Some(next) => cursor = Some(next.to_vec()),
                None => break,
            }
        }
        Ok(Knowledge::Unknown)
    }

    /// There was no answer in which a list could be.
    fn unlisted(&self, unfetched: Unfetched) -> Result<Knowledge, Refusal> {
        match unfetched {
            Unfetched::Refused(refusal) => Err(refusal),
            Unfetched::Status(status, challenge) if self.is_of_the_caller(status) => {
                let route = &*self.serving.route;
                if self.pin().is_none() && !route.catalog.required {
                    // The call itself will be told so, with what the client needs to sign in.
                    return Ok(Knowledge::NoList);
                }
                Err(UpstreamFault::Refused {
                    upstream: route.upstream.name.clone(),
                    status: status.as_u16(),
                    challenge,
                }
                .into())
            }
            Unfetched::Status(status, _) if status.is_server_error() || status.as_u16() == 429 => {
                Err(self.failed(status.to_string()))
            }
            Unfetched::Status(..) => self.no_list(true),
        }
    }

    /// Whether an answer with this status means this caller, and not what it asks for: that it must
    /// sign in, may not, or has a legacy session that has ended.
    fn is_of_the_caller(&self, status: StatusCode) -> bool {
        match status.as_u16() {
            401 | 403 => true,
            404 => {
                self.call.era == Era::Legacy && self.head.headers.contains_key(header::SESSION_ID)
            }
            _ => false,
        }
    }

    /// The upstream has no list to give, which `is_certain` for a while; or it failed to.
    fn no_list(&self, is_certain: bool) -> Result<Knowledge, Refusal> {
        if !is_certain {
            return Err(self.failed("an error in place of its list of tools".to_owned()));
        }
        let catalog = &self.serving.catalog;
        let epoch = self.serving.follower.changes().tools();
        let age = self.serving.route.catalog.max_age;
        catalog
            .lists
            .no_list(self.key(Whose::Caller), epoch, age, Instant::now());
        Ok(Knowledge::NoList)
    }

    fn failed(&self, detail: String) -> Refusal {
        UpstreamFault::Failed {
            upstream: self.serving.route.upstream.name.clone(),
            what: "did not give its list of tools",
            detail,
        }
        .into()
    }

    /// The capabilities of the client, raw, which its list may depend on.
    fn capabilities(&self) -> Cow<'_, str> {
        let body = self.body.map_or(&b"{}"[..], |body| body);
        let capabilities = || {
            let params = Members::read(body).ok()?.of("params")?;
            let meta = Members::read(params.as_bytes()).ok()?.of("_meta")?;
            let members = Members::read(meta.as_bytes()).ok()?;
            members.of("io.modelcontextprotocol/clientCapabilities")
        };
        Cow::Borrowed(capabilities().unwrap_or("{}"))
    }
}

const LIST: &str = "tools/list";

/// The cursor as a member of parameters.
fn member(cursor: Option<&[u8]>) -> Vec<u8> {
    cursor.map_or_else(Vec::new, |raw| [br#","cursor":"#, raw].concat())
}

/// A body that passed by was refused. Where that was for the header of an argument, the tool may have
/// changed since its list was read.
pub(in crate::gateway) fn doubt_by_claim(serving: &Serving, refusal: &Refusal) {
    if let Refusal::Header(fault) = refusal
        && fault.is_of_argument()
        && serving.catalog.doubts(Instant::now())
    {
        serving.follower.changes().changed(Change::Tools);
    }
}
