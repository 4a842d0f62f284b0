//! The life of one client's connection: which protocol it speaks, the library that speaks it, and
//! the watch over both.

mod answer;
mod streams;
mod vigil;

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};

use http::Request;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use self::answer::Tracking;
use self::streams::Streams;
use self::vigil::{End, Vigil};
use super::ending::Phases;
use super::listener::{Client, ConnectionEnd, LengthBesideChunks, Serve};
use super::received::Received;
use super::wire::{Peer, Protocol, Watch, Wire, wire};
use crate::policy::plan::Listen;

/// The HTTP library answers a head over its own limits with a bare 431; ours lie well below these,
/// and say which limit it was. Up to this number it keeps header fields on its stack.
const LIBRARY_HEADERS: usize = 100;
const LIBRARY_BUFFER_MIN: usize = 128 << 10;
/// What HTTP/2 counts for each header field beside its name and value (RFC 9113, 6.5.2).
const FIELD_BYTES: usize = 32;
/// How much of a request's body a client may send before we have read it, and how much of an
/// answer the library holds that a client has no room for yet; for each stream.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Streams that a client resets before they are looked at, and resets that its errors make us send,
/// before the connection ends.
const RESETS_UNSEEN_MAX: usize = 32;
const RESETS_BY_ERROR_MAX: usize = 128;

/// Serves `client` over `stream` until one of them, or the process, ends it. What it speaks is
/// found out, unless its handshake said it.
pub(super) async fn serve<S, V>(
    stream: S,
    client: Client,
    protocol: Option<Protocol>,
    listen: &Listen,
    service: &V,
    phases: Phases,
) where
    S: AsyncRead + AsyncWrite + Peer + Unpin + Send + 'static,
    V: Serve,
{
    let begun = Instant::now();
    let (wire, watch) = wire(stream);
    let mut vigil = Vigil::new(watch.clone(), listen, phases);
    let protocol = match protocol {
        Some(protocol) => Ok(protocol),
        None => vigil.protocol().await,
    };
    let end = match protocol {
        Ok(Protocol::Http1) => http1(wire, &client, listen, service, &mut vigil).await,
        // Clients of the other protocol do not pay for the room that this one takes.
        Ok(Protocol::Http2) => Box::pin(http2(wire, &client, listen, service, &mut vigil)).await,
        Err(end) => end,
    };
    if let Some(reason) = vigil.unaccounted(&end) {
        service.connection_ended(ConnectionEnd {
            peer: client.address,
            received: watch.received(),
            duration: begun.elapsed(),
            reason,
            detail: None,
        });
    }
}

async fn http1<S, V>(
    wire: Wire<S>,
    client: &Client,
    listen: &Listen,
    service: &V,
    vigil: &mut Vigil<S>,
) -> End
where
    S: AsyncRead + AsyncWrite + Peer + Unpin + Send + 'static,
    V: Serve,
{
    let watch = vigil.watch().clone();
    let answering = service_fn(|mut request: Request<Incoming>| {
        if has_two_framings(&request, &watch) {
            request.extensions_mut().insert(LengthBesideChunks);
        }
        let tracking = Tracking::of_request(&watch, request.version());
        let request = request.map(Received::over_connection);
        let answer = aside(service.serve(client.clone(), request));
        async move {
            let response = answer.await;
            Ok::<_, Infallible>(response.map(|body| tracking.around(body)))
        }
    });
    let mut library = http1::Builder::new();
    // The watch over the connection notices a client that has gone, whatever the library reads.
    library.half_close(true);
    library.max_buf_size(LIBRARY_BUFFER_MIN.max(listen.header_bytes_max * 4));
    if listen.header_count_max * 3 / 2 > LIBRARY_HEADERS {
        library.max_headers(listen.header_count_max * 3 / 2);
    }
    let library = pin!(library.serve_connection(TokioIo::new(wire), answering));
    vigil
        .drive(library, http1::Connection::graceful_shutdown)
        .await
}

async fn http2<S, V>(
    wire: Wire<S>,
    client: &Client,
    listen: &Listen,
    service: &V,
    vigil: &mut Vigil<S>,
) -> End
where
    S: AsyncRead + AsyncWrite + Peer + Unpin + Send + 'static,
    V: Serve,
{
    let streams = Streams::new();
    let open = streams.open();
    vigil.watch_over(open.clone());
    let watch = vigil.watch().clone();
    let answering = service_fn(|request: Request<Incoming>| {
        let tracking = Tracking::of_stream(&watch, &open);
        let (service, client) = (service.clone(), client.clone());
        let request = request.map(Received::over_stream);
        let answer = aside(async move { service.serve(client, request).await });
        async move {
            let response = answer.await;
            Ok::<_, Infallible>(response.map(|body| tracking.around(body)))
        }
    });
    let mut library = http2::Builder::new(open.clone());
    let streams_max = listen.http2_streams_max;
    library
        .max_concurrent_streams(streams_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        // As large as all streams together, so that one body that nobody reads stops no other.
        .initial_connection_window_size(STREAM_WINDOW_BYTES.saturating_mul(streams_max))
        .max_send_buf_size(STREAM_WINDOW_BYTES as usize)
        .max_header_list_size(header_list_bytes(listen))
        .max_pending_accept_reset_streams(RESETS_UNSEEN_MAX)
        .max_local_error_reset_streams(RESETS_BY_ERROR_MAX);
    let library = pin!(library.serve_connection(TokioIo::new(wire), answering));
    vigil
        .drive(library, http2::Connection::graceful_shutdown)
        .await
}

/// The library keeps the room of a future that it waits for as long as the exchange lasts, or even its
/// connection. What has a room of its own gives it back when the answer begins, so that a silent
/// stream does not hold it.
fn aside<F: Future>(answering: F) -> Pin<Box<F>> {
    Box::pin(answering)
}

/// What the library takes of a head over HTTP/2: well over our own bounds, which say which it was.
fn header_list_bytes(listen: &Listen) -> u32 {
    let bytes = listen.header_bytes_max * 2 + listen.header_count_max * 2 * FIELD_BYTES;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Whether a request came with a length beside its chunks. The library goes by the chunks, and no
/// longer shows the length.
fn has_two_framings<S>(request: &Request<Incoming>, watch: &Watch<S>) -> bool
where
    S: AsyncRead + Peer + Unpin,
{
    // Only a body in chunks has no known length; that costs less to ask than the headers do.
    request.body().size_hint().exact().is_none()
        && watch.head_had(request.method().as_str(), CONTENT_LENGTH.as_str())
}

#[cfg(test)]
mod tests;
