//! The watch over one connection: what ends it, and when.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::streams::Open;
use crate::net::alarm::Alarm;
use crate::net::ending::{Phase, Phases};
use crate::net::wire::{Idle, Peer, Protocol, Watch};
use crate::policy::plan::Listen;

/// How often a client is looked for that has sent more than is read ahead of its exchange: its end
/// stands behind that.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// It was closed in good order between two exchanges.
    Client,
    /// The client went in the middle of an exchange.
    Gone,
    /// No complete head came in time.
    Silent { head_begun: bool },
    /// The client did not say in time which protocol it speaks.
    Undecided,
    /// The client did not take anything of its answer for too long.
    Untaken,
    /// The process ends.
    Shutdown,
    /// The HTTP library gave up.
    Failed(hyper::Error),
}

/// What is to be done with the library's connection.
enum Order {
    /// It finishes what it has, and takes nothing new.
    Leave,
    /// It ends.
    End(End),
}

/// A connection that was told to leave because no request comes.
#[derive(Clone, Copy)]
struct Leaving {
    since: Instant,
    written: u64,
}

/// Watches over a connection: for the client's end while the library does not look, for silence, for
/// answers that are not taken, and for the end of the process. One timer serves all of it; it is set
/// anew only when it fires, so that a request costs no timer.
pub(super) struct Vigil<S> {
    watch: Watch<S>,
    phases: Phases,
    alarm: Alarm,
    handshake_timeout: Duration,
    header_read_timeout: Duration,
    write_idle_timeout: Duration,
    /// The exchanges of HTTP/2; they are reset one by one, and the library waits for what of them is
    /// not written yet.
    streams: Option<Open>,
    /// The library was told to leave: when, and when so much was written.
    leaving: Option<Leaving>,
}

impl<S: AsyncRead + AsyncWrite + Peer + Unpin> Vigil<S> {
    pub(super) fn new(watch: Watch<S>, listen: &Listen, phases: Phases) -> Vigil<S> {
        Vigil {
            watch,
            phases,
            alarm: Alarm::new(Instant::now() + listen.header_read_timeout),
            handshake_timeout: listen.handshake_timeout,
            header_read_timeout: listen.header_read_timeout,
            write_idle_timeout: listen.write_idle_timeout,
            streams: None,
            leaving: None,
        }
    }

    pub(super) fn watch(&self) -> &Watch<S> {
        &self.watch
    }

    /// From now on it is a connection of HTTP/2, with these exchanges.
    pub(super) fn watch_over(&mut self, streams: Open) {
        self.streams = Some(streams);
    }

    /// Waits for what the client speaks. A client that is silent may be so for as long as between
    /// two requests; one that has begun to say it may not.
    ///
    /// # Errors
    /// How the connection ended.
    pub(super) async fn protocol(&mut self) -> Result<Protocol, End> {
        let mut begun = false;
        poll_fn(|cx| {
            if let Poll::Ready(protocol) = self.watch.poll_protocol(cx) {
                return Poll::Ready(Ok(protocol));
            }
            if !begun && self.watch.received() > 0 {
                begun = true;
                self.alarm.reset(Instant::now() + self.handshake_timeout);
            }
            if self.alarm.poll(cx).is_ready() {
                return Poll::Ready(Err(match begun {
                    true => End::Undecided,
                    false => End::Silent { head_begun: false },
                }));
            }
            match self.phases.poll(cx) {
                Poll::Ready(Phase::Draining | Phase::Ending) => Poll::Ready(Err(End::Shutdown)),
                Poll::Ready(Phase::Serving) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Drives the library's connection to its end; by `leave` it is told to finish.
    pub(super) async fn drive<C>(&mut self, mut library: Pin<&mut C>, leave: fn(Pin<&mut C>)) -> End
    where
        C: Future<Output = Result<(), hyper::Error>>,
    {
        self.look_by(Instant::now() + self.write_idle_timeout);
        poll_fn(|cx| {
            loop {
                self.watch.begin_turn(cx);
                if let Poll::Ready(end) = library.as_mut().poll(cx) {
                    return Poll::Ready(match end {
                        Ok(()) => End::Client,
                        Err(error) => End::Failed(error),
                    });
                }
                if self.watch.poll_gone(cx).is_ready() {
                    return Poll::Ready(End::Gone);
                }
                match self.poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Order::Leave) => leave(library.as_mut()),
                    Poll::Ready(Order::End(end)) => {
                        if let End::Untaken = end {
                            self.watch.give_up();
                        }
                        if self.between_exchanges() {
                            self.watch.finish(cx);
                        }
                        return Poll::Ready(end);
                    }
                }
            }
        })
        .await
    }

    /// Ready when something is to be done that the library would not do by itself.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Order> {
        if let Poll::Ready(phase) = self.phases.poll(cx)
            && let Some(order) = self.enter(phase)
        {
            return Poll::Ready(order);
        }
        if self.watch.is_full() {
            self.look_by(Instant::now() + LOOK_INTERVAL);
        }
        while self.alarm.poll(cx).is_ready() {
            let now = Instant::now();
            match self.look(now) {
                // Whatever it is then, an answer that is not taken is noticed soon after it is due.
                Ok(next) => self.alarm.reset(next.min(now + self.write_idle_timeout)),
                Err(order) => {
                    self.alarm.reset(now + self.header_read_timeout);
                    return Poll::Ready(order);
                }
            }
        }
        Poll::Pending
    }

    fn look_by(&mut self, latest: Instant) {
        if self.alarm.deadline() > latest {
            self.alarm.reset(latest);
        }
    }

    fn enter(&mut self, phase: Phase) -> Option<Order> {
        match (phase, &self.streams) {
            (Phase::Serving, _) => None,
            // The library would wait for the client's end, too.
            (Phase::Draining, None) if self.between_exchanges() => Some(Order::End(End::Shutdown)),
            (Phase::Draining, _) => Some(Order::Leave),
            (Phase::Ending, None) => Some(Order::End(End::Shutdown)),
            (Phase::Ending, Some(streams)) => {
                streams.end_all();
                Some(Order::Leave)
            }
        }
    }

    fn between_exchanges(&self) -> bool {
        self.watch.idle().is_some_and(|idle| !idle.head_begun)
    }

    /// What an alarm comes to at `now`: when to look again, or what to do.
    fn look(&mut self, now: Instant) -> Result<Instant, Order> {
        let untaken = self.write_idle_timeout;
        match (self.watch.idle(), self.watch.blocked_since()) {
            (_, Some(since)) if since + untaken <= now => Err(Order::End(End::Untaken)),
            (_, Some(since)) if !self.watch.is_full() => Ok(since + untaken),
            (None, _) => {
                if let Some(streams) = &self.streams {
                    streams.end_untaken(now, untaken);
                }
                Ok(match self.watch.is_full() {
                    true => now + LOOK_INTERVAL,
                    false => now + self.header_read_timeout,
                })
            }
            (Some(idle), _) if idle.since + self.header_read_timeout > now => {
                Ok(idle.since + self.header_read_timeout)
            }
            (Some(idle), _) => self.dismiss(idle, now),
        }
    }

    /// No request has come for too long. A client of HTTP/2 is told so, and may still be taking what
    /// the library holds of answers that are complete; but not for ever, because answers to its pings
    /// are written, too.
    fn dismiss(&mut self, idle: Idle, now: Instant) -> Result<Instant, Order> {
        let written = self.watch.written();
        let before = self.leaving;
        let since = before.map_or(now, |leaving| leaving.since);
        self.leaving = Some(Leaving { since, written });
        match before {
            None if self.streams.is_some() => Err(Order::Leave),
            Some(before) if before.written < written && since + self.write_idle_timeout > now => {
                Ok(now + self.header_read_timeout)
            }
            None | Some(_) => Err(Order::End(End::Silent {
                head_begun: idle.head_begun,
            })),
        }
    }

    /// Why the connection ended, where neither an exchange nor good order accounts for it: a stable
    /// name.
    pub(super) fn unaccounted(&self, end: &End) -> Option<&'static str> {
        let unused = self.watch.exchanges() == 0;
        match end {
            End::Client => unused.then_some("closed_before_request"),
            End::Silent { head_begun } => {
                // Over HTTP/2 more than heads comes between two exchanges.
                let begun = *head_begun && self.streams.is_none();
                (unused || begun).then_some("header_read_timeout")
            }
            End::Undecided => Some("handshake_timeout"),
            End::Gone | End::Untaken | End::Shutdown => None,
            // The body of an answer failed, and its exchange accounts for that.
            End::Failed(error) if error.is_user() => None,
            End::Failed(error) => match (of_http2(error), self.watch.idle()) {
                // Whoever resets a connection has only ended it.
                (Some(error), _) => (unused || !error.is_io()).then_some("http2_failed"),
                (None, Some(idle)) if unused || idle.head_begun || error.is_parse() => {
                    Some(reason(error))
                }
                (None, Some(_) | None) => None,
            },
        }
    }
}

fn of_http2(error: &hyper::Error) -> Option<&h2::Error> {
    error.source()?.downcast_ref()
}

fn reason(error: &hyper::Error) -> &'static str {
    if error.is_parse_too_large() {
        "head_too_large"
    } else if error.is_parse() {
        "not_http"
    } else if error.is_incomplete_message() {
        "closed_in_head"
    } else {
        "connection_failed"
    }
}
