//! Structs that Rust fills and shaders read have the same fields at the same offsets on both sides.

use foveate_core::color::ColorTransform;
use foveate_gaze::relevance::features::TileFeatures;
use testkit::fields;
use testkit::spirv::SpirvModule;

use super::detect::{DetectPush, PlanePlace};
use super::features::FeaturesPush;
use super::ingest::IngestPush;
use super::keep::{ComparePush, SettlePush};
use super::reduce::ReducePush;
use super::sample::{SamplePush, TokenSource};
use super::shaders::{COMPARE, DETECT, FEATURES, INGEST, REDUCE, SAMPLE, SETTLE, STALE};
use super::stale::{StalePush, TokenEntry};
use super::tiles::TileRecord;
use super::work::WorkListHead;

#[test]
fn push_constants_agree() {
    let ingest = SpirvModule::parse(INGEST.spirv());
    assert_eq!(ingest.fields("IngestPush"), fields!(IngestPush { extent, color, layer_sums }));
    let features = SpirvModule::parse(FEATURES.spirv());
    assert_eq!(features.fields("FeaturesPush"), fields!(FeaturesPush { extent, is_whole }));
    let reduce = SpirvModule::parse(REDUCE.spirv());
    assert_eq!(
        reduce.fields("ReducePush"),
        fields!(ReducePush { grid, tail_level_count, layer_sums })
    );
    let sample = SpirvModule::parse(SAMPLE.spirv());
    assert_eq!(sample.fields("SamplePush"), fields!(SamplePush { extent, first_word }));
    let compare = SpirvModule::parse(COMPARE.spirv());
    assert_eq!(compare.fields("ComparePush"), fields!(ComparePush { extent }));
    let settle = SpirvModule::parse(SETTLE.spirv());
    assert_eq!(
        settle.fields("SettlePush"),
        fields!(SettlePush { first_word, first_row, threshold })
    );
    let detect = SpirvModule::parse(DETECT.spirv());
    let expected = fields!(DetectPush { planes, grid, refreshed, threshold });
    assert_eq!(detect.fields("DetectPush"), expected);
    let expected = fields!(PlanePlace { first_byte, stride, row_bytes, rows });
    assert_eq!(detect.fields("PlanePlace"), expected);
    let stale = SpirvModule::parse(STALE.spirv());
    let expected = fields!(StalePush { token_count, grid_width, is_new });
    assert_eq!(stale.fields("StalePush"), expected);
}

#[test]
fn the_colour_transform_inside_the_push_constants_agrees() {
    let fields = fields!(ColorTransform { y_offset, y, rv, gu, gv, bu });
    assert_eq!(SpirvModule::parse(INGEST.spirv()).fields("ColorTransform"), fields);
}

#[test]
fn records_in_buffers_agree_in_layout_and_stride() {
    let list = |entries: &str| {
        let head = fields!(WorkListHead { groups, count });
        [head, vec![(entries.to_owned(), size_of::<WorkListHead>())]].concat()
    };
    for shader in [DETECT, FEATURES, INGEST, REDUCE] {
        let module = SpirvModule::parse(shader.spirv());
        assert_eq!(module.fields("TileList"), list("tiles"));
        assert_eq!(module.fields("TileRecord"), fields!(TileRecord { column, row, layer }));
        assert_eq!(module.array_stride("TileRecord"), size_of::<TileRecord>());
    }
    let features = SpirvModule::parse(FEATURES.spirv());
    let expected = fields!(TileFeatures {
        count,
        luma,
        luma_squared,
        differences,
        gradient,
        gradient_squared,
        gradient_product,
        coarse_differences,
        coarse_squared,
        strokes,
        histogram,
        color
    });
    assert_eq!(features.fields("TileFeatures"), expected);
    assert_eq!(features.array_stride("TileFeatures"), size_of::<TileFeatures>());
    for shader in [SAMPLE, STALE, COMPARE, SETTLE] {
        let module = SpirvModule::parse(shader.spirv());
        assert_eq!(module.fields("TokenList"), list("tokens"));
        assert_eq!(
            module.fields("TokenSource"),
            fields!(TokenSource { kind, x, y, width, height, level, tail_offset, layer, item })
        );
        assert_eq!(module.array_stride("TokenSource"), size_of::<TokenSource>());
    }
    let stale = SpirvModule::parse(STALE.spirv());
    assert_eq!(stale.fields("TokenEntry"), fields!(TokenEntry { token, first_tile, end_tile }));
    assert_eq!(stale.array_stride("TokenEntry"), size_of::<TokenEntry>());
}

#[test]
fn every_shader_keeps_to_what_all_devices_allow() {
    for (name, shader) in [
        ("detect", DETECT),
        ("features", FEATURES),
        ("ingest", INGEST),
        ("reduce", REDUCE),
        ("sample", SAMPLE),
        ("compare", COMPARE),
        ("settle", SETTLE),
        ("stale", STALE),
    ] {
        SpirvModule::parse(shader.spirv()).assert_portable(name);
    }
}
