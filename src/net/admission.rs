//! How many connections there are, in total and from one source, and how many there may be.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::policy::plan::Listen;

/// Lets connections in.
#[derive(Debug)]
pub(super) struct Admission {
    total_max: usize,
    per_source_max: usize,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    /// As many entries as there are connections, at most.
    sources: HashMap<IpAddr, usize>,
}

/// A connection that was let in, until it is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    source: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Admission {
    pub(super) fn new(listen: &Listen) -> Admission {
        Admission {
            total_max: listen.connections_max,
            per_source_max: listen.connections_per_source_max,
            counts: Arc::default(),
        }
    }

    /// Lets a connection from `peer` in.
    ///
    /// # Errors
    /// The key of the limit that it would exceed.
    pub(super) fn admit(&self, peer: IpAddr) -> Result<Admitted, &'static str> {
        let source = source(peer);
        let mut counts = lock(&self.counts);
        if counts.total >= self.total_max {
            return Err("listen.connections_max");
        }
        let of_source = counts.sources.entry(source).or_default();
        if *of_source >= self.per_source_max {
            return Err("listen.connections_per_source_max");
        }
        *of_source += 1;
        counts.total += 1;
        Ok(Admitted {
            source,
            counts: self.counts.clone(),
        })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.total -= 1;
        if let Some(of_source) = counts.sources.get_mut(&self.source) {
            *of_source -= 1;
            if *of_source == 0 {
                counts.sources.remove(&self.source);
            }
        }
    }
}

/// Whom an address belongs to: a host of IPv6 has a whole network of 64 bits to choose from.
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // The counts agree between any two statements that touch them.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(total_max: usize, per_source_max: usize) -> Admission {
        Admission::new(&Listen {
            connections_max: total_max,
            connections_per_source_max: per_source_max,
            ..Listen::default()
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn both_limits_hold_and_places_come_back() {
        let admission = admission(3, 2);
        let first = admission.admit(ip("10.0.0.1")).unwrap();
        let second = admission.admit(ip("10.0.0.1")).unwrap();
        let refused = admission.admit(ip("10.0.0.1")).unwrap_err();
        assert_eq!(refused, "listen.connections_per_source_max");
        let other = admission.admit(ip("10.0.0.2")).unwrap();
        let refused = admission.admit(ip("10.0.0.3")).unwrap_err();
        assert_eq!(refused, "listen.connections_max");
        drop(first);
        let again = admission.admit(ip("10.0.0.1")).unwrap();
        drop((second, other, again));
        let counts = lock(&admission.counts);
        assert_eq!((counts.total, counts.sources.len()), (0, 0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let admission = admission(10, 1);
        let _kept = admission.admit(ip("2001:db8:0:1::1")).unwrap();
        assert!(admission.admit(ip("2001:db8:0:1:ffff::2")).is_err());
        let _other = admission.admit(ip("2001:db8:0:2::1")).unwrap();
        let _mapped = admission.admit(ip("::ffff:10.0.0.1")).unwrap();
        assert!(admission.admit(ip("10.0.0.1")).is_err(), "the same host");
    }
}
