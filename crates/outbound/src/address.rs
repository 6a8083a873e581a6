//! Classification of IP addresses.
//!
//! Sources: RFC 6890 and the IANA registries of special-purpose addresses; the addresses at which clouds
//! serve instance credentials. Invariant: an IPv6 address that embeds an IPv4 address (mapped, compatible,
//! NAT64, 6to4, Teredo) is never classified as less dangerous than that address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, Ordering};

/// A kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The public Internet.
    Public,
    /// A private network: RFC 1918, RFC 4193, RFC 6598, RFC 2544.
    Private,
    /// This machine.
    Loopback,
    /// The local link; clouds serve credentials there.
    LinkLocal,
    /// Serves credentials or settings of the machine in a cloud.
    Metadata,
    /// No destination of requests: unspecified, multicast, broadcast, documentation, reserved.
    Unusable,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Public => "a public address",
            Class::Private => "a private address",
            Class::Loopback => "this machine (loopback)",
            Class::LinkLocal => "a link-local address",
            Class::Metadata => "a cloud's metadata address",
            Class::Unusable => "an address that nothing is sent to",
        })
    }
}

/// The classes that the operator allows besides public and private addresses, as bits.
static ALLOWED: AtomicU8 = AtomicU8::new(0);
const LOOPBACK: u8 = 1;
const LINK_LOCAL: u8 = 2;

/// Sets, once at the start of the program, which further addresses may be connected to if settings or other
/// servers name them: notification targets, identity providers, directories, receivers of the audit log.
pub fn allow(loopback: bool, link_local: bool) {
    let bits = (if loopback { LOOPBACK } else { 0 }) | (if link_local { LINK_LOCAL } else { 0 });
    ALLOWED.store(bits, Ordering::Relaxed);
}

/// Whether addresses of this class may be connected to if settings or other servers name them.
pub fn is_allowed(class: Class) -> bool {
    let allowed = ALLOWED.load(Ordering::Relaxed);
    match class {
        Class::Public | Class::Private => true,
        Class::Loopback => allowed & LOOPBACK != 0,
        Class::LinkLocal | Class::Metadata => allowed & LINK_LOCAL != 0,
        Class::Unusable => false,
    }
}

/// Refuses a host that is itself an address that must not be connected to, when settings are stored. The
/// addresses of a name are checked at connection time.
///
/// # Errors
/// A message that names the class of the address.
pub fn refuse_host(host: &str) -> Result<(), String> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(ip) = host.parse::<IpAddr>() else { return Ok(()) };
    let class = classify(ip);
    if is_allowed(class) {
        return Ok(());
    }
    let how = match class {
        Class::Loopback => "; allow it with ASHLAR_OUTBOUND_ALLOW=loopback",
        Class::LinkLocal | Class::Metadata => "; allow it with ASHLAR_OUTBOUND_ALLOW=link-local",
        _ => "",
    };
    Err(format!("{ip} is {class}: not allowed{how}"))
}

/// Metadata services outside 169.254.0.0/16: Alibaba, Azure's wire server, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// Amazon's over IPv6, and Google's.
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254),
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254),
];

/// The kind of an address.
pub fn classify(ip: IpAddr) -> Class {
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => v6(ip),
    }
}

fn v4(ip: Ipv4Addr) -> Class {
    if METADATA_V4.contains(&ip) || ip == Ipv4Addr::new(169, 254, 169, 254) {
        return Class::Metadata;
    }
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (127, ..) => Class::Loopback,
        (169, 254, _) => Class::LinkLocal,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) | (198, 18..=19, _) => {
            Class::Private
        }
        // "This network" (0.0.0.0/8) reaches the machine itself on Linux.
        (0, ..) | (224..=255, ..) => Class::Unusable,
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => Class::Unusable,
        _ => Class::Public,
    }
}

fn v6(ip: Ipv6Addr) -> Class {
    if METADATA_V6.contains(&ip) {
        return Class::Metadata;
    }
    let s = ip.segments();
    let carried = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unusable,
        // Mapped, translated (RFC 2765), compatible.
        [0, 0, 0, 0, 0, 0xffff, h, l] | [0, 0, 0, 0, 0xffff, 0, h, l] | [0, 0, 0, 0, 0, 0, h, l] => {
            v4(carried(h, l))
        }
        // NAT64, the well-known prefix and the local one.
        [0x64, 0xff9b, 0, 0, 0, 0, h, l] | [0x64, 0xff9b, 1, .., h, l] => v4(carried(h, l)),
        [0x2002, h, l, ..] => v4(carried(h, l)),
        // Teredo stores the complement of the client's address.
        [0x2001, 0, .., h, l] => v4(carried(!h, !l)),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x100, 0, 0, 0, ..] => Class::Unusable,
        [first, ..] => match first {
            0xfc00..=0xfdff | 0xfec0..=0xfeff => Class::Private,
            0xfe80..=0xfebf => Class::LinkLocal,
            0xff00..=0xffff => Class::Unusable,
            0x2000..=0x3fff => Class::Public,
            // Not assigned by IANA.
            _ => Class::Unusable,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test for all cases, because the allowed classes are global.
    #[test]
    fn classes_allowed_by_the_operator_apply_everywhere() {
        let refused = |host: &str| refuse_host(host).is_err();
        assert!(
            ["127.0.0.1", "[::1]", "169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0"]
                .iter()
                .all(|h| refused(h))
        );
        assert!(!refused("10.0.0.1") && !refused("8.8.8.8") && !refused("example.org"));
        allow(true, false);
        assert!(!refused("127.0.0.1") && refused("169.254.169.254"));
        allow(false, true);
        assert!(refused("127.0.0.1") && !refused("169.254.169.254") && refused("0.0.0.0"));
        allow(false, false);
    }

    #[test]
    fn addresses_are_classified() {
        use Class::*;
        let table = [
            ("8.8.8.8", Public),
            ("1.1.1.1", Public),
            ("172.15.255.255", Public),
            ("172.32.0.0", Public),
            ("100.63.255.255", Public),
            ("100.128.0.0", Public),
            ("169.253.255.255", Public),
            ("192.169.0.1", Public),
            ("223.255.255.255", Public),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("198.18.0.1", Private),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("169.254.0.1", LinkLocal),
            ("169.254.170.2", LinkLocal),
            ("169.254.169.254", Metadata),
            ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata),
            ("192.0.0.192", Metadata),
            ("0.0.0.0", Unusable),
            ("0.1.2.3", Unusable),
            ("192.0.2.1", Unusable),
            ("203.0.113.9", Unusable),
            ("224.0.0.1", Unusable),
            ("240.0.0.1", Unusable),
            ("255.255.255.255", Unusable),
            ("2600::1", Public),
            ("2a00:1450:4001::200e", Public),
            ("::1", Loopback),
            ("::", Unusable),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", Metadata),
            ("::ffff:10.1.2.3", Private),
            ("::ffff:8.8.8.8", Public),
            ("::ffff:0:127.0.0.1", Loopback),
            ("::127.0.0.1", Loopback),
            ("64:ff9b::169.254.169.254", Metadata),
            ("64:ff9b:1::7f00:1", Loopback),
            ("64:ff9b::808:808", Public),
            ("2002:7f00:1::", Loopback),
            ("2002:a9fe:a9fe::1", Metadata),
            ("2002:0808:0808::1", Public),
            ("2001:0:4136:e378:8000:63bf:80ff:fffe", Loopback),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("fd12:3456::1", Private),
            ("fc00::1", Private),
            ("fec0::1", Private),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("ff02::1", Unusable),
            ("2001:db8::1", Unusable),
            ("100::1", Unusable),
            ("4000::1", Unusable),
        ];
        for (text, class) in table {
            assert_eq!(classify(text.parse().unwrap()), class, "{text}");
        }
    }
}
