//! Ranges of addresses, as a policy lists them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::finding::Flaw;

/// A range of addresses, such as `10.0.0.0/8`; a single address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many leading bits an address must share with this one.
    bits: u32,
}

impl Network {
    /// Reads a range in CIDR notation, or one address.
    ///
    /// # Errors
    /// What is no address; a length that the address does not have; bits behind the length, because
    /// the range may have been meant to be another one; and the range of all addresses, because
    /// whoever is trusted may say anything.
    pub fn parse(text: &str) -> Result<Network, Flaw> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(Flaw::of(
                text,
                "is not a range of addresses",
                "write it as `10.0.0.0/8` or `fd00::/8`, or one address",
            ));
        };
        let width = width(address);
        let bits = match bits {
            None => Some(width),
            Some(bits) if bits.starts_with(['0', '+']) && bits != "0" => None,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= width),
        };
        let Some(bits) = bits else {
            return Err(Flaw::of(
                text,
                "has no valid length behind the slash",
                format!("write a number from 1 to {width}"),
            ));
        };
        if bits == 0 {
            return Err(Flaw::of(
                text,
                "is every address there is",
                "list the addresses of the proxies before this gateway",
            ));
        }
        let first = Network {
            address: masked(address, bits),
            bits,
        };
        if first.address != address {
            return Err(Flaw::of(
                text,
                "has bits behind its length",
                format!("write `{first}`, or one address"),
            ));
        }
        first.folded().ok_or_else(|| {
            Flaw::of(
                text,
                "is more than the IPv4 addresses that are written in IPv6",
                "write ranges of IPv4 as `10.0.0.0/8`",
            )
        })
    }

    /// The range as one of IPv4 if it is written in IPv6 and is one, because addresses are compared
    /// like that; `None` for one that has such addresses among others.
    fn folded(self) -> Option<Network> {
        const MAPPED_BITS: u32 = 96;
        let IpAddr::V6(_) = self.address else {
            return Some(self);
        };
        let mapped = IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
        if self.bits > MAPPED_BITS && masked(self.address, MAPPED_BITS) == mapped {
            return Some(Network {
                address: self.address.to_canonical(),
                bits: self.bits - MAPPED_BITS,
            });
        }
        let has_mapped = self.bits <= MAPPED_BITS && masked(mapped, self.bits) == self.address;
        (!has_mapped).then_some(self)
    }

    /// Whether an address lies in the range. One of IPv4 that is written in IPv6 is one of IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.address
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with zeros behind its first `bits`, of which there is one at least.
fn masked(address: IpAddr, bits: u32) -> IpAddr {
    let behind = width(address).saturating_sub(bits);
    match address {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() & (u32::MAX << behind)).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << behind)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_addresses_that_share_its_bits() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
            ("127.0.0.1/32", "::ffff:127.0.0.1", "::1"),
            ("fd00::/8", "fdff::1", "fc00::1"),
            ("::1", "::1", "127.0.0.1"),
            ("::ffff:127.0.0.8", "127.0.0.8", "127.0.0.9"),
            ("::ffff:127.0.0.8", "::ffff:127.0.0.8", "::1"),
            ("::ffff:10.0.0.0/104", "10.255.0.1", "11.0.0.0"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
        ] {
            let range = Network::parse(range).unwrap();
            assert!(range.contains(inside.parse().unwrap()), "{range} {inside}");
            assert!(
                !range.contains(outside.parse().unwrap()),
                "{range} {outside}"
            );
        }
    }

    #[test]
    fn what_may_mean_another_range_is_refused() {
        for (text, words) in [
            ("10.0.0.1/8", "write `10.0.0.0/8`"),
            ("fd00::1/64", "write `fd00::/64`"),
            ("10.0.0.0/33", "from 1 to 32"),
            ("::/129", "from 1 to 128"),
            ("10.0.0.0/", "from 1 to 32"),
            ("10.0.0.0/+8", "from 1 to 32"),
            ("10.0.0.0/08", "from 1 to 32"),
            ("0.0.0.0/0", "every address"),
            ("::/0", "every address"),
            ("::ffff:0:0/96", "as `10.0.0.0/8`"),
            ("::/80", "as `10.0.0.0/8`"),
            ("::/64", "as `10.0.0.0/8`"),
            ("::ffff:10.0.0.1/104", "write `::ffff:10.0.0.0/104`"),
            ("10.0.0", "not a range"),
            ("localhost", "not a range"),
            ("10.0.0.0/255.0.0.0", "from 1 to 32"),
        ] {
            let flaw = Network::parse(text).unwrap_err();
            assert!(
                format!("{} {}", flaw.cause, flaw.hint).contains(words),
                "{text}: {flaw:?}"
            );
        }
    }
}
