//! A credential never survives redaction, wherever it stands.

use foveate_log::redact::{MASK, SecretMask, redacted};
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
        name in "user-id|user-pw|password|PASSWORD|passphrase|token|access_token|api-key|my_secret|pass|psw|loginpas|auth|key|signature|streamid",
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
        let masked = MASK.to_owned();
        let _masked = SecretMask::new([(&secret, &masked)]);
        let backslashed: String = secret.chars().flat_map(|c| {
            (!c.is_alphanumeric() && !"_-./:@%+".contains(c)).then_some('\\').into_iter().chain([c])
        }).collect();
        for spelling in [secret, backslashed] {
            let shown = redacted(&format!("{before}{spelling}"));
            prop_assert!(!shown.contains("MARKER"), "{}", shown);
        }
    }

    #[test]
    fn a_pipeline_credential_is_masked_on_its_own(
        tail in "[a-z0-9.!&% ]{0,8}",
        shape in 0..4usize,
    ) {
        let password = format!("MARKER{shape}{tail}");
        let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let text = match shape {
            0 => format!("rtspsrc location=rtsp://user:{encoded}@host/x ! appsink"),
            1 => format!("rtspsrc user-pw=\"{password}\" location=rtsp://host/x ! appsink"),
            2 => format!("rtspsrc user-pw={} user-id=somebody", password.replace(' ', "\\ ")),
            _ => format!("rtspsrc location=\"rtsp://user:{encoded}@host/x\" ! appsink"),
        };
        let _masked = SecretMask::default().and_credentials_in(&text);
        let given = if matches!(shape, 0 | 3) { &encoded } else { &password };
        let shown = redacted(&format!("unescaping {given} to {password} for somebody"));
        prop_assert!(!shown.contains("MARKER") && !shown.contains("%4D%41"), "{text}: {shown}");
        prop_assert!(shown.contains("somebody"), "names stay: {shown}");
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
fn of_an_address_scheme_host_port_and_path_are_shown() {
    for (text, expected) in [
        ("rtsp://h:554/x?pass=MARKER&a=1 is lost", "rtsp://h:554/x?*** is lost"),
        ("rtsp://h/x?user=a&anything=MARKER", "rtsp://h/x?***"),
        ("srt://h:9000?streamid=MARKER", "srt://h:9000?***"),
        ("https://h/x#MARKER", "https://h/x#***"),
        ("location=\"rtsp://u:a MARKER@h/x\" latency=0", "location=\"rtsp://***@h/x\" latency=0"),
        ("location='rtsp://u:a\"MARKER@h/x' latency=0", "location='rtsp://***@h/x' latency=0"),
        ("\"rtsp://u:a\\\"MARKER@h/x\" fails", "\"rtsp://***@h/x\" fails"),
        ("says \\\"rtsp://u:a MARKER@h/x\\\" fails", "says \\\"rtsp://***@h/x\\\" fails"),
        ("rtsp://u:a\"MARKER@h/x fails", "rtsp://***@h/x fails"),
        ("rtsp://h/x?p=P@MARKER fails", "rtsp://*** fails"),
        ("rtsp:/u:MARKER@h/x fails", "rtsp:/***@h/x fails"),
        ("there is no /dev/video0:/x", "there is no /dev/video0:/x"),
        ("rtsp://h/x?user=a&pw=P@MARKER", "rtsp://***"),
        ("rtsp://h:554/x?user=a&password=P@MARKER", "rtsp://***"),
        ("http://h/x#a@MARKER", "http://***"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn an_address_password_with_quotes_is_masked() {
    let passwords = ["a MARKER", "a\"MARKER", "a'MARKER b", "MARKER@ /?#"];
    let of_users = passwords.map(|password| format!("rtsp://u:{password}@h/x"));
    let queries = ["p=P@MARKER", "user=a&password=P@MARKER", "a#P@MARKER"];
    let of_queries = queries.map(|query| format!("rtsp://h:554/long/path/x?{query}"));
    for source in of_users.into_iter().chain(of_queries) {
        let _masked = SecretMask::default().and_credentials_in(&source);
        for text in [source.clone(), format!("cannot open {source} now"), format!("{source:?}")] {
            assert!(!redacted(&text).contains("MARKER"), "{text} gives {}", redacted(&text));
        }
    }
}

#[test]
fn a_short_secret_is_masked_as_a_whole_word() {
    let secrets = [("q7", "***"), ("/dev/q7", "/dev/${CAMERA}")];
    let secrets = secrets.map(|(text, shown)| (text.to_owned(), shown.to_owned()));
    let _masked = SecretMask::new(secrets.iter().map(|(text, shown)| (text, shown)));
    assert_eq!(redacted("q7"), MASK);
    assert_eq!(redacted("cannot set it to \"q7\" or 'q7'"), "cannot set it to \"***\" or '***'");
    assert_eq!(redacted("there is no camera /dev/q7"), "there is no camera /dev/${CAMERA}");
    assert_eq!(redacted("seq7 of 30"), "seq7 of 30");
}

#[test]
fn a_secret_is_masked_while_any_holder_lives() {
    let (secret, shown) = ("OnlyOfThisTest".to_owned(), MASK.to_owned());
    let mask = || SecretMask::new([(&secret, &shown)]);
    let (first, second) = (mask(), mask());
    drop(first);
    assert_eq!(redacted(&secret), MASK);
    drop(second);
    assert_eq!(redacted(&secret), secret);
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

#[test]
fn an_address_without_its_scheme_hides_the_password() {
    for (text, expected) in [
        ("rtspsrc location=u:MARKER@h:554/x latency=0", "rtspsrc location=***@h:554/x latency=0"),
        ("location=\"u:MARKER@h/x\"", "location=\"***@h/x\""),
        ("cannot open u:MARKER=1@h/x?key=2", "cannot open ***@h/x?***"),
        ("there is no file u:MARKER@[::1]/x", "there is no file ***@[::1]/x"),
        ("there is no file /etc/u:MARKER@h/x", "there is no file ***"),
        ("u:MARKER/2@h", "***"),
        ("gstbin.c:12:func:<GstPad@0x55d0>", "gstbin.c:12:func:<GstPad@0x55d0>"),
        ("a.service: started user@host", "a.service: started user@host"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn headers_and_cookies_are_masked_whatever_their_names() {
    for (text, expected) in [
        (
            "souphttpsrc extra-headers=\"h,Cookie=(string)\\\"a=MARKER\\\",X-Foo=MARKER\" location=http://h/x",
            "souphttpsrc extra-headers=*** location=http://h/x",
        ),
        (
            "rtspsrc extra-http-request-headers=h,X-Foo=MARKER latency=0",
            "rtspsrc extra-http-request-headers=*** latency=0",
        ),
        ("souphttpsrc cookies=\"<a=MARKER, b=MARKER>\" ! x", "souphttpsrc cookies=*** ! x"),
        ("Set-Cookie: a=MARKER; path=/\nnext", "Set-Cookie: ***\nnext"),
        ("X-Api-Key: MARKER\nnext", "X-Api-Key: ***\nnext"),
        ("cannot read the key: not found", "cannot read the key: not found"),
    ] {
        assert_eq!(redacted(text), expected);
    }
    let text = "souphttpsrc extra-headers=\"h,Cookie=(string)\\\"a=MARKER1\\\",X-Foo=MARKER2,Accept=video/mp4\"";
    let _masked = SecretMask::default().and_credentials_in(text);
    assert_eq!(
        redacted("cookie MARKER1 and MARKER2 for video/mp4"),
        "cookie *** and *** for video/mp4"
    );
}

#[test]
fn misspelt_names_of_credentials_are_masked() {
    for name in [
        "user-pww",
        "uesr-pw",
        "pasword",
        "PASSWROD",
        "user-passwrod",
        "passphrse",
        "authorisation",
        "apikeys",
    ] {
        assert_eq!(
            redacted(&format!("rtspsrc {name}=MARKER x=1")),
            format!("rtspsrc {name}=*** x=1")
        );
    }
    for text in ["tokens=273 stream=camera keys=3", "pts=4 width=64 latency=50 user-agent=x"] {
        assert_eq!(redacted(text), text);
    }
}
