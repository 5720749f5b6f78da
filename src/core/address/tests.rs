//! Addresses name one server, or say what is wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::Server;

#[test]
fn addresses_name_their_server() {
    for (address, scheme, host, port) in [
        ("http://camera/stream", "http", "camera", 80),
        ("https://Camera.LAN:8443?x=1", "https", "camera.lan", 8443),
        ("rtsp://user:p#ss@192.0.2.7", "rtsp", "192.0.2.7", 554),
        ("rtsps://user@name:secret@192.0.2.7:1/a@b:c", "rtsps", "192.0.2.7", 1),
        ("http://[::1]:80/", "http", "::1", 80),
        ("rtsp://[fe80::1%eth0]/main", "rtsp", "fe80::1%eth0", 554),
        ("http://[0:0::1]#x", "http", "::1", 80),
        ("http://good#@camera/", "http", "good", 80),
    ] {
        let server = Server { scheme: scheme_of(scheme), host: host.to_owned(), port };
        assert_eq!(Server::of(address), Ok(server), "{address}");
    }
}

#[test]
fn malformed_addresses_are_refused() {
    for (address, problem) in [
        ("http://::1:80/", "in brackets"),
        ("http://::1/", "in brackets"),
        ("http://2001:db8::7", "in brackets"),
        ("rtsp://[fe80::1", "without `]`"),
        ("rtsp://user:pw@[fe80::1/main", "without `]`"),
        ("rtsp://[fe80::1]x/", "behind `]`"),
        ("rtsp://[fe80::1]554/", "behind `]`"),
        ("rtsp://[camera]/", "not an IPv6 address"),
        ("rtsp://[]/", "not an IPv6 address"),
        ("rtsp://[fe80::1%a/b]/", "without `]`"),
        ("http://", "no host"),
        ("http:///stream", "no host"),
        ("http://user:pw@/stream", "no host"),
        ("http://:80/", "no host"),
        ("http://camera:/", "invalid port"),
        ("http://camera:0/", "invalid port"),
        ("http://camera:65536/", "invalid port"),
        ("http://camera:+80/", "invalid port"),
        ("rtsp://user:pa/ss@camera/", "invalid port"),
        ("http://192.0.2/", "not an IPv4 address"),
        ("http://192.0.2.256/", "not an IPv4 address"),
        ("http://cam era/", "invalid character"),
        ("http://camera]/", "invalid character"),
        ("http://camera\\x/", "invalid character"),
        ("camera", "begins with"),
        ("ftp://camera/", "begins with"),
    ] {
        let refusal = Server::of(address).unwrap_err();
        assert!(refusal.contains(problem), "{address}: {refusal}");
    }
}

#[test]
fn redirects_stay_on_their_server() {
    let leads =
        |from: &str, to: &str| Server::of(from).unwrap().may_redirect_to(&Server::of(to).unwrap());
    assert!(leads("http://camera/", "http://camera:80/other"));
    assert!(leads("http://camera:8080/", "http://CAMERA:8080/other"));
    assert!(leads("http://camera/", "https://camera/"));
    assert!(!leads("https://camera/", "http://camera/"));
    assert!(!leads("http://camera/", "http://camera:8080/"));
    assert!(!leads("http://camera:8080/", "https://camera/"));
    assert!(!leads("http://camera/", "http://127.0.0.1/"));
    assert!(!leads("http://camera/", "rtsp://camera/"));
}

fn scheme_of(name: &str) -> &'static str {
    super::SCHEMES.into_iter().find(|(scheme, _)| *scheme == name).unwrap().0
}
