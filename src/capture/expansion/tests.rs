//! A shorthand is a shipped pipeline, and a value never becomes more than a value.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use foveate_core::name::natural_order;
use gstreamer as gst;
use gstreamer::prelude::*;
use proptest::prelude::*;

use super::{SHIPPED, expand};
use crate::{SourceChoice, SourceSpec};

#[test]
fn every_shipped_pipeline_parses_with_its_defaults() {
    gst::init().unwrap();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines");
    let files = std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(files, SHIPPED.len(), "what lies in pipelines/ is what is shipped");
    for (name, text) in SHIPPED {
        let path = directory.join(format!("{name}.gst"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let mut spec = SourceSpec::new(name, SourceChoice::PipelineFile(path));
        if text.contains("${location}") {
            spec.parameters.insert("location".to_owned(), "rtsp://camera/1".to_owned());
        }
        let expanded = expand(&spec).unwrap();
        assert!(expanded.text.ends_with("! appsink name=frames"), "{}", expanded.text);
        gst::parse::launch(&expanded.text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_parameter_of_a_shipped_pipeline_is_explained_above_it() {
    for (name, text) in SHIPPED {
        for used in text.split("${").skip(1) {
            let parameter = used.split([':', '}']).next().unwrap();
            let explained = format!("# {parameter} ");
            assert!(text.lines().any(|line| line.starts_with(&explained)), "{name}: {parameter}");
        }
    }
}

#[test]
fn shorthands_are_the_shipped_pipelines() {
    let expanded = |text: &str| {
        expand(&SourceSpec::new("s", SourceChoice::Shorthand(text.to_owned()))).unwrap().text
    };
    assert!(expanded("test").starts_with("appsrc name=scene format=time is-live=true"));
    assert!(expanded("test:ball").starts_with("videotestsrc is-live=true pattern=ball"));
    let rtsp = expanded("rtsps://user:pw@camera/1?a=b&c=d");
    assert!(
        rtsp.starts_with("rtspsrc location=rtsps://user:pw@camera/1\\?a\\=b\\&c\\=d latency=100 ")
    );
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let file = expanded(manifest);
    assert!(file.starts_with("filesrc location=/") && file.contains("Cargo.toml ! decodebin"));
    assert_eq!(file, expanded(&format!("file://{manifest}")));
    assert_eq!(file, expanded("Cargo.toml"));
}

#[test]
fn what_is_shown_has_no_credentials() {
    let mut spec =
        SourceSpec::new("s", SourceChoice::Shorthand("rtsp://user:MAR KER@cam/1".to_owned()));
    let expanded = expand(&spec).unwrap();
    assert!(expanded.text.contains("MAR\\ KER"));
    assert!(!expanded.shown.contains("KER"), "{}", expanded.shown);
    assert!(!format!("{expanded:?}").contains("KER"));

    spec.source =
        SourceChoice::Pipeline("rtspsrc location=${place} user-pw=${pw} ! appsink".to_owned());
    spec.parameters.insert("place".to_owned(), "rtsp://cam".to_owned());
    spec.parameters.insert("pw".to_owned(), "MAR KER".to_owned());
    let expanded = expand(&spec).unwrap();
    assert!(!expanded.shown.contains("KER"), "{}", expanded.shown);
}

proptest! {
    #[test]
    fn a_parameter_value_cannot_inject_elements(
        value in prop_oneof!["\\PC{1,40}", "[ !\\\\\"'=.,;(){}a]{1,12}"],
    ) {
        gst::init().unwrap();
        // GStreamer reads a value that begins with a quote as a quoted string.
        prop_assume!(!value.starts_with('"') && !value.ends_with('\\'));
        let text = "filesrc name=source location=${value} ! fakesink name=sink".to_owned();
        let mut spec = SourceSpec::new("s", SourceChoice::Pipeline(text));
        spec.parameters.insert("value".to_owned(), value.clone());
        let expanded = expand(&spec).unwrap();
        let pipeline = gst::parse::launch(&expanded.text).unwrap().downcast::<gst::Pipeline>().unwrap();
        prop_assert_eq!(pipeline.children().len(), 2);
        let location = pipeline.by_name("source").unwrap().property::<Option<String>>("location");
        prop_assert_eq!(location, Some(value));
    }
}

#[test]
fn numbers_in_names_are_ordered_by_value() {
    let ordered =
        ["", "10", "a", "a1", "a01", "a2", "a2b", "a2b10", "a10", "a100000000000000000000", "b1"];
    let mut sorted = ordered;
    sorted.reverse();
    sorted.sort_by(|one, other| natural_order(one, other));
    // Of equal values the one with more zeros is first.
    let mut expected = ordered;
    expected.swap(3, 4);
    assert_eq!(sorted, expected);
}
