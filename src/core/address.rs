//! Addresses of network sources: `http://`, `https://`, `rtsp://` and `rtsps://`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The server that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `http`, `https`, `rtsp` or `rtsps`.
    pub scheme: &'static str,
    /// A name in lower case, or an IP address, without brackets.
    pub host: String,
    /// The port; by default the scheme's port.
    pub port: u16,
}

/// Schemes, each with its port.
const SCHEMES: [(&str, u16); 4] = [("http", 80), ("https", 443), ("rtsp", 554), ("rtsps", 322)];

impl Server {
    /// The server of `address`. The rest of the address is not checked.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, and what is expected, without any part of the address.
    pub fn of(address: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = address.split_once("://").ok_or(NO_SCHEME)?;
        let (scheme, default_port) = SCHEMES
            .into_iter()
            .find(|(known, _)| scheme.eq_ignore_ascii_case(known))
            .ok_or(NO_SCHEME)?;
        // As GStreamer reads them: only web addresses have fragments.
        let ends: &[char] = if scheme.starts_with("http") { &['/', '?', '#'] } else { &['/', '?'] };
        let authority = rest.split(ends).next().unwrap_or_default();
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let (host, port) = match place.strip_prefix('[') {
            Some(inside) => {
                let (host, after) = inside.split_once(']').ok_or(NO_BRACKET)?;
                (checked_ipv6(host)?, after)
            }
            None => {
                let (host, after) = place.split_at(place.find(':').unwrap_or(place.len()));
                if after[after.len().min(1)..].contains(':') {
                    return Err(NO_BRACKETS);
                }
                (checked_name(host)?, after)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => default_port,
            None => return Err(NO_COLON),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port != 0).ok_or(NO_PORT)?
            }
            Some(_) => return Err(NO_PORT),
        };
        Ok(Self { scheme, host, port })
    }

    /// Whether `other` is the same server by the same protocol, or by its encrypted one, both at their usual ports.
    pub fn may_redirect_to(&self, other: &Self) -> bool {
        let is_upgrade =
            matches!((self.scheme, other.scheme), ("http", "https") | ("rtsp", "rtsps"));
        let are_usual = [self, other].into_iter().all(Self::has_usual_port);
        let is_same = self.scheme == other.scheme && self.port == other.port;
        self.host == other.host && (is_same || (is_upgrade && are_usual))
    }

    fn has_usual_port(&self) -> bool {
        SCHEMES.contains(&(self.scheme, self.port))
    }

    /// Whether connections to the server are encrypted.
    pub fn has_tls(&self) -> bool {
        self.scheme.ends_with('s')
    }
}

const NO_SCHEME: &str =
    "expected an address that begins with http://, https://, rtsp:// or rtsps://";

const NO_BRACKET: &str =
    "`[` without `]`; expected an IPv6 address in brackets, as in rtsp://[fe80::1]:554/main";

const NO_BRACKETS: &str =
    "several colons in the host; expected an IPv6 address in brackets, as in http://[::1]:80/";

const NO_IPV6: &str = "not an IPv6 address in brackets; expected one such as [2001:db8::7]";

const NO_IPV4: &str = "not an IPv4 address; expected four numbers of 0 to 255, such as 192.0.2.7";

const NO_HOST: &str = "no host; expected a name or an IP address after `://`";

const NO_NAME: &str = "invalid character in the host; expected a name or an IP address (in a password, `/`, `?`, `#` and `@` are \
                       written %2F, %3F, %23 and %40)";

const NO_PORT: &str = "invalid port; expected 1 to 65535 (a colon in a user name is written %3A)";

const NO_COLON: &str = "text behind `]`; expected a port such as :554, or the path";

fn checked_ipv6(host: &str) -> Result<String, &'static str> {
    // The zone of a link-local address names an interface.
    let (ip, zone) = host.split_once('%').unwrap_or((host, ""));
    let ip: Ipv6Addr = ip.parse().map_err(|_| NO_IPV6)?;
    let is_interface = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    match zone.bytes().all(is_interface) {
        true if zone.is_empty() => Ok(ip.to_string()),
        true => Ok(format!("{ip}%{zone}")),
        false => Err(NO_IPV6),
    }
}

fn checked_name(host: &str) -> Result<String, &'static str> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || "-._~%".contains(letter);
    if host.is_empty() {
        Err(NO_HOST)
    } else if !host.chars().all(is_allowed) {
        Err(NO_NAME)
    } else if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        host.parse::<Ipv4Addr>().map(|ip| ip.to_string()).map_err(|_| NO_IPV4)
    } else {
        Ok(host.to_lowercase())
    }
}

#[cfg(test)]
mod tests;
