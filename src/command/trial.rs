//! A policy at work without a network: the gateway itself, with a server of our own behind it that
//! takes whatever arrives. What a policy comes to is not worked out a second time; it is tried.

mod request;
mod server;

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{client, server as serving};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::runtime;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::net::listener::{Client, Serve};
use crate::net::received::Received;
use crate::observe::{Kept, Log};
use crate::policy::case::{Given, Verdict};
use crate::policy::plan::{Plan, Upstream};

use server::{Arrived, Server};

/// What can go wrong with a trial that is not the policy's fault.
type Failure = Box<dyn Error + Send + Sync>;

/// How much of a request or an answer is on its way inside of us.
const PIPE_BYTES: usize = 64 << 10;
/// How long a record may take to be written.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// A gateway that runs on a plan, and that nobody else can reach.
pub(super) struct Trial {
    runtime: runtime::Runtime,
    plan: Plan,
    gateway: Gateway,
    log: Log,
    records: Kept,
    server: Server,
    tools: Vec<Value>,
}

/// What came of one request.
#[derive(Debug)]
pub(super) struct Came {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// Its header fields.
    pub(super) headers: HeaderMap,
    /// Its body, if that is JSON.
    pub(super) body: Value,
    /// The record of it, as the access log has it.
    pub(super) record: Map<String, Value>,
    /// What the server behind the gateway received, if anything.
    pub(super) arrived: Option<Arrived>,
}

impl Came {
    /// What became of the request.
    pub(super) fn verdict(&self) -> Verdict {
        match self.reason() {
            None => Verdict::Allow,
            Some(_) => Verdict::Refuse,
        }
    }

    /// The name of the refusal, if it was refused.
    pub(super) fn reason(&self) -> Option<&str> {
        self.word("verdict")?.strip_prefix("refused:")
    }

    /// What the record has in this field.
    pub(super) fn word(&self, field: &str) -> Option<&str> {
        self.record.get(field)?.as_str()
    }
}

impl Trial {
    /// Starts one on `plan`, with servers that have these tools.
    ///
    /// # Errors
    /// There is no port on loopback or no thread to be had.
    pub(super) fn start(plan: &Plan, tools: &[Value]) -> Result<Trial, Failure> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (log, records) = Log::kept()?;
        let server = runtime.block_on(server::start(tools.to_vec()))?;
        let plan = led_to(plan, server.address());
        let drain = CancellationToken::new();
        let entered = runtime.enter();
        let (gateway, _) = Gateway::start(&plan, log.clone(), drain)?;
        drop(entered);
        Ok(Trial {
            runtime,
            plan,
            gateway,
            log,
            records,
            server,
            tools: tools.to_vec(),
        })
    }

    /// Asks `given`.
    ///
    /// # Errors
    /// What is given makes no request, or there was no answer.
    pub(super) fn ask(&self, given: &Given) -> Result<Came, Failure> {
        let request = request::made(given, &self.plan, &self.tools)?;
        let (head, body) = self.runtime.block_on(self.send(given.source, request))?;
        self.log.flush(RECORD_TIMEOUT);
        let record = last_record(&self.records.take());
        Ok(Came {
            status: head.status(),
            headers: head.headers().clone(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            record: record.ok_or("no record was written")?,
            arrived: self.server.arrived(),
        })
    }

    async fn send(
        &self,
        source: IpAddr,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<()>, Bytes), Failure> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let client = Client::new(SocketAddr::new(source, 0), false);
        let gateway = self.gateway.clone();
        let answering = service_fn(move |request: Request<Incoming>| {
            let (gateway, client) = (gateway.clone(), client.clone());
            async move {
                let request = request.map(Received::over_connection);
                Ok::<_, io::Error>(gateway.serve(client, request).await)
            }
        });
        tokio::spawn(
            serving::conn::http1::Builder::new().serve_connection(TokioIo::new(far), answering),
        );
        let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(near)).await?;
        tokio::spawn(connection);
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((Response::from_parts(head, ()), body))
    }
}

/// The last record of an exchange among lines of the log: events of the gateway itself stand beside it.
fn last_record(lines: &[String]) -> Option<Map<String, Value>> {
    lines.iter().rev().find_map(|line| {
        let record: Map<String, Value> = serde_json::from_str(line).ok()?;
        (record.get("kind")? == "exchange").then_some(record)
    })
}

/// The plan with all its upstreams led to our own server: where they are is not what is tried.
fn led_to(plan: &Plan, server: SocketAddr) -> Plan {
    let mut plan = plan.clone();
    let mut led: Vec<(Arc<Upstream>, Arc<Upstream>)> = Vec::new();
    for route in &mut plan.routes {
        let known = led
            .iter()
            .find(|(old, _)| Arc::ptr_eq(old, &route.upstream));
        let upstream = match known {
            Some((_, new)) => Arc::clone(new),
            None => {
                let old = &route.upstream;
                let host = server.ip().to_string();
                let new = Arc::new(Upstream::at(&old.name, &host, server.port(), &old.path));
                led.push((Arc::clone(old), Arc::clone(&new)));
                new
            }
        };
        let mut tried = (**route).clone();
        tried.upstream = upstream;
        *route = Arc::new(tried);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_among_events() {
        let lines = [
            r#"{"kind":"exchange","status":200}"#,
            r#"{"kind":"exchange","status":403}"#,
            r#"{"kind":"event","level":"info"}"#,
        ];
        let lines = lines.map(str::to_owned);
        assert_eq!(last_record(&lines).unwrap()["status"], 403);
        assert!(last_record(&lines[2..]).is_none());
    }
}
