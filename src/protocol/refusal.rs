//! Every refusal, and what each one tells: status, code, sentence and data stand together, once.
//! What only an operator may know goes to the access log beside it.

mod answer;
mod catalog;
mod header;
mod http;
mod message;
mod overload;
mod telling;
mod upstream;
mod version;

pub use self::answer::{Addressee, answer, event, options};
pub use self::catalog::CatalogFault;
pub use self::header::{HeaderFault, Unchecked};
pub use self::http::{BodyFault, HttpFault, NOT_TLS};
pub use self::message::MessageFault;
pub use self::overload::{CONNECTION_REFUSED, OverloadFault};
pub use self::telling::Telling;
pub use self::upstream::UpstreamFault;
pub use self::version::VersionFault;

/// Why a request is not served. Closed, and so is each kind: a new refusal must say how it is told
/// before it compiles.
#[derive(Debug)]
pub enum Refusal {
    /// The message itself.
    Message(MessageFault),
    /// A routing header.
    Header(HeaderFault),
    /// A version, or a method that the version does not have.
    Version(VersionFault),
    /// The HTTP request around the message.
    Http(HttpFault),
    /// Too much at once.
    Overload(OverloadFault),
    /// The definition of a tool.
    Catalog(CatalogFault),
    /// The server behind us.
    Upstream(UpstreamFault),
}

impl Refusal {
    /// What the client is told.
    #[must_use]
    pub fn telling(&self) -> Telling {
        match self {
            Refusal::Message(fault) => fault.telling(),
            Refusal::Header(fault) => fault.telling(),
            Refusal::Version(fault) => fault.telling(),
            Refusal::Http(fault) => fault.telling(),
            Refusal::Overload(fault) => fault.telling(),
            Refusal::Catalog(fault) => fault.telling(),
            Refusal::Upstream(fault) => fault.telling(),
        }
    }

    /// What the operator may know beyond that.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Refusal::Upstream(fault) => fault.detail(),
            Refusal::Message(_)
            | Refusal::Header(_)
            | Refusal::Version(_)
            | Refusal::Http(_)
            | Refusal::Overload(_)
            | Refusal::Catalog(_) => None,
        }
    }
}

impl From<MessageFault> for Refusal {
    fn from(fault: MessageFault) -> Refusal {
        Refusal::Message(fault)
    }
}

impl From<HeaderFault> for Refusal {
    fn from(fault: HeaderFault) -> Refusal {
        Refusal::Header(fault)
    }
}

impl From<VersionFault> for Refusal {
    fn from(fault: VersionFault) -> Refusal {
        Refusal::Version(fault)
    }
}

impl From<HttpFault> for Refusal {
    fn from(fault: HttpFault) -> Refusal {
        Refusal::Http(fault)
    }
}

impl From<OverloadFault> for Refusal {
    fn from(fault: OverloadFault) -> Refusal {
        Refusal::Overload(fault)
    }
}

impl From<CatalogFault> for Refusal {
    fn from(fault: CatalogFault) -> Refusal {
        Refusal::Catalog(fault)
    }
}

impl From<UpstreamFault> for Refusal {
    fn from(fault: UpstreamFault) -> Refusal {
        Refusal::Upstream(fault)
    }
}

impl From<BodyFault> for Refusal {
    fn from(fault: BodyFault) -> Refusal {
        Refusal::Http(HttpFault::Body(fault))
    }
}
