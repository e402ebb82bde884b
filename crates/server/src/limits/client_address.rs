//! The address by which connections and requests of one client are counted.

use std::net::{IpAddr, Ipv6Addr};

/// The address of a client. An IPv6 client usually has a whole network of 64 bits, so that is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(ip.into()),
            IpAddr::V6(ip) => Self(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ClientAddress;
    use std::net::IpAddr;

    #[test]
    fn addresses_of_one_client_are_the_same() {
        let is_same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|ip| ClientAddress::from(ip.parse::<IpAddr>().unwrap()));
            one == other
        };
        assert!(is_same("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(is_same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!is_same("2001:db8:0:1::1", "2001:db8::1"));
        assert!(!is_same("127.0.0.1", "127.0.0.2"));
    }
}
