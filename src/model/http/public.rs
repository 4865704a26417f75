//! Which addresses a request may reach: [`Addresses`], and the resolver that holds to it.
//!
//! The check is made on the address that the connection goes to, and by the one lookup that it is made with: a name that is public
//! when it is judged and private a moment later (DNS rebinding) leads nowhere. An address that stands in a URL itself is never looked
//! up, so it is judged before.
//!
//! Sources: the IANA registries of special-purpose addresses (RFC 6890), 168.63.129.16 as Azure's own service to its machines, and
//! 2000::/3 as all that IPv6 has assigned so far.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Which addresses requests may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Addresses {
    /// All: a server of one's own may stand anywhere.
    #[default]
    Any,
    /// Public ones alone, for addresses that a model or a stranger names: no private, loopback, link-local, shared or reserved one.
    /// A request to another address fails before anything is sent. Where a scheme has a proxy, all its requests go through that,
    /// without exceptions: it looks names up itself, and what they lead to is the proxy's to say. An address in the URL is judged here.
    Public,
}

impl Addresses {
    /// Whether requests may reach this address.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        match (self, address) {
            (Addresses::Any, _) => true,
            (Addresses::Public, IpAddr::V4(v4)) => is_public(v4),
            (Addresses::Public, IpAddr::V6(v6)) => is_public_v6(v6),
        }
    }
}

fn is_public(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (168, 63, 129)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public(mapped);
    }
    let [a, b, ..] = address.segments();
    // Of what is assigned: no documentation, no tunnels and other special purposes (2001::/23), no 6to4, which holds an IPv4 address.
    (0x2000..=0x3fff).contains(&a)
        && !(a == 0x2001 && (b < 0x0200 || b == 0x0db8))
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
}

/// Looks names up with the system, and keeps the public addresses. For connections without a proxy.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || {
                let found = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0))?;
                public_of(name.as_str(), found)
            });
            Ok(found.await.map_err(io::Error::other)??)
        })
    }
}

fn public_of(name: &str, found: impl Iterator<Item = SocketAddr>) -> io::Result<Addrs> {
    let public: Vec<_> = found.filter(|found| Addresses::Public.has(found.ip())).collect();
    match public.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{name} has no public address"))),
        false => Ok(Box::new(public.into_iter())),
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_the_public_internet_is_not_public() {
        let private = "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.0.9 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 \
            192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.7 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 \
            ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::10.0.0.1 64:ff9b::a00:1 64:ff9b::808:808 100::1 2001::1 2001:db8::1 2002:7f00:1::1 \
            3fff::1 fc00::1 fd12::1 fe80::1 fec0::1 ff02::1 4000::1";
        for address in private.split_whitespace() {
            assert!(!Addresses::Public.has(address.parse().unwrap()), "{address}");
            assert!(Addresses::Any.has(address.parse().unwrap()), "{address}");
        }
        let public = "1.1.1.1 8.8.8.8 100.63.0.1 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 192.167.0.1 198.17.0.1 203.0.112.1 \
            223.255.255.1 2606:4700::1111 2a00:1450::1 2001:4860::8888 ::ffff:8.8.8.8";
        for address in public.split_whitespace() {
            assert!(Addresses::Public.has(address.parse().unwrap()), "{address}");
        }
    }

    /// Of a name with addresses of both kinds the private ones are not reached; a name without a public one is refused by name.
    #[test]
    fn a_name_leads_to_its_public_addresses_alone() {
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 0);
        let kept: Vec<_> = public_of("both", [at("10.0.0.1"), at("8.8.8.8"), at("::1")].into_iter()).unwrap().collect();
        assert_eq!(kept, [at("8.8.8.8")]);
        let refused = public_of("inner", [at("127.0.0.1"), at("fe80::1")].into_iter()).map(drop).unwrap_err();
        assert_eq!(refused.to_string(), "inner has no public address");
    }
}
