//! Messages survive the way there and back, and invalid messages do no harm.

use foveate::messages::{
    Attend, AttendTokens, Epoch, FromDaemon, Granted, Inject, Injected, Look, Looking,
    NOTICE_BYTES, NumberFormat, Refusal, RefusalReason, SubscriptionEvent, ViewName, Weigh,
    clipped,
};
use foveate_control::{Listing, Request, accepted, refused};
use foveate_core::geometry::region::Region;
use proptest::prelude::*;
use serde::de::IgnoredAny;

proptest! {
    #[test]
    fn the_name_of_a_view_is_two_names_and_a_slash(text in "[a-c0_/A.\\- é]{0,12}") {
        let parts = text.split('/').collect::<Vec<_>>();
        let valid = parts.len() == 2
            && parts.iter().all(|part| {
                !part.is_empty()
                    && part.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'))
            });
        let parsed = text.parse::<ViewName>();
        prop_assert_eq!(parsed.is_ok(), valid);
        if let Ok(name) = parsed {
            prop_assert_eq!(&name.to_string(), &text);
            prop_assert_eq!([name.stream(), name.view()], [parts[0], parts[1]]);
        }
    }

    #[test]
    fn names_have_1_to_63_bytes(stream in 0..70_usize, view in 0..70_usize) {
        let text = format!("{}/{}", "s".repeat(stream), "v".repeat(view));
        let valid = (1..=63).contains(&stream) && (1..=63).contains(&view);
        prop_assert_eq!(text.parse::<ViewName>().is_ok(), valid);
    }

    #[test]
    fn requests_survive_the_way(
        view in "[a-z0-9_-]{1,63}/[a-z0-9_-]{1,63}",
        flags: [bool; 4],
        frame: Option<u32>,
        payload in prop::collection::vec(any::<u8>(), 0..50),
        x: i32,
        y: i32,
    ) {
        let view = view.parse::<ViewName>().unwrap();
        let [notify, gaze, normalised, wait] = flags;
        let frame = frame.map(u64::from);
        // The grid of fixations; of other numbers the last bit may change.
        let (x, y) = (f64::from(x) / 16.0, f64::from(y) / 16.0);
        let homography = (normalised && !gaze).then_some([1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 0.5]);
        let rotation = (normalised && gaze).then_some([0.5, -0.5, 0.5, -0.5]);
        for request in [
            Request::Subscribe { view: view.clone(), notify, gaze, events: wait },
            Request::List { after: None },
            Request::List { after: Some(view.clone()) },
            Request::Look(Look { normalised, frame, strict: gaze, wait, ..Look::at(&view, x, y) }),
            Request::Look(Look { frame, homography, rotation, ..Look::at(&view, x, y) }),
            Request::Look(Look { for_ms: Some(9), ..Look::at_points(&view, &[(x, y), (y, x), (x, x)]) }),
            Request::Weigh(Weigh {
                view: view.clone(),
                weights: [("depth".to_owned(), x), ("a-1".to_owned(), y)].into(),
            }),
            Request::Release { view: view.clone() },
            Request::Refresh { view: view.clone() },
            Request::OpenView { stream: view.stream().to_owned(), view: serde_json::Map::new() },
        ] {
            let datagram = request.to_datagram(b"");
            prop_assert_eq!(Request::from_datagram(&datagram), Ok((request, &b""[..])));
        }
        let region = normalised.then(|| Region::from([x - 1.0, y - 1.0, x, y]));
        for request in [
            Request::Attend(Attend {
                view: view.clone(),
                shape: [3, 4],
                dtype: NumberFormat::F16,
                region,
                frame,
                strict: gaze,
                homography,
                rotation,
                wait,
            }),
            Request::Inject(Inject {
                view: view.clone(),
                name: "depth".to_owned(),
                shape: [3, 4],
                dtype: NumberFormat::F16,
                region,
                frame,
                strict: gaze,
                ttl_ms: wait.then_some(9),
            }),
            Request::AttendTokens(AttendTokens {
                view,
                frame: 7,
                dtype: NumberFormat::U8,
                strict: gaze,
                homography,
                rotation,
                wait,
            }),
        ] {
            let datagram = request.to_datagram(&payload);
            prop_assert_eq!(Request::from_datagram(&datagram), Ok((request, &payload[..])));
        }
    }

    #[test]
    fn epochs_keep_all_their_bits(epoch: u64) {
        let text = serde_json::to_string(&Epoch(epoch)).unwrap();
        prop_assert_eq!(text.len(), 18);
        prop_assert_eq!(serde_json::from_str::<Epoch>(&text).unwrap(), Epoch(epoch));
    }

    #[test]
    fn any_bytes_are_refused_or_understood(datagram in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(refusal) = Request::from_datagram(&datagram) {
            prop_assert_eq!(refusal.reason, RefusalReason::BadRequest);
        }
        let _ = FromDaemon::<IgnoredAny>::from_datagram(&datagram);
    }

    #[test]
    fn clipped_text_is_a_beginning_of_the_text(text in "[aé→𝄞]{0,20}", bytes_max in 0..40_usize) {
        let clip = clipped(&text, bytes_max);
        if text.len() <= bytes_max {
            prop_assert_eq!(clip, text);
        } else {
            let beginning = clip.strip_suffix('…').unwrap();
            prop_assert!(text.starts_with(beginning));
            prop_assert!(beginning.len() <= bytes_max && bytes_max < beginning.len() + 4);
        }
    }
}

#[test]
fn no_message_of_the_daemon_is_as_short_as_a_notice() {
    let view = "a/b".parse::<ViewName>().unwrap();
    let shortest = [
        accepted(&Granted { view: view.clone() }),
        accepted(&Injected { view: view.clone(), taken_for: None }),
        accepted(&Listing { version: None, streams: Vec::new(), server: None, next: None }),
        refused(&Refusal::new(RefusalReason::Busy, "")),
        SubscriptionEvent::Segment { view: view.clone(), epoch: Epoch(0) }.to_datagram(),
        SubscriptionEvent::Ended { view, reason: String::new() }.to_datagram(),
    ];
    for message in shortest {
        assert!(NOTICE_BYTES < message.len(), "{}", String::from_utf8_lossy(&message));
    }
    let notice = FromDaemon::<IgnoredAny>::from_datagram(&[b'{'; NOTICE_BYTES]).unwrap();
    assert!(matches!(notice, FromDaemon::Notice));
}

#[test]
fn a_newer_daemon_is_understood_as_far_as_possible() {
    let answer = br#"{"ok":true,"view":"a/b","points":[[1.0,2.0]],"z":3.0}"#;
    let looking = FromDaemon::<Looking>::from_datagram(answer).unwrap();
    assert!(
        matches!(&looking, FromDaemon::Accepted(Looking { points, .. }) if *points == [(1.0, 2.0)]),
        "{looking:?}"
    );
    let refusal = br#"{"ok":false,"reason":"full-moon","error":"not tonight"}"#;
    let expected = Refusal::new(RefusalReason::Other, "not tonight");
    assert_eq!(
        FromDaemon::<Looking>::from_datagram(refusal).unwrap(),
        FromDaemon::Refused(expected)
    );
}

/// At least one point, not more than any view has foveae, and no box beside them.
#[test]
fn a_look_has_points() {
    let look = |fields: &str| {
        let datagram = format!(r#"{{"op":"look","view":"a/b"{fields}}}"#);
        match Request::from_datagram(datagram.as_bytes())? {
            (Request::Look(look), _) => look.check().map(|()| look),
            other => panic!("{other:?}"),
        }
    };
    let view: ViewName = "a/b".parse().unwrap();
    let eight = ["[1,2]"; 8].join(",");
    let expected = Look::at_points(&view, &[(1.0, 2.0); 8]);
    assert_eq!(look(&format!(r#","points":[{eight}]"#)), Ok(expected));
    for (fields, part) in [
        (String::new(), "invalid `points`: 0 points"),
        (r#","points":[]"#.to_owned(), "invalid `points`: 0 points"),
        (format!(r#","points":[{eight},[1,2]]"#), "invalid `points`: 9 points"),
        (r#","x":1,"y":2"#.to_owned(), "unknown field `x`"),
        (r#","box":[1,2,3,4],"points":[[1,2]]"#.to_owned(), "expected `points` or `box`"),
        (r#","points":[[1,2,3]]"#.to_owned(), "length 3"),
        (r#","points":[[1]]"#.to_owned(), "length 1"),
        (r#","points":[[1,null]]"#.to_owned(), "null"),
    ] {
        let refusal = look(&fields).unwrap_err();
        assert_eq!(refusal.reason, RefusalReason::BadRequest, "{fields}");
        assert!(refusal.error.contains(part), "{fields}: {refusal}");
    }
}

/// The document names every reason that there is, and no other.
#[test]
fn the_document_names_every_reason_of_a_refusal() {
    let document = include_str!("../../docs/reference/control.md");
    let (_, table) = document.split_once("| `reason` | Why |").unwrap();
    let cells = table.lines().filter_map(|row| row.strip_prefix("| `")?.split(" |").next());
    let names = cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`'));
    let mut known = 0;
    for name in names {
        let reason: RefusalReason = serde_json::from_value(name.into()).unwrap();
        assert_ne!(reason, RefusalReason::Other, "no reason is called {name}");
        assert_eq!(reason.to_string(), name);
        known += 1;
    }
    // They are numbered from 0 in the order of their declaration, `Other` last.
    assert_eq!(known, RefusalReason::Other as usize, "reasons that the document names");
}
