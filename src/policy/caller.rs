//! Who calls, as rules, limits and records see it.

use std::fmt;

use serde_json::{Map, Value};

/// A caller whose identity has been proven.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caller {
    /// Who it is, unique within its issuer: `sub` of a token, the id of a key, the name in a
    /// certificate.
    pub subject: String,
    /// Who vouches for it: `iss` of a token; empty for keys and certificates.
    pub issuer: String,
    /// How it was proven.
    pub proof: Proof,
    /// The groups that it belongs to.
    pub groups: Vec<String>,
    /// The scopes that it was granted.
    pub scopes: Vec<String>,
    /// The claims of its token; empty for keys and certificates that state none.
    pub claims: Map<String, Value>,
}

/// How the identity of a caller was proven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Proof {
    /// A signed token (RFC 7519).
    #[default]
    Token,
    /// A key of the policy.
    Key,
    /// A certificate of the client.
    Certificate,
}

impl Proof {
    /// The word for it, in policies, logs and traces.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Proof::Token => "token",
            Proof::Key => "key",
            Proof::Certificate => "certificate",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
