//! Structs of hierarchical attention that Rust fills and shaders read have the same fields at the same offsets on both sides.

use foveate_attention::LEVELS_MAX;
use foveate_attention::vulkan::records::{AttendPush, LevelRecord, MeansPush};
use foveate_attention::vulkan::shaders as attention;
use testkit::fields;
use testkit::spirv::SpirvModule;

#[test]
fn push_constants_of_attention_agree() {
    let expected = fields!(MeansPush { heads, level_count, cells, width });
    assert_eq!(SpirvModule::parse(attention::MEANS.spirv()).fields("MeansPush"), expected);
    for shader in [attention::SCORE, attention::OPEN, attention::BLEND] {
        let expected = fields!(AttendPush {
            heads,
            queries,
            level_count,
            cells,
            width,
            value_width,
            coarse,
            row_words,
            first_record,
            scale
        });
        assert_eq!(SpirvModule::parse(shader.spirv()).fields("AttendPush"), expected);
    }
}

#[test]
fn the_levels_of_an_attention_agree() {
    for shader in [attention::MEANS, attention::SCORE, attention::OPEN, attention::BLEND] {
        let module = SpirvModule::parse(shader.spirv());
        let expected = fields!(LevelRecord {
            rows,
            columns,
            side,
            first_cell,
            open,
            family_rows,
            family_columns,
            first_score,
            first_opened
        });
        assert_eq!(module.fields("LevelRecord"), expected);
        // The offsets follow the records of all levels.
        let levels = (LEVELS_MAX + 1) * size_of::<LevelRecord>();
        let plan = [("levels".to_owned(), 0), ("offsets".to_owned(), levels)];
        assert_eq!(module.fields("Plan"), plan);
    }
}

#[test]
fn every_shader_of_attention_keeps_to_what_all_devices_allow() {
    for (name, shader) in [
        ("blend", attention::BLEND),
        ("means", attention::MEANS),
        ("open", attention::OPEN),
        ("score", attention::SCORE),
    ] {
        SpirvModule::parse(shader.spirv()).assert_portable(name);
    }
}
