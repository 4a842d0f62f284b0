//! Certificates that are changed under a running gateway.

use std::os::unix::fs::symlink;

use super::{NAME, Papers, Shop};
use crate::harness::certificates::{Authority, Issued};
use crate::harness::tunnel::{Front, Manner};
use crate::harness::{Gateway, Policy, Request, Upstream, eventually};

const RENEWED: &str = "changed certificates are in use";
const KEPT: &str = "changed certificates are not used; the last good ones stay";

/// The certificate that a new client is shown, as PEM would have it.
fn shown(papers: &Papers, gateway: &Gateway) -> Vec<u8> {
    let (_, agreed) = papers
        .offer()
        .connect(gateway.address)
        .expect("a handshake");
    agreed.shown.expect("a certificate").to_vec()
}

fn is_shown(papers: &Papers, gateway: &Gateway, pair: &Issued) -> bool {
    use rustls::pki_types::pem::PemObject as _;
    let expected = rustls::pki_types::CertificateDer::from_pem_slice(pair.cert.as_bytes());
    shown(papers, gateway) == expected.expect("PEM").to_vec()
}

/// How often this was said so far.
fn said(gateway: &Gateway, text: &str) -> usize {
    let lines = gateway.lines();
    lines.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn a_changed_pair_is_taken_by_new_handshakes_and_left_by_old_connections() {
    let shop = Shop::new();
    let mut old = shop.connect();
    assert_eq!(old.exchange(&Request::call("t")).status, 200);
    let next = shop.papers.authority.issue(&[NAME]);
    assert!(!is_shown(&shop.papers, &shop.gateway, &next));
    shop.papers.write_pair(&next);
    eventually("the new certificate", || {
        is_shown(&shop.papers, &shop.gateway, &next)
    });
    shop.gateway.wait_for_line(RENEWED);
    assert_eq!(old.exchange(&Request::call("t")).status, 200);
    assert_eq!(shop.upstream.runs("t"), 2);
}

#[test]
fn a_pair_that_comes_in_two_steps_is_taken_when_it_is_whole() {
    for (first, second) in [("tls.crt", "tls.key"), ("tls.key", "tls.crt")] {
        let shop = Shop::new();
        let next = shop.papers.authority.issue(&[NAME]);
        let text = |name| match name {
            "tls.crt" => &next.cert,
            _ => &next.key,
        };
        shop.papers.write(first, text(first));
        shop.gateway.wait_for_line(KEPT);
        shop.gateway
            .wait_for_line("does not belong to the certificate");
        // The old one is still there for whoever comes.
        assert_eq!(shop.connect().exchange(&Request::call("t")).status, 200);
        assert!(!is_shown(&shop.papers, &shop.gateway, &next));
        shop.papers.write(second, text(second));
        eventually("the new certificate", || {
            is_shown(&shop.papers, &shop.gateway, &next)
        });
    }
}

#[test]
fn what_is_not_good_changes_nothing() {
    let shop = Shop::new();
    let good = std::fs::read_to_string(shop.papers.path("tls.crt")).unwrap();
    let mut told = 0;
    for damaged in ["", "hello\n", &good[..good.len() / 2]] {
        shop.papers.write("tls.crt", damaged);
        eventually("a word about it", || said(&shop.gateway, KEPT) > told);
        told = said(&shop.gateway, KEPT);
        assert_eq!(shop.connect().exchange(&Request::call("t")).status, 200);
    }
    std::fs::remove_file(shop.papers.path("tls.key")).unwrap();
    eventually("a word about it", || said(&shop.gateway, KEPT) > told);
    assert_eq!(shop.connect().exchange(&Request::call("t")).status, 200);
    let next = shop.papers.authority.issue(&[NAME]);
    shop.papers.write_pair(&next);
    eventually("the new certificate", || {
        is_shown(&shop.papers, &shop.gateway, &next)
    });
}

/// Writes a version of a mounted volume: a directory, and the link that all its files go through.
fn mount(papers: &Papers, version: &str, pair: &Issued) {
    std::fs::create_dir(papers.path(version)).unwrap();
    papers.write(&format!("{version}/tls.crt"), &pair.cert);
    papers.write(&format!("{version}/tls.key"), &pair.key);
    symlink(version, papers.path("..data_tmp")).unwrap();
    std::fs::rename(papers.path("..data_tmp"), papers.path("..data")).unwrap();
}

#[test]
fn a_mounted_volume_changes_by_one_link() {
    let papers = Papers::new();
    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(papers.path(name)).unwrap();
        symlink(format!("..data/{name}"), papers.path(name)).unwrap();
    }
    mount(&papers, "..2026_07_28_1", &papers.authority.issue(&[NAME]));
    let upstream = Upstream::start();
    let policy = Policy::new(&upstream).listen("tls", papers.listen(&[]));
    let gateway = Gateway::start(&policy);
    for version in ["..2026_07_28_2", "..2026_07_28_3"] {
        let next = papers.authority.issue(&[NAME]);
        mount(&papers, version, &next);
        eventually("the new certificate", || is_shown(&papers, &gateway, &next));
    }
    // Nothing of it was half there.
    assert_eq!(said(&gateway, KEPT), 0);
}

#[test]
fn clients_are_held_against_the_authority_that_is_there_now() {
    let shop = Shop::with(Upstream::start(), &[("client_ca", "ca.crt")], |policy| {
        policy
    });
    let other = Authority::new("other");
    let own = shop.papers.authority.issue(&["client"]);
    let theirs = other.issue(&["client"]);
    let serves = |identity: &Issued| {
        let offer = shop.papers.offer().showing(identity.clone());
        let (mut client, _) = offer.connect(shop.gateway.address).ok()?;
        client.wire.write(&Request::call("t").bytes()).ok()?;
        Some(client.try_read().ok()?.status)
    };
    assert_eq!((serves(&own), serves(&theirs)), (Some(200), None));
    shop.papers.write("ca.crt", &other.pem());
    eventually("the other authority", || serves(&theirs) == Some(200));
    assert_eq!(serves(&own), None);
}

#[test]
fn an_upstream_is_held_against_the_authority_that_is_there_now() {
    let papers = Papers::new();
    let other = Authority::new("other");
    let upstream = Upstream::start();
    let identity = other.issue(&["127.0.0.1"]);
    let front = Front::before(upstream.address, &Manner::of(&identity));
    let policy = Policy::to_url(&front.url("127.0.0.1"));
    let policy = policy.set(
        "/upstreams/up/tls/ca",
        papers.path("ca.crt").to_str().into(),
    );
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.ask(&Request::call("t")).status, 502);
    papers.write("ca.crt", &other.pem());
    eventually("the other authority", || {
        gateway.ask(&Request::call("t")).status == 200
    });
    assert_eq!(upstream.runs("t"), 1);
}
