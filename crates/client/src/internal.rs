//! Addresses of this machine and of private networks, at which a party that registers itself could make a broker call
//! services that it cannot reach. Names are resolved here, so that the address that was checked is the one that is used:
//! a name may resolve to another address at the next lookup.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether an address belongs to this machine or a private network, or is not that of one machine.
pub fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_internal_v4(address),
        IpAddr::V6(address) => is_internal_v6(address),
    }
}

fn is_internal_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        // "This network", loopback, and reserved addresses.
        || matches!(first, 0 | 127 | 240..)
        // Shared by the customers of a provider (RFC 6598).
        || (first == 100 && second & 0xc0 == 64)
        // Protocol assignments (RFC 6890) and benchmarks (RFC 2544).
        || (first, second, third) == (192, 0, 0)
        || (first == 198 && second & 0xfe == 18)
}

fn is_internal_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, ..] = address.segments();
    let embedded = |at: usize| {
        let octets = address.octets();
        is_internal_v4(Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]))
    };
    match (first, second) {
        // Local translation (RFC 8215), or translation of an IPv4 address (RFC 6052).
        (0x64, 0xff9b) => third != 0 || embedded(12),
        // 6to4 (RFC 3056).
        (0x2002, _) => embedded(2),
        // Teredo (RFC 4380): the address of the machine is behind a server.
        (0x2001, 0) => true,
        // Unspecified, loopback, and compatible with IPv4 (RFC 4291).
        (0, _) => true,
        // Unique local, link-local and site-local addresses, multicast.
        _ => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80 || first & 0xff00 == 0xff00,
    }
}

/// The internal address in a URL, if its host is one. A name is checked when it is resolved.
pub fn internal_host(url: &str) -> Option<IpAddr> {
    // `Url` has decoded other notations of an address, such as a single number.
    let url = Url::parse(url.trim()).ok()?;
    let address = url.host_str()?.trim_matches(['[', ']']).parse().ok()?;
    is_internal(address).then_some(address)
}

/// Resolves names to addresses that are not internal.
pub(crate) struct OutsideOnly;

impl Resolve for OutsideOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port of the URL replaces this one.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let outside: Vec<SocketAddr> = found.filter(|found| !is_internal(found.ip())).collect();
            if outside.is_empty() {
                return Err(format!(
                    "{} has only addresses of this machine or a private network",
                    name.as_str()
                )
                .into());
            }
            Ok(Box::new(outside.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_private_networks_are_internal_in_every_notation() {
        for internal in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::10.0.0.1",
            "::ffff:10.0.0.1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:a00:1::1",
            "2001::1",
        ] {
            assert!(is_internal(internal.parse().unwrap()), "{internal}");
        }
        for outside in [
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.2.1",
            "198.20.0.1",
            "2001:db8::1",
            "2a00::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(!is_internal(outside.parse().unwrap()), "{outside}");
        }
        for (url, internal) in [
            ("http://127.0.0.1:7420", true),
            ("http://2130706433/", true),
            ("http://0x7f.1/", true),
            ("https://[::ffff:169.254.169.254]:80/latest", true),
            ("http://192.0.2.1", false),
            ("https://north.example.org", false),
            ("unix:/run/north.sock", false),
        ] {
            assert_eq!(internal_host(url).is_some(), internal, "{url}");
        }
    }
}
