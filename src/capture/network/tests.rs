//! Tests of redirects and of statuses of web servers.

use foveate_stats::LossReason;

use super::{Answer, Network, error_of_status};
use crate::{CaptureError, SourceChoice, SourceSpec};

fn answer(address: &str, location: &str) -> Answer {
    let location = Some(location.to_owned());
    Answer { address: address.to_owned(), status: 302, location, media: None }
}

#[test]
fn redirects_are_resolved_against_their_address() {
    let base = "http://user:pw@camera:81/a/b?c=d";
    for (location, expected) in [
        ("http://camera:81/x", "http://user:pw@camera:81/x"),
        ("http://other:81/x", "http://other:81/x"),
        ("http://camera/x", "http://camera/x"),
        ("//camera:81/x", "http://user:pw@camera:81/x"),
        ("/x?y", "http://user:pw@camera:81/x?y"),
        ("x", "http://user:pw@camera:81/a/x"),
        ("?y", "http://user:pw@camera:81/a/b?y"),
        ("file:///etc/passwd", "file:///etc/passwd"),
        // A scheme without `//` names no server: it is taken as a path, of the same one.
        ("javascript:x", "http://user:pw@camera:81/a/javascript:x"),
    ] {
        assert_eq!(answer(base, location).redirects_to().as_deref(), Some(expected), "{location}");
    }
    assert_eq!(answer("http://camera", "x").redirects_to().as_deref(), Some("http://camera/x"));
}

#[test]
fn redirects_are_followed_on_their_server() {
    let spec = SourceSpec::new("test", SourceChoice::Shorthand("http://camera/".to_owned()));
    let mut network = Network::of(&spec);
    for location in ["http://127.0.0.1/", "https://other/", "file:///etc/passwd", "rtsp://camera/"]
    {
        let refused = answer("http://user:MARKER@camera/", location);
        assert_eq!(network.redirect(&refused), None, "{location}");
        let error = refused.error();
        assert!(
            matches!(&error, Some(CaptureError::Redirected { to }) if to == location),
            "{error:?}"
        );
    }
    // A loop ends.
    let again = answer("http://camera/", "/again");
    for _ in 0..super::REDIRECTS_MAX {
        let redirect = network.redirect(&again);
        assert!(redirect.is_some());
        redirect.into_iter().for_each(|redirect| network.follow(redirect));
    }
    assert_eq!(network.redirect(&again), None);
}

#[test]
fn statuses_say_what_to_do() {
    let error = |status| error_of_status("http://camera/".to_owned(), status);
    for (status, text) in [
        (401, "user and password"),
        (403, "user and password"),
        (404, "does not exist"),
        (453, "viewers"),
        (503, "viewers"),
        (500, "restart"),
        (400, "check the address"),
    ] {
        assert!(error(status).to_string().contains(text), "{}", error(status));
        assert_eq!(error(status).loss_reason(), LossReason::Unreachable);
    }
}
