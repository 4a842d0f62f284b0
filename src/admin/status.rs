//! The status listener: probes for whoever runs the process.
//!
//! `/healthz` says that the process serves, `/readyz` that it takes new work. Both answer `GET`
//! and `HEAD`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use tokio::net::TcpListener;

use super::endpoint::{Bounds, Endpoint};
use crate::net::descriptor::Descriptors;
use crate::observe::Log;

/// Whether the gateway takes new work: a flag that all clones share. It only moves forward, from
/// starting to ready to draining, so a late word of readiness cannot undo a drain.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    const STARTING: u8 = 0;
    const READY: u8 = 1;
    const DRAINING: u8 = 2;

    /// Not ready yet.
    #[must_use]
    pub fn starting() -> Readiness {
        Readiness::default()
    }

    /// The gateway listens.
    pub fn ready(&self) {
        self.0.fetch_max(Readiness::READY, Ordering::AcqRel);
    }

    /// The gateway is about to end and wants no new work.
    pub fn draining(&self) {
        self.0.fetch_max(Readiness::DRAINING, Ordering::AcqRel);
    }

    /// Why there should be no new work, if so.
    fn objection(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Acquire) {
            Readiness::STARTING => Some("starting: the gateway does not listen yet\n"),
            Readiness::READY => None,
            _ => Some("draining: the gateway finishes what it has and takes no new work\n"),
        }
    }
}

/// Answers probes on `listener` for as long as it is polled. Where the process has no descriptor left,
/// it gives up spare ones of `descriptors` for them.
pub async fn serve(
    listener: TcpListener,
    readiness: Readiness,
    descriptors: Descriptors,
    log: Log,
) {
    serve_within(Bounds::DEFAULT, listener, readiness, descriptors, log).await;
}

async fn serve_within(
    bounds: Bounds,
    listener: TcpListener,
    readiness: Readiness,
    descriptors: Descriptors,
    log: Log,
) {
    let endpoint = Endpoint {
        name: "status",
        bounds,
        listener,
        descriptors,
        log,
    };
    endpoint
        .serve(move |request, _| answer(request.method(), request.uri().path(), &readiness))
        .await;
}

fn answer(method: &Method, path: &str, readiness: &Readiness) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        "/healthz" | "/readyz" if method != Method::GET && method != Method::HEAD => (
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are served here\n",
        ),
        "/healthz" => (StatusCode::OK, "ok\n"),
        "/readyz" => match readiness.objection() {
            None => (StatusCode::OK, "ready\n"),
            Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        },
        _ => (StatusCode::NOT_FOUND, "there are /healthz and /readyz\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::super::endpoint::HEADER_BYTES_MAX;
    use super::*;
    use crate::policy::plan;

    /// Long enough for anything that should happen at all.
    const SOON: Duration = Duration::from_secs(60);

    async fn start(bounds: Bounds) -> (SocketAddr, Readiness) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let readiness = Readiness::starting();
        let log = Log::start(&plan::Log::default()).unwrap();
        tokio::spawn(serve_within(
            bounds,
            listener,
            readiness.clone(),
            Descriptors::default(),
            log,
        ));
        (address, readiness)
    }

    /// What the listener says to these bytes until it closes the connection.
    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(stream).await
    }

    async fn rest(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        answer
    }

    /// Status and body of the answer.
    async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let answer = exchange(address, &request).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    #[tokio::test]
    async fn probes_follow_the_life_of_the_process() {
        let (address, readiness) = start(Bounds::DEFAULT).await;
        let ok = || (200, "ok\n".to_owned());
        let (status, reason) = ask(address, "GET", "/readyz").await;
        assert_eq!(status, 503);
        assert!(reason.starts_with("starting: "), "{reason}");
        assert_eq!(ask(address, "GET", "/healthz").await, ok());

        readiness.ready();
        assert_eq!(
            ask(address, "GET", "/readyz").await,
            (200, "ready\n".to_owned())
        );
        assert_eq!(ask(address, "GET", "/readyz?verbose").await.0, 200);
        assert_eq!(ask(address, "GET", "/healthz").await, ok());

        readiness.draining();
        readiness.ready();
        let (status, reason) = ask(address, "GET", "/readyz").await;
        assert_eq!(status, 503, "a drain is not undone");
        assert!(reason.starts_with("draining: "), "{reason}");
        assert_eq!(ask(address, "GET", "/healthz").await, ok());
    }

    #[tokio::test]
    async fn nothing_else_is_there() {
        let (address, _) = start(Bounds::DEFAULT).await;
        for path in ["/", "/mcp", "/healthz/", "/metrics", "/HEALTHZ"] {
            assert_eq!(ask(address, "GET", path).await.0, 404, "{path}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            let request = format!("{method} /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n");
            let answer = exchange(address, &request).await.to_lowercase();
            assert!(answer.starts_with("http/1.1 405 "), "{method}: {answer}");
            assert!(
                answer.contains("\r\nallow: get, head\r\n"),
                "{method}: {answer}"
            );
        }
        assert_eq!(ask(address, "HEAD", "/healthz").await, (200, String::new()));
    }

    #[tokio::test]
    async fn a_probe_may_close_its_half() {
        let (address, _) = start(Bounds::DEFAULT).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.0\r\n\r\n")
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
        assert!(rest(stream).await.ends_with("\r\n\r\nok\n"));
    }

    #[tokio::test]
    async fn whoever_sends_no_request_is_cut_off() {
        let never = Duration::from_secs(3600);
        let at_once = Duration::from_millis(20);
        for (header_read_timeout, connection_timeout) in [(at_once, never), (never, at_once)] {
            let (address, _) = start(Bounds {
                header_read_timeout,
                connection_timeout,
                ..Bounds::DEFAULT
            })
            .await;
            for beginning in ["", "GET /healthz HTTP/1.1\r\nhost:"] {
                let answer = exchange(address, beginning).await;
                assert!(!answer.contains(" 200 "), "{answer}");
            }
        }
        let (address, _) = start(Bounds::DEFAULT).await;
        let endless = format!(
            "GET /healthz HTTP/1.1\r\nx: {}",
            "x".repeat(HEADER_BYTES_MAX)
        );
        assert!(
            exchange(address, &endless)
                .await
                .starts_with("HTTP/1.1 431 ")
        );
    }

    #[tokio::test]
    async fn further_connections_wait_their_turn() {
        let (address, _) = start(Bounds {
            connections_max: 2,
            ..Bounds::DEFAULT
        })
        .await;
        let first = TcpStream::connect(address).await.unwrap();
        let second = TcpStream::connect(address).await.unwrap();
        let mut third = TcpStream::connect(address).await.unwrap();
        third
            .write_all(b"GET /healthz HTTP/1.0\r\n\r\n")
            .await
            .unwrap();
        let early = timeout(Duration::from_millis(50), third.readable()).await;
        assert!(early.is_err(), "two are being served");
        drop(first);
        assert!(rest(third).await.ends_with("ok\n"));
        drop(second);
    }
}
