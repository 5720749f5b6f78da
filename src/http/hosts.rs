//! The host names that a server answers to. Otherwise a page of another site could reach it through the user's browser, by DNS
//! rebinding: with a name of its own that resolves to 127.0.0.1.

use std::net::{IpAddr, SocketAddr};

/// Host names of a server.
#[derive(Debug)]
pub struct Hosts {
    names: Vec<String>,
    /// Accept any IP address, because the server does not know all of its own. DNS rebinding needs a name.
    any_address: bool,
}

impl Hosts {
    /// The names of a server on `address`, and `others`.
    pub fn new(address: SocketAddr, others: Vec<String>) -> Self {
        let others = others.into_iter().map(|name| name.to_ascii_lowercase());
        let names = ["localhost".to_owned()].into_iter().chain(others).collect();
        Self { names, any_address: !address.ip().is_loopback() }
    }

    /// Whether `host`, with or without a port, is one of them.
    pub fn allow(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<IpAddr>() {
            Ok(ip) => self.any_address || ip.is_loopback(),
            Err(_) => self.names.iter().any(|known| known.eq_ignore_ascii_case(name)),
        }
    }
}

/// The name in `NAME`, `NAME:PORT`, `[V6]` or `[V6]:PORT`.
fn without_port(host: &str) -> Option<&str> {
    let end_of_name = host.rfind(']').map_or(0, |end| end + 1);
    match host[end_of_name..].split_once(':') {
        None => Some(host),
        Some((rest, port)) => {
            let is_port = port.parse::<u16>().is_ok();
            is_port.then(|| &host[..end_of_name + rest.len()])
        }
    }
}
