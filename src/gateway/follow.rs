//! Follows what an upstream tells of changes, by one subscription of our own, so that what is kept
//! of it does not outlive them (specification, "Subscriptions").

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::answer::Limits;
use super::cache::{Change, Changes};
use super::forward::Destination;
use super::own::{self, Behalf, Told};
use super::relay::{self, Reader, Verdict};
use crate::net::upstream::Inbound;
use crate::observe::{Level, Log};
use crate::protocol::event::Splitter;
use crate::protocol::media;
use crate::protocol::method;
use crate::protocol::response::{Capabilities, List, Message, Notification};
use crate::protocol::version::{Era, Version};

/// The version that we speak where we ask for ourselves.
const VERSION: Version = Version::V2026_07_28;
/// How long to wait before the first further attempt after a subscription broke off; twice as long
/// before each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The most of it.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long to wait where an upstream offers no subscription, or has ended ours in good order, which
/// says not to come back: a later release of it may.
const PAUSE_REFUSED: Duration = Duration::from_secs(600);
/// Most bytes of one event, and of an answer about what an upstream can do.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Follows one upstream, once it has begun to.
pub(super) struct Follower {
    destination: Destination,
    changes: Arc<Changes>,
    drain: CancellationToken,
    log: Log,
    has_begun: AtomicBool,
}

/// How a subscription ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// There was none to be had.
    Refused,
    /// There was none, for a reason that may pass.
    Failed,
    /// In good order.
    Closed,
    /// Not in good order, so that changes may be missed.
    Broken,
}

impl Follower {
    /// Follows the upstream at `destination` until `drain` is cancelled, once it is told to begin.
    pub(super) fn new(destination: Destination, drain: CancellationToken, log: Log) -> Follower {
        Follower {
            destination,
            changes: Arc::default(),
            drain,
            log,
            has_begun: AtomicBool::new(false),
        }
    }

    /// What the upstream has told.
    #[must_use]
    pub(super) fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// Begins, unless it has: something of the upstream is kept from now on.
    pub(super) fn begin(self: &Arc<Self>) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            let follower = Arc::clone(self);
            tokio::spawn(async move {
                let drain = follower.drain.clone();
                drain.run_until_cancelled(follower.follow()).await;
            });
        }
    }

    async fn follow(&self) {
        let mut pause = PAUSE_MIN;
        let mut was_granted = false;
        loop {
            let granted = || {
                // What came while nobody listened may have changed meanwhile.
                if was_granted {
                    self.changes.gap();
                }
                self.told(Level::Info, "changes of an upstream are followed");
            };
            let begun = Instant::now();
            let ended = self.subscribe(granted).await;
            pause = match ended {
                Ended::Refused | Ended::Closed => PAUSE_REFUSED,
                // One that has lasted was none of those that break off at once.
                Ended::Broken if begun.elapsed() > PAUSE_MAX => PAUSE_MIN,
                Ended::Broken | Ended::Failed => (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
            };
            if matches!(ended, Ended::Closed | Ended::Broken) {
                was_granted = true;
                self.changes.gap();
                self.told(
                    Level::Warn,
                    "changes of an upstream are not followed any more",
                );
            }
            sleep(jittered(pause)).await;
        }
    }

    /// Opens a subscription and reads it to its end; `granted` is told when it has begun.
    async fn subscribe(&self, granted: impl FnOnce()) -> Ended {
        let offered = match self.capabilities().await {
            Ok(Some(offered)) => offered,
            Ok(None) => return Ended::Refused,
            Err(ended) => return ended,
        };
        let params = format!(
            r#","notifications":{{"toolsListChanged":{},"promptsListChanged":{},"resourcesListChanged":{}}}"#,
            offered.tools_list_changed,
            offered.prompts_list_changed,
            offered.resources_list_changed
        );
        let message = own::message(
            Era::Modern,
            Some(VERSION),
            method::LISTEN,
            "{}",
            params.as_bytes(),
        );
        let request =
            Behalf::ours().request(&self.destination, Some(VERSION), method::LISTEN, message);
        let Ok(request) = request else {
            return Ended::Refused;
        };
        let (response, _lease) = match self.destination.send(request).await {
            Ok(answered) => answered,
            Err(_) => return Ended::Failed,
        };
        let status = response.status();
        if status.is_server_error() {
            return Ended::Failed;
        }
        if !status.is_success()
            || !media::is_event_stream(response.headers())
            || media::is_coded(response.headers())
        {
            return Ended::Refused;
        }
        self.read(response.into_body(), granted).await
    }

    /// What the upstream offers to tell of; none where that is nothing.
    async fn capabilities(&self) -> Result<Option<Capabilities>, Ended> {
        let message = own::message(Era::Modern, Some(VERSION), method::DISCOVER, "{}", b"");
        let request = Behalf::ours()
            .request(&self.destination, Some(VERSION), method::DISCOVER, message)
            .map_err(|_| Ended::Refused)?;
        let limits = Limits {
            bytes_max: MESSAGE_BYTES_MAX,
            too_long: "an answer that is too long",
            idle_timeout: self.destination.upstream().response_idle_timeout,
            whole_timeout: None,
        };
        let told = own::ask(&self.destination, request, limits).await;
        match told {
            Ok(Told::Response(response)) => Ok(response.capabilities().filter(|offered| {
                offered.tools_list_changed
                    || offered.prompts_list_changed
                    || offered.resources_list_changed
            })),
            Ok(Told::Status(status, _)) if status.is_server_error() => Err(Ended::Failed),
            Ok(Told::Status(..)) => Ok(None),
            Err(_) => Err(Ended::Failed),
        }
    }

    async fn read(&self, mut stream: Inbound, granted: impl FnOnce()) -> Ended {
        let mut granted = Some(granted);
        let mut splitter = Splitter::new(MESSAGE_BYTES_MAX);
        loop {
            let silence_max = self
                .destination
                .upstream()
                .response_idle_timeout
                .max(SILENCE_MAX);
            let Ok(Some(Ok(frame))) = timeout(silence_max, stream.frame()).await else {
                return ended(granted.is_none());
            };
            let chunk = frame.into_data().unwrap_or_default();
            let mut rest = &chunk[..];
            loop {
                match splitter.next(&mut rest) {
                    Ok(Some(event)) if relay::is_message(&event) => {
                        if let ControlFlow::Break(how) = self.heed(event.data, &mut granted) {
                            return how;
                        }
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return ended(granted.is_none()),
                }
            }
        }
    }

    /// Heeds one message of the subscription.
    fn heed(&self, message: &[u8], granted: &mut Option<impl FnOnce()>) -> ControlFlow<Ended> {
        match Notification::read(message) {
            Some(Notification::Acknowledged(_)) => {
                if let Some(granted) = granted.take() {
                    granted();
                }
            }
            Some(notification) => heed(&notification, &self.changes),
            None => {
                let message = Message::read(Bytes::copy_from_slice(message));
                if let Message::Response(response) = message {
                    return ControlFlow::Break(match (response.error(), granted.is_none()) {
                        (_, true) => Ended::Closed,
                        (Some(_) | None, false) => Ended::Refused,
                    });
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn told(&self, level: Level, what: &str) {
        let upstream = &self.destination.upstream().name;
        self.log.event(level, what, &[("upstream", upstream)]);
    }
}

/// Heeds what an upstream tells a client of changes, in passing.
pub(super) struct Heeding {
    changes: Arc<Changes>,
}

impl Heeding {
    /// What `follower` would heed too.
    pub(super) fn beside(follower: &Follower) -> Heeding {
        Heeding {
            changes: Arc::clone(&follower.changes),
        }
    }
}

impl Reader for Heeding {
    fn edits(&self) -> bool {
        false
    }

    fn read(&mut self, message: &[u8]) -> Verdict {
        if let Some(notification) = Notification::read(message) {
            heed(&notification, &self.changes);
        }
        Verdict::Pass
    }

    fn exceeded(&mut self) -> Option<Bytes> {
        // What follows is not read, and may tell of anything.
        self.changes.gap();
        None
    }

    fn ended(&mut self, _: bool) -> Option<Bytes> {
        None
    }
}

/// How long a subscription may be silent before it is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(3600);

fn ended(was_granted: bool) -> Ended {
    match was_granted {
        true => Ended::Broken,
        false => Ended::Failed,
    }
}

/// Voids what a notification says has changed.
pub(super) fn heed(notification: &Notification, changes: &Changes) {
    match notification {
        Notification::ListChanged(List::Tools) => changes.changed(Change::Tools),
        Notification::ListChanged(List::Prompts) => changes.changed(Change::Prompts),
        Notification::ListChanged(List::Resources | List::ResourceTemplates) => {
            changes.changed(Change::Resources);
        }
        Notification::ResourceUpdated { uri: Some(uri) } => changes.resource_updated(uri),
        // It may be any of them.
        Notification::ResourceUpdated { uri: None } | Notification::Unreadable => changes.gap(),
        Notification::Acknowledged(_) => {}
    }
}

/// A pause of between three quarters of `pause` and all of it, so that many gateways do not come
/// back at once.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 256;
    // Below 256, and so exact.
    pause - pause / 4 * u32::try_from(random).unwrap_or_default() / 256
}
