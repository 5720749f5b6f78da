//! Structs that Rust fills and shaders read have the same fields at the same offsets on both sides.
//!
//! The shaders' side is read from the compiled SPIR-V, in which the build script leaves all names.

use std::collections::HashMap;
use std::mem::offset_of;

use foveate_attention::LEVELS_MAX;
use foveate_attention::vulkan::records::{AttendPush, LevelRecord, MeansPush};
use foveate_attention::vulkan::shaders as attention;
use foveate_core::color::ColorTransform;
use foveate_core::relevance::features::TileFeatures;
use foveate_engine::backend::vulkan::detect::{DetectPush, PlanePlace};
use foveate_engine::backend::vulkan::features::FeaturesPush;
use foveate_engine::backend::vulkan::ingest::IngestPush;
use foveate_engine::backend::vulkan::keep::{ComparePush, SettlePush};
use foveate_engine::backend::vulkan::reduce::ReducePush;
use foveate_engine::backend::vulkan::sample::{SamplePush, TokenRecord};
use foveate_engine::backend::vulkan::shaders::{
    COMPARE, DETECT, FEATURES, INGEST, REDUCE, SAMPLE, SETTLE, STALE,
};
use foveate_engine::backend::vulkan::stale::{StalePush, TokenEntry};
use foveate_engine::backend::vulkan::tiles::TileRecord;
use foveate_engine::backend::vulkan::work::WorkListHead;
use foveate_gpu::Shader;

/// Names and offsets of all fields of a Rust struct, in order. Does not compile when one is forgotten.
macro_rules! fields {
    ($type:ident { $($field:ident),+ }) => {{
        let _ = |value: $type| {
            let $type { $($field: _),+ } = value;
        };
        vec![$((stringify!($field).to_owned(), offset_of!($type, $field))),+]
    }};
}

#[test]
fn push_constants_agree() {
    let ingest = Module::parse(INGEST);
    assert_eq!(ingest.fields("IngestPush"), fields!(IngestPush { extent, color, layer_sums }));
    let features = Module::parse(FEATURES);
    assert_eq!(features.fields("FeaturesPush"), fields!(FeaturesPush { extent, is_whole }));
    let reduce = Module::parse(REDUCE);
    assert_eq!(
        reduce.fields("ReducePush"),
        fields!(ReducePush { grid, tail_level_count, layer_sums })
    );
    let sample = Module::parse(SAMPLE);
    assert_eq!(sample.fields("SamplePush"), fields!(SamplePush { extent, first_word }));
    let compare = Module::parse(COMPARE);
    assert_eq!(compare.fields("ComparePush"), fields!(ComparePush { extent }));
    let settle = Module::parse(SETTLE);
    assert_eq!(
        settle.fields("SettlePush"),
        fields!(SettlePush { first_word, first_row, threshold })
    );
    let detect = Module::parse(DETECT);
    let expected = fields!(DetectPush { planes, grid, refreshed, threshold });
    assert_eq!(detect.fields("DetectPush"), expected);
    let expected = fields!(PlanePlace { first_byte, stride, row_bytes, rows });
    assert_eq!(detect.fields("PlanePlace"), expected);
    let stale = Module::parse(STALE);
    let expected = fields!(StalePush { token_count, grid_width, is_new });
    assert_eq!(stale.fields("StalePush"), expected);
    let expected = fields!(MeansPush { heads, level_count, cells, width });
    assert_eq!(Module::parse(attention::MEANS).fields("MeansPush"), expected);
    for spirv in [attention::SCORE, attention::OPEN, attention::BLEND] {
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
        assert_eq!(Module::parse(spirv).fields("AttendPush"), expected);
    }
}

#[test]
fn the_levels_of_an_attention_agree() {
    for spirv in [attention::MEANS, attention::SCORE, attention::OPEN, attention::BLEND] {
        let module = Module::parse(spirv);
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
fn the_colour_transform_inside_the_push_constants_agrees() {
    let fields = fields!(ColorTransform { y_offset, y, rv, gu, gv, bu });
    assert_eq!(Module::parse(INGEST).fields("ColorTransform"), fields);
}

#[test]
fn records_in_buffers_agree_in_layout_and_stride() {
    let list = |entries: &str| {
        let head = fields!(WorkListHead { groups, count });
        [head, vec![(entries.to_owned(), size_of::<WorkListHead>())]].concat()
    };
    for spirv in [DETECT, FEATURES, INGEST, REDUCE] {
        let module = Module::parse(spirv);
        assert_eq!(module.fields("TileList"), list("tiles"));
        assert_eq!(module.fields("TileRecord"), fields!(TileRecord { column, row, layer }));
        assert_eq!(module.array_stride("TileRecord"), size_of::<TileRecord>());
    }
    let features = Module::parse(FEATURES);
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
    for spirv in [SAMPLE, STALE, COMPARE, SETTLE] {
        let module = Module::parse(spirv);
        assert_eq!(module.fields("TokenList"), list("tokens"));
        assert_eq!(
            module.fields("TokenRecord"),
            fields!(TokenRecord { kind, x, y, width, height, level, tail_offset, layer, item })
        );
        assert_eq!(module.array_stride("TokenRecord"), size_of::<TokenRecord>());
    }
    let stale = Module::parse(STALE);
    assert_eq!(stale.fields("TokenEntry"), fields!(TokenEntry { token, first_tile, end_tile }));
    assert_eq!(stale.array_stride("TokenEntry"), size_of::<TokenEntry>());
}

#[test]
fn every_shader_keeps_to_what_all_devices_allow() {
    for (name, spirv) in [
        ("detect", DETECT),
        ("features", FEATURES),
        ("ingest", INGEST),
        ("reduce", REDUCE),
        ("sample", SAMPLE),
        ("compare", COMPARE),
        ("settle", SETTLE),
        ("stale", STALE),
        ("blend", attention::BLEND),
        ("means", attention::MEANS),
        ("open", attention::OPEN),
        ("score", attention::SCORE),
    ] {
        let module = Module::parse(spirv);
        assert!(module.invocations <= 256, "{name}: {} invocations", module.invocations);
        for &capability in &module.capabilities {
            // Shader, ImageQuery aside: no 16-bit storage, no subgroup operations, no dynamic indexing.
            assert_eq!(capability, 1, "{name} needs capability {capability} beyond Shader");
        }
    }
}

/// What the tests want to know of a SPIR-V module.
#[derive(Debug, Default)]
struct Module {
    names: HashMap<u32, String>,
    member_names: HashMap<(u32, u32), String>,
    member_offsets: HashMap<(u32, u32), usize>,
    /// Element type by array type.
    arrays: HashMap<u32, u32>,
    array_strides: HashMap<u32, usize>,
    capabilities: Vec<u32>,
    invocations: u32,
}

impl Module {
    /// Reads the few instructions of interest. Numbers are those of the SPIR-V specification, section 3.
    fn parse(shader: Shader) -> Self {
        let bytes = shader.spirv();
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words[0], 0x0723_0203, "no SPIR-V");
        let mut module = Self::default();
        let mut rest = &words[5..];
        while let [first, ..] = rest {
            let (instruction, after) = rest.split_at((first >> 16) as usize);
            module.note(first & 0xFFFF, &instruction[1..]);
            rest = after;
        }
        module
    }

    fn note(&mut self, opcode: u32, operands: &[u32]) {
        match (opcode, operands) {
            (5, [target, name @ ..]) => {
                self.names.insert(*target, text(name));
            }
            (6, [target, member, name @ ..]) => {
                self.member_names.insert((*target, *member), text(name));
            }
            // OpExecutionMode LocalSize
            (16, [_, 17, x, y, z]) => self.invocations = x * y * z,
            (17, [capability]) => self.capabilities.push(*capability),
            // OpTypeRuntimeArray
            (29, [array, element]) => {
                self.arrays.insert(*array, *element);
            }
            // OpDecorate ArrayStride
            (71, [target, 6, stride]) => {
                self.array_strides.insert(*target, *stride as usize);
            }
            // OpMemberDecorate Offset
            (72, [target, member, 35, offset]) => {
                self.member_offsets.insert((*target, *member), *offset as usize);
            }
            _ => {}
        }
    }

    /// Names and offsets of the fields of the one struct of that name that lies in memory.
    fn fields(&self, name: &str) -> Vec<(String, usize)> {
        let id = self.id_of_struct(name);
        let field = |member| {
            let offset = self.member_offsets.get(&(id, member))?;
            Some((self.member_names[&(id, member)].clone(), *offset))
        };
        (0..).map_while(field).collect()
    }

    /// Bytes from one element to the next of the one array of that struct.
    fn array_stride(&self, name: &str) -> usize {
        let id = self.id_of_struct(name);
        let (array, _) = self.arrays.iter().find(|&(_, &element)| element == id).unwrap();
        self.array_strides[array]
    }

    /// Shaders have a second struct of a name, without offsets, for values in registers.
    fn id_of_struct(&self, name: &str) -> u32 {
        let is_in_memory = |id: &u32| self.member_offsets.contains_key(&(*id, 0));
        let mut ids = self.names.iter().filter(|(_, found)| *found == name).map(|(id, _)| *id);
        ids.find(is_in_memory).unwrap_or_else(|| panic!("no struct {name} with offsets"))
    }
}

/// A string of SPIR-V: bytes in words, with a zero at the end.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let len = bytes.iter().position(|&byte| byte == 0).unwrap();
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}
