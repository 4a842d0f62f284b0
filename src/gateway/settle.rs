//! From what may go upstream to the answer that leaves: sent, awaited no longer than it may take, and
//! read for what it must be read for.

use std::pin::pin;

use http::request::Parts;
use http::{Request, Response};
use tokio::time::timeout_at;

use super::admitted::{Admitted, Awaited, Reading};
use super::follow::{self, Heeding};
use super::forward::Farewell;
use super::inquiry::Inquiry;
use super::outbound::Outbound;
use super::recall::{self, Answering};
use super::relay::{self, Source};
use super::serving::{Running, Serving};
use super::upload::Upload;
use super::{catalog, handshake};
use crate::protocol::header;
use crate::protocol::media;
use crate::protocol::refusal::Refusal;
use crate::protocol::version::Era;

/// Sends what was admitted, and passes the answer on, if it is there in time. One that is to be read
/// takes what reads it.
///
/// # Errors
/// Why there is no answer, or none that may be passed on.
pub(super) async fn forward(
    gateway: &Running,
    serving: &Serving,
    head: Parts,
    admitted: Admitted,
    reader: &mut Option<Box<Answering>>,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let route = &*serving.route;
    let (request, awaited, mut asked) =
        admitted.depart(head, &serving.destination, &inquiry.sender)?;
    let late_id = awaited.upload.as_ref().map(Upload::late_id);
    let outcome = {
        let answering = pin!(settle(serving, request, awaited, reader, inquiry));
        match asked.deadline {
            None => Ok(answering.await),
            Some(deadline) => timeout_at(deadline.at, answering)
                .await
                .map_err(|_| deadline),
        }
    };
    let response = match outcome {
        Ok(answered) => answered?,
        Err(deadline) => {
            // The id of a body that streams may have come since its request was admitted.
            if let Some(id) = late_id.and_then(|id| id()) {
                inquiry.to.id = Some(id);
            }
            return Err(deadline.fault(&route.upstream).into());
        }
    };
    if late_id.is_some() {
        asked.answer_to(inquiry.to.id.clone());
    }
    Ok(relay::watch(response, &asked, route, &gateway.drain))
}

/// Waits for the answer, and reads it for what it must be read for.
async fn settle(
    serving: &Serving,
    request: Request<Outbound>,
    awaited: Awaited,
    reader: &mut Option<Box<Answering>>,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let Awaited {
        era,
        upload,
        reading,
    } = awaited;
    let (route, destination) = (&*serving.route, &serving.destination);
    let farewell = matches!(reading, Reading::Handshake)
        .then(|| Box::new(Farewell::after(&request, destination)));
    let sending = destination.send(request);
    let (response, lease) = match upload {
        None => sending.await?,
        Some(upload) => Box::pin(upload.answer(sending, &mut inquiry.to))
            .await
            .inspect_err(|refusal| catalog::doubt_by_claim(serving, refusal))?,
    };
    let exchange = &mut inquiry.exchange;
    exchange.upstream_connection(lease.reused());
    exchange.upstream_status(response.status().as_u16());
    if response.status().is_success() && reader.is_some() {
        return Box::pin(Answering::settle(reader, response, lease, era, exchange)).await;
    }
    if let Some(reader) = reader
        && response.status().is_client_error()
        && reader.is_of_page()
    {
        let settling = recall::refuse_page(response, lease, serving, reader, era);
        return Ok(Box::pin(settling).await?);
    }
    match reading {
        Reading::Nothing if era == Era::Legacy && route.cache.legacy.is_some() => {
            Ok(heed(relay::pass(response, lease, era), serving))
        }
        Reading::Nothing => Ok(relay::pass(response, lease, era)),
        Reading::Changes => Ok(heed(relay::pass(response, lease, era), serving)),
        Reading::Call if route.catalog.enabled && response.status().is_client_error() => {
            let settling = recall::doubt(response, lease, serving);
            Ok(Box::pin(settling).await?)
        }
        Reading::Call => Ok(relay::pass(response, lease, era)),
        Reading::Handshake => {
            let session = response.headers().get(header::SESSION_ID).cloned();
            let unused = farewell
                .zip(session)
                .map(|(farewell, session)| farewell.opened(session));
            let settling = handshake::settle(response, lease, route, &serving.sessions);
            let (response, version) = Box::pin(settling).await?;
            if let Some(unused) = unused {
                unused.keep();
            }
            if version.is_some() {
                exchange.placed(era, version);
            }
            Ok(response)
        }
        Reading::EndOfSession(id) => {
            if response.status().is_success() {
                serving.sessions.close(id.as_bytes());
            }
            Ok(relay::pass(response, lease, era))
        }
    }
}

/// Heeds what a stream of the upstream tells of changes, while it passes.
fn heed(mut response: Response<Source>, serving: &Serving) -> Response<Source> {
    let keeps = serving.route.cache.enabled || serving.route.catalog.enabled;
    if keeps && media::is_event_stream(response.headers()) && !media::is_coded(response.headers()) {
        let heeding = Heeding::beside(&serving.follower);
        relay::read(&mut response, Box::new(heeding), follow::MESSAGE_BYTES_MAX);
    }
    response
}
