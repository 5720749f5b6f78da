//! The files that are generated from the definition of the ABI in `src/ring/abi.rs`: the structs of the readers in C and Python,
//! and the tables of `docs/reference/abi.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use foveate_core::channel::PUBLISHED_MAX;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::geometry::plan::{REAL_SIDE_MAX, STEP_MAX};
use foveate_ring::abi;
use foveate_ring::schema::{Field, Form, STRUCTS, Struct};

/// Writes the files instead of comparing them.
const WRITE: &str = "FOVEATE_WRITE_ABI";

const HOW: &str = "generated from src/ring/abi.rs by `FOVEATE_WRITE_ABI=1 cargo test -p foveate-ring --test ring abi_files`";

const DOCUMENT: &str = "docs/reference/abi.md";

#[test]
fn generated_files_follow_the_definition() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join(DOCUMENT)).unwrap();
    let files = [
        ("include/foveate/abi.h", c_header()),
        ("python/foveate/abi.py", python_module()),
        (DOCUMENT, with_tables(&document)),
    ];
    for (name, text) in files {
        let path = root.join(name);
        if std::env::var_os(WRITE).is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "{name} is out of date: it is {HOW}");
    }
}

/// The numbers that readers share, their names in C and Python, and their meanings.
fn constants() -> Vec<(&'static str, u64, &'static str)> {
    let bytes = |bytes: usize| bytes as u64;
    vec![
        ("ABI_MAJOR", abi::ABI_MAJOR.into(), "Other major versions are refused."),
        ("ABI_MINOR", abi::ABI_MINOR.into(), "Newer minor versions only add to it."),
        ("HEADER_BYTES", bytes(abi::HEADER_BYTES), "Offset of slot 0 in a segment."),
        ("LIVE_OFFSET", bytes(abi::LIVE_OFFSET), "Offset of the LiveBlock in a segment."),
        (
            "CAMERA_FRAME_OFFSET",
            bytes(abi::CAMERA_FRAME_OFFSET),
            "Offset of the CameraFrameBlock in a segment.",
        ),
        ("CHANNEL_OFFSET", bytes(abi::CHANNEL_OFFSET), "Offset of the ChannelBlock in a segment."),
        ("PLANE_ALIGNMENT", bytes(abi::PLANE_ALIGNMENT), "Alignment of planes and slots."),
        ("NOTICE_BYTES", bytes(abi::NOTICE_BYTES), "Size of a notice on the subscription socket."),
        ("REASON_BYTES", bytes(abi::REASON_BYTES), "Size of the text of a state, with its NUL."),
        ("PLANE_COUNT_MAX", bytes(abi::PLANE_COUNT_MAX), "Most planes of a segment."),
        ("CHANNEL_COUNT_MAX", bytes(PUBLISHED_MAX), "Most channels that a view publishes."),
        ("FOVEAE_MAX", bytes(FOVEAE_MAX), "Most fixations of a frame."),
        ("SLOT_COUNT_MIN", abi::MIN_SLOT_COUNT.into(), "Fewest slots of a ring."),
        ("SLOT_COUNT_MAX", abi::SLOT_COUNT_MAX.into(), "Most slots of a ring."),
        ("SOURCE_SIDE_MAX", Extent::SIDE_MAX.into(), "Longest side of a source, in pixels."),
        ("TOKEN_CAPACITY_MAX", bytes(abi::CAPACITY_MAX), "Most tokens of a frame."),
        ("PATCH_SIDE_MAX", abi::PATCH_SIDE_MAX.into(), "Longest side of a token, in texels."),
        ("STEP_MAX", STEP_MAX.into(), "Most source pixels of a texel along an axis."),
        (
            "REAL_SIDE_MAX",
            REAL_SIDE_MAX.into(),
            "Longest side of a token with a real step, in source pixels.",
        ),
        ("FLAG_PTS", abi::FLAG_PTS.into(), "Bit of SlotHeader.flags: pts_ns is valid."),
    ]
}

/// The structs, each after those that its fields are of.
fn structs() -> Vec<&'static Struct> {
    let mut sorted: Vec<&Struct> = STRUCTS.to_vec();
    let is_part =
        |of: &Struct, part: &Struct| of.fields.iter().any(|field| contains(&field.form, part));
    sorted.sort_by_key(|this| STRUCTS.iter().all(|other| !is_part(other, this)));
    sorted
}

fn contains(form: &Form, part: &Struct) -> bool {
    match form {
        Form::Struct(described) => described.name == part.name,
        Form::Array(item, _) => contains(item, part),
        _ => false,
    }
}

/// `lines` of Markdown as one text.
fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Markdown without its links.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("](#") {
        let (target_before, name) = before.rsplit_once('[').unwrap();
        plain.extend([target_before, name]);
        rest = link.split_once(')').unwrap().1;
    }
    plain + rest
}

/// `text` as comments of at most 120 columns.
fn commented(text: &str, mark: &str) -> String {
    let mut lines = vec![mark.to_owned()];
    for word in plain(text).split(' ') {
        if 120 <= lines.last().unwrap().chars().count() + word.chars().count() {
            lines.push(mark.to_owned());
        }
        write!(lines.last_mut().unwrap(), " {word}").unwrap();
    }
    lines.join("\n") + "\n"
}

fn c_header() -> String {
    let mut text = format!(
        "// foveate/abi.h: the memory of a segment. foveate.h includes it, and docs/reference/abi.md explains it.\n//\n\
         // SPDX-License-Identifier: MIT OR Apache-2.0\n//\n// Do not edit: {HOW}.\n\n\
         #ifndef FOVEATE_ABI_H\n#define FOVEATE_ABI_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
    );
    for (name, value, about) in constants() {
        writeln!(text, "#define FOVEATE_{name} {value} // {about}").unwrap();
    }
    text += C_ASSERTIONS;
    for described in structs() {
        text += &c_struct(described);
    }
    text + "\n#endif // FOVEATE_ABI_H\n"
}

const C_ASSERTIONS: &str = r#"
#ifdef __cplusplus
#define FOVEATE__ASSERT(condition, text) static_assert(condition, text)
#else
#define FOVEATE__ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define FOVEATE__AT(type, field, offset) \
    FOVEATE__ASSERT(offsetof(struct type, field) == (offset), #type "." #field " lies elsewhere")
#define FOVEATE__BYTES(type, bytes) FOVEATE__ASSERT(sizeof(struct type) == (bytes), #type " has another size")
"#;

fn c_struct(described: &Struct) -> String {
    let name = c_name(described);
    let mut text = format!("\n{}struct {name} {{\n", commented(&joined(described.about), "//"));
    for field in described.fields {
        let unit = field.unit.map_or(String::new(), |unit| format!(" In {unit}."));
        text += &commented(&(joined(field.about) + &unit), "    //");
        writeln!(text, "    {};", c_declaration(&field.form, field.name)).unwrap();
    }
    text += "};\n";
    for Field { name: field, offset, .. } in described.fields {
        writeln!(text, "FOVEATE__AT({name}, {field}, {offset});").unwrap();
    }
    text + &format!("FOVEATE__BYTES({name}, {});\n", described.bytes)
}

fn c_name(described: &Struct) -> String {
    let name = match described.name {
        "TokenRecord" => "token".to_owned(),
        "PlaneEntry" => "plane".to_owned(),
        "ChannelBlock" => "channels".to_owned(),
        "StateBlock" => "state_block".to_owned(),
        name => snake_case(name.trim_end_matches("Block")),
    };
    format!("foveate_{name}")
}

fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn c_declaration(form: &Form, name: &str) -> String {
    let number = match form {
        Form::Text(bytes) => return format!("char {name}[{bytes}]"),
        Form::Array(item, count) => return c_declaration(item, &format!("{name}[{count}]")),
        Form::Struct(described) => return format!("struct {} {name}", c_name(described)),
        Form::U8 => "uint8_t",
        Form::U16 => "uint16_t",
        Form::U32 => "uint32_t",
        Form::U64 => "uint64_t",
        Form::I32 => "int32_t",
        Form::F32 => "float",
        Form::F64 => "double",
    };
    format!("{number} {name}")
}

fn python_module() -> String {
    let mut text = format!(
        "\"\"\"The structs of a segment as types of NumPy, with the names and offsets of ``docs/reference/abi.md``.\n\n\
         Do not edit: {}.\n\"\"\"\n\nimport numpy as np\n\n",
        HOW.replace('`', "``")
    );
    write!(text, "#: The first bytes of a segment.\nMAGIC = b\"{}\"\n", abi::MAGIC).unwrap();
    for (name, value, about) in constants() {
        write!(text, "#: {about}\n{name} = {value}\n").unwrap();
    }
    for described in structs() {
        let about = commented(&joined(described.about), "#:");
        let fields = described.fields.iter().filter_map(python_field).collect::<Vec<_>>();
        let fields = fields.concat();
        write!(text, "\n{about}{} = np.dtype(\n    [\n{fields}    ]\n)\n", python_name(described))
            .unwrap();
    }
    text
}

fn python_name(described: &Struct) -> String {
    match described.name {
        "TokenRecord" => "TOKEN".to_owned(),
        name => snake_case(name).to_uppercase(),
    }
}

/// In Python, the edges of a token's box are one field.
fn python_field(field: &Field) -> Option<String> {
    match field.name {
        "x0" => Some("        (\"box\", \"<u4\", 4),\n".to_owned()),
        "y0" | "x1" | "y1" => None,
        name => {
            let (item, count) = python_type(&field.form);
            let count = count.map_or(String::new(), |count| format!(", {count}"));
            Some(format!("        (\"{name}\", {item}{count}),\n"))
        }
    }
}

fn python_type(form: &Form) -> (String, Option<usize>) {
    let number = match form {
        Form::Array(item, count) => return (python_type(item).0, Some(*count)),
        Form::Struct(described) => return (python_name(described), None),
        Form::Text(bytes) => return (format!("\"S{bytes}\""), None),
        Form::U8 => "u1",
        Form::U16 => "<u2",
        Form::U32 => "<u4",
        Form::U64 => "<u8",
        Form::I32 => "<i4",
        Form::F32 => "<f4",
        Form::F64 => "<f8",
    };
    (format!("\"{number}\""), None)
}

/// `document` with new tables, each between two comments.
fn with_tables(document: &str) -> String {
    let mut text = document.to_owned();
    for described in STRUCTS {
        let begin = format!("<!-- generated: {} -->\n", described.name);
        let (before, rest) =
            text.split_once(&begin).unwrap_or_else(|| panic!("{DOCUMENT} lacks {begin}"));
        let (_, after) = rest.split_once("<!-- end -->\n").unwrap();
        text = format!("{before}{begin}{}<!-- end -->\n{after}", table(described));
    }
    text
}

fn table(described: &Struct) -> String {
    let head = "\n| Offset | Bytes | Field | Type | Unit | Meaning |\n| ---: | ---: | --- | --- | --- | --- |\n";
    let rows = described.fields.iter().map(|field| {
        let Field { name, offset, form, unit, .. } = field;
        let (unit, meaning) = (unit.unwrap_or(""), joined(field.about));
        format!(
            "| {offset} | {} | `{name}` | {} | {unit} | {meaning} |\n",
            form.bytes(),
            type_name(form)
        )
    });
    head.to_owned() + &rows.collect::<String>() + "\n"
}

fn type_name(form: &Form) -> String {
    match form {
        Form::Text(_) => "text".to_owned(),
        Form::Struct(described) => described.name.to_owned(),
        Form::Array(item, count) => format!("{}[{count}]", type_name(item)),
        number => format!("{number:?}").to_lowercase(),
    }
}
