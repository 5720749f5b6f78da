//! A credential never survives redaction, wherever it stands.

use foveate::redact::{MASK, redacted, register};
use proptest::prelude::*;

/// What a password may hold inside a URI: anything but blanks and quotes, `@`, `/` and `:` included.
const PASSWORD: &str = "[!#-&(-.0-?A-Z\\[\\]^_a-z{|}~/:@]{0,12}";

proptest! {
    #[test]
    fn a_password_in_a_uri_is_masked_wherever_the_uri_stands(
        before in "[ -~]{0,40}",
        left in PASSWORD,
        right in PASSWORD,
        scheme in "rtsps?|http|srt",
        after in "[ -~]{0,40}",
    ) {
        let text = format!("{before} {scheme}://user:{left}MARKER{right}@host/path {after}");
        prop_assert!(!redacted(&text).contains("MARKER"), "{}", redacted(&text));
    }

    #[test]
    fn a_named_value_is_masked_however_it_is_quoted(
        before in "[a-z ]{0,20}",
        name in "user-id|user-pw|password|PASSWORD|passphrase|token|access_token|api-key|my_secret",
        shape in 0..7usize,
        after in "[a-z ]{0,20}",
    ) {
        let value = match shape {
            0 => format!("{name}=MARKER"),
            1 => format!("{name} = MARKER"),
            2 => format!("{name}=\"a b \\\" MARKER\""),
            3 => format!("{name}='a b MARKER'"),
            4 => format!("{name}=(string)\"x MARKER\""),
            5 => format!("{name}\\=\\(string\\)MARKER\\;"),
            _ => format!("http://host/path?a=1&{name}=MARKER&b=2"),
        };
        let text = format!("{before} {value} {after}");
        prop_assert!(!redacted(&text).contains("MARKER"), "{text} gives {}", redacted(&text));
    }

    #[test]
    fn a_registered_secret_is_masked_in_every_spelling(
        tail in "[ -~]{0,16}",
        before in "[ -~]{0,20}",
    ) {
        let secret = format!("MARKER{tail}");
        register(&secret);
        let backslashed: String = secret.chars().flat_map(|c| {
            (!c.is_alphanumeric() && !"_-./:@%+".contains(c)).then_some('\\').into_iter().chain([c])
        }).collect();
        for spelling in [secret, backslashed] {
            let shown = redacted(&format!("{before}{spelling}"));
            prop_assert!(!shown.contains("MARKER"), "{}", shown);
        }
    }

    #[test]
    fn redacting_twice_changes_nothing_more(text in "[ -~]{0,80}") {
        let once = redacted(&text);
        prop_assert_eq!(redacted(&once), once);
    }

    #[test]
    fn words_without_credentials_stay(text in "[a-z0-9 ,.!/]{0,60}") {
        prop_assert_eq!(redacted(&text), text);
    }
}

#[test]
fn what_is_no_credential_stays_readable() {
    let text =
        "rtspsrc location=rtsp://user:pw@cam.local:554/main latency=50 ! appsink name=frames";
    let expected = format!(
        "rtspsrc location=rtsp://{MASK}@cam.local:554/main latency=50 ! appsink name=frames"
    );
    assert_eq!(redacted(text), expected);
    assert_eq!(redacted("tokens=273 at rtsp://cam/1"), "tokens=273 at rtsp://cam/1");
    assert_eq!(redacted("a?token=abc&x=1"), format!("a?token={MASK}&x=1"));
    assert_eq!(redacted("Authorization: Basic dTpw\nnext"), format!("Authorization: {MASK}\nnext"));
    assert_eq!(redacted("{\"password\": \"geheim\"}"), format!("{{\"password\": {MASK}}}"));
}
