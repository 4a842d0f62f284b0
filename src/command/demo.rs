//! `weirgate demo`: a small MCP server, the gateway before it, and three requests to try.

mod server;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};

use super::run::{self, Signals, StartError};
use crate::admin::status::Readiness;
use crate::observe::Log;
use crate::policy::file::Addresses;
use crate::policy::plan::Plan;

/// Runs the demonstration, with the gateway on `listen`, until the process is told to end.
///
/// # Errors
/// What kept it from starting.
pub fn demo(listen: SocketAddr) -> Result<(), StartError> {
    run::runtime().map_err(failed)?.block_on(async {
        let server = server::start().await.map_err(failed)?;
        let addresses = Addresses {
            listen: Some(listen),
            // The demonstration may run beside a gateway that has the usual port.
            status: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        };
        let url = format!("http://{server}/mcp");
        let policy = Plan::for_single_upstream(&url, addresses)
            .map_err(|errors| failed(io::Error::other(errors.render(false))))?;
        let log = Log::start(&policy.plan.log).map_err(failed)?;
        let mut signals = Signals::listen()?;
        let readiness = Readiness::starting();
        let started = run::start(&policy.plan, &log, readiness.clone()).await?;
        readiness.ready();
        let mut out = io::stdout().lock();
        out.write_all(invitation(server, started.listen).as_bytes())
            .and_then(|()| out.flush())
            .map_err(failed)?;
        drop(out);
        signals.next().await;
        Ok(())
    })
}

fn failed(cause: io::Error) -> StartError {
    StartError {
        attempted: "cannot run the demonstration".into(),
        cause,
        hint: "see the limits of this process on threads, sockets and open files",
    }
}

fn invitation(server: SocketAddr, gateway: SocketAddr) -> String {
    let modern = |name: &str, text: &str| {
        format!(
            "curl -sS -w '\\n' http://{gateway}/mcp -H 'Content-Type: application/json' \
             -H 'Accept: application/json, text/event-stream' \
             -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \
             -H 'Mcp-Name: {name}' \
             -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":\
             {{\"name\":\"echo\",\"arguments\":{{\"text\":\"{text}\"}},\"_meta\":\
             {{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
             \"io.modelcontextprotocol/clientCapabilities\":{{}}}}}}}}'"
        )
    };
    let legacy = format!(
        "curl -sS -w '\\n' http://{gateway}/mcp -H 'Content-Type: application/json' \
         -H 'Accept: application/json, text/event-stream' \
         -H 'MCP-Protocol-Version: 2025-11-25' \
         -d '{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":\
         {{\"name\":\"echo\",\"arguments\":{{\"text\":\"from an older client\"}}}}}}'"
    );
    format!(
        "An MCP server runs on http://{server}/mcp, and weirgate stands before it on \
         http://{gateway}/mcp.\nThe access log comes below. Try, in another terminal:\n\n\
         # a good call\n{}\n\n\
         # a header that names another tool than the body\n{}\n\n\
         # a call of an earlier protocol version\n{legacy}\n\n\
         Ctrl-C ends both.\n",
        modern("echo", "hello"),
        modern("forecast", "hello"),
    )
}
