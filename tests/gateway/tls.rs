//! TLS on both sides, with certificates that are made as the tests run.

mod certificates;
mod clients;
mod ends;
mod renewal;
mod upstreams;

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::certificates::{Authority, Issued};
use crate::harness::tunnel::Offer;
use crate::harness::{Client, Gateway, Policy, Upstream};

/// The name of the gateway in certificates.
const NAME: &str = "mcp.example.com";

/// Certificate files, and who made them.
pub(crate) struct Papers {
    directory: TempDir,
    pub(crate) authority: Authority,
}

impl Papers {
    /// A directory with `tls.crt` and `tls.key` of the gateway, and the authority's `ca.crt`.
    pub(crate) fn new() -> Papers {
        let papers = Papers {
            directory: TempDir::new().unwrap(),
            authority: Authority::new("everybody"),
        };
        papers.write_pair(&papers.authority.issue(&[NAME]));
        papers.write("ca.crt", &papers.authority.pem());
        papers
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn write_pair(&self, pair: &Issued) {
        self.write("tls.crt", &pair.cert);
        self.write("tls.key", &pair.key);
    }

    /// `listen.tls` with the gateway's pair and these keys beside it; a value is the name of a file,
    /// or a word.
    pub(crate) fn listen(&self, more: &[(&str, &str)]) -> Value {
        let mut tls = json!({"cert": self.path("tls.crt"), "key": self.path("tls.key")});
        for (key, value) in more {
            tls[*key] = match value.contains('.') {
                true => json!(self.path(value)),
                false => json!(value),
            };
        }
        tls
    }

    /// A client that trusts the authority.
    pub(crate) fn offer(&self) -> Offer {
        Offer::trusting(&self.authority)
    }
}

/// A gateway that is reached over TLS.
pub(crate) struct Shop {
    pub(crate) papers: Papers,
    pub(crate) upstream: Upstream,
    pub(crate) gateway: Gateway,
}

impl Shop {
    pub(crate) fn new() -> Shop {
        Shop::with(Upstream::start(), &[], |policy| policy)
    }

    /// One whose `listen.tls` has these keys as well.
    pub(crate) fn with(
        upstream: Upstream,
        more: &[(&str, &str)],
        shape: impl FnOnce(Policy) -> Policy,
    ) -> Shop {
        let papers = Papers::new();
        let policy = Policy::new(&upstream).listen("tls", papers.listen(more));
        let gateway = Gateway::start(&shape(policy));
        Shop {
            papers,
            upstream,
            gateway,
        }
    }

    /// A client that is let in.
    pub(crate) fn connect(&self) -> Client {
        let offer = self.papers.offer();
        offer.connect(self.gateway.address).expect("a handshake").0
    }

    /// The reasons of the connections that ended without an exchange, once there are so many.
    pub(crate) fn reasons(&self, count: usize) -> Vec<String> {
        let records = self.gateway.wait_for_connections(count);
        let reasons = records.iter().map(|record| record["end"].as_str());
        reasons.map(|reason| reason.unwrap().to_owned()).collect()
    }
}
