//! Certificates of clients.

use std::io;

use super::Shop;
use crate::harness::certificates::Authority;
use crate::harness::tunnel::Offer;
use crate::harness::{Request, Upstream};

/// The status that a client with this offer gets, if it gets any: in TLS 1.3 a client learns only
/// after its handshake that its certificate was refused.
fn ask(shop: &Shop, offer: &Offer) -> Option<u16> {
    let connected: io::Result<_> = offer.connect(shop.gateway.address);
    let (mut client, _) = connected.ok()?;
    client
        .wire
        .write(&Request::call("t").bytes())
        .ok()
        .and_then(|()| client.try_read().ok())
        .map(|answer| answer.status)
}

#[test]
fn a_certificate_that_is_required_must_be_shown_and_good() {
    let shop = Shop::with(Upstream::start(), &[("client_ca", "ca.crt")], |policy| {
        policy
    });
    let stranger = Authority::new("stranger");
    let offer = || shop.papers.offer();
    let own = |name| shop.papers.authority.issue(&[name]);
    let expired = shop.papers.authority.issue_until(&["client"], 2001);
    for (offer, reason) in [
        (offer(), "tls_client_certificate_missing"),
        (offer().older(), "tls_client_certificate_missing"),
        (
            offer().showing(stranger.issue(&["client"])),
            "tls_client_certificate_refused",
        ),
        (offer().showing(expired), "tls_client_certificate_refused"),
    ] {
        let before = shop.gateway.wait_for_connections(0).len();
        assert_eq!(ask(&shop, &offer), None, "{reason}");
        assert_eq!(shop.reasons(before + 1)[before], reason);
    }
    assert_eq!(shop.upstream.request_count(), 0);
    assert_eq!(ask(&shop, &offer().showing(own("client"))), Some(200));
    let older = offer().showing(own("client")).older();
    assert_eq!(ask(&shop, &older), Some(200));
}

#[test]
fn a_certificate_that_is_optional_must_be_good_where_it_is_shown() {
    let keys = [("client_ca", "ca.crt"), ("client_certificate", "optional")];
    let shop = Shop::with(Upstream::start(), &keys, |policy| policy);
    let stranger = Authority::new("stranger").issue(&["client"]);
    let own = shop.papers.authority.issue(&["client"]);
    assert_eq!(ask(&shop, &shop.papers.offer()), Some(200));
    assert_eq!(ask(&shop, &shop.papers.offer().showing(own)), Some(200));
    let refused = shop.papers.offer().showing(stranger);
    assert_eq!(ask(&shop, &refused), None);
    assert_eq!(shop.reasons(1), ["tls_client_certificate_refused"]);
    assert_eq!(shop.upstream.runs("t"), 2);
}
