//! The arrows between the modules point one way, and what is dangerous stays in its room.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that everybody may use, and that use nothing but each other.
const WORDS: [&str; 16] = [
    "backend", "backoff", "camera", "clock", "color", "config", "crew", "error", "frame",
    "geometry", "link", "rate", "redact", "simd", "stats", "token",
];

/// What a frame passes through. None knows another; `stream` knows their order.
const STAGES: [&str; 6] = ["capture", "change", "retina", "gaze", "layout", "ring"];

/// What each module may use besides [`WORDS`] and itself.
const ARROWS: [(&str, &[&str]); 13] = [
    ("capture", &[]),
    ("change", &[]),
    ("retina", &["gpu"]),
    ("gaze", &[]),
    ("layout", &[]),
    ("ring", &[]),
    ("gpu", &[]),
    ("control", &["ring"]),
    ("stream", &["change", "retina", "gaze", "layout", "ring"]),
    ("daemon", &["stream", "control", "capture"]),
    ("tool", &["stream", "control", "ring", "gaze", "capture", "gpu"]),
    ("log", &[]),
    ("bin", &["daemon", "tool", "control", "log"]),
];

/// A file's length from which it should have become two.
const MOST_LINES_OF_A_FILE: usize = 700;

/// A function's length that still fits a screen.
const MOST_LINES_OF_A_FUNCTION: usize = 70;

#[test]
fn arrows_between_modules_point_one_way() {
    for file in source_files() {
        let room = room_of(&file.name);
        if room == "lib" {
            continue;
        }
        for path in used_paths(&file) {
            let target = path.split("::").next().unwrap();
            let allowed = target == room || allowed_from(&room).contains(&target);
            assert!(allowed, "{} uses {path}, but `{room}` may not know `{target}`", file.name);
        }
    }
}

#[test]
fn no_stage_knows_another() {
    for stage in STAGES {
        let allowed = allowed_from(stage);
        assert!(STAGES.iter().all(|other| !allowed.contains(other)), "{stage}: {allowed:?}");
    }
}

/// Tiles and plans are not its business; a width and a height are.
#[test]
fn the_gpu_library_knows_nothing_of_vision() {
    for file in source_files().into_iter().filter(|file| room_of(&file.name) == "gpu") {
        for path in used_paths(&file) {
            let allowed =
                ["gpu", "geometry::extent", "clock", "stats"].iter().any(|at| leads_to(&path, at));
            assert!(allowed, "{} uses {path}", file.name);
        }
    }
}

#[test]
fn only_the_gpu_library_names_vulkan() {
    only_in("ash", &["gpu"]);
    only_in("gpu_allocator", &["gpu"]);
}

#[test]
fn only_capture_and_the_daemon_name_gstreamer() {
    for name in ["gstreamer", "gstreamer_app", "gstreamer_video"] {
        only_in(name, &["capture", "daemon"]);
    }
}

#[test]
fn only_the_tool_names_a_web_server() {
    for name in ["axum", "tokio"] {
        only_in(name, &["tool"]);
    }
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    for file in source_files() {
        let rooms = ["gpu", "ring", "crew", "simd"];
        let allowed = rooms.contains(&room_of(&file.name).as_str())
            || file.name == "retina/vulkan/shaders.rs";
        let unsafety = words(&file.code).any(|word| word == "unsafe" || word == "unsafe_code");
        assert!(allowed || !unsafety, "{}: only {rooms:?} are unsafe", file.name);
    }
}

/// Its laws are proved of one file.
#[test]
fn only_the_protocol_of_the_ring_orders_memory() {
    for file in source_files().into_iter().filter(|file| room_of(&file.name) == "ring") {
        let orders = ["Acquire", "Release", "AcqRel", "SeqCst"];
        let found = words(&file.code).find(|word| orders.contains(word));
        assert!(found.is_none() || file.name == "ring/protocol.rs", "{}: {found:?}", file.name);
    }
}

#[test]
fn nothing_is_left_for_later() {
    for file in source_files() {
        let marks = ["todo", "unimplemented"].map(|name| format!("{name}!"));
        for mark in marks.iter().map(String::as_str).chain(["TODO", "FIXME", "XXX"]) {
            assert!(!file.text.contains(mark), "{}: {mark}", file.name);
        }
    }
}

#[test]
fn files_and_functions_are_short() {
    for file in source_files() {
        let lines = file.text.lines().count();
        assert!(lines <= MOST_LINES_OF_A_FILE, "{}: {lines} lines", file.name);
        for (name, lines) in functions(&file.text) {
            assert!(lines <= MOST_LINES_OF_A_FUNCTION, "{}: {name} has {lines} lines", file.name);
        }
    }
}

/// The checks above are worth what this file's reading of Rust is worth.
#[test]
fn paths_are_found_where_they_hide() {
    let text = r##"
        //! [`a`](crate::comment)
        use crate::{ring::{Reader, abi::{self, Slot}}, clock};
        use super::super::retina::cpu as twin; /* crate::block /* nested */ crate::still */
        fn f<'a>(x: &'a crate::token::DType) -> char { let _ = "crate::string \" crate::x"; '"' }
        const R: &str = r#"crate::raw " "#; fn g() { crate::stats::f(super::near()) }
    "##;
    let file = SourceFile::new("change/tile.rs".to_owned(), text.to_owned());
    let expected = [
        "clock",
        "retina::cpu",
        "ring::Reader",
        "ring::abi::Slot",
        "ring::abi::self",
        "stats::f",
        "token::DType",
    ];
    assert_eq!(used_paths(&file), expected.map(str::to_owned).into());
}

/// Whether `path` is `target` or something in it.
fn leads_to(path: &str, target: &str) -> bool {
    path.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Asserts that the code of no other rooms has the word.
fn only_in(word: &str, rooms: &[&str]) {
    for file in source_files() {
        let allowed = rooms.contains(&room_of(&file.name).as_str())
            || file.name == "retina/vulkan/shaders.rs";
        assert!(allowed || !words(&file.code).any(|found| found == word), "{}: {word}", file.name);
    }
}

fn allowed_from(room: &str) -> Vec<&'static str> {
    let arrows = ARROWS.iter().find(|(from, _)| *from == room);
    assert!(
        arrows.is_some() || WORDS.contains(&room),
        "`{room}` has no place in the table of arrows"
    );
    WORDS.iter().chain(arrows.into_iter().flat_map(|(_, to)| *to)).copied().collect()
}

/// The first folder or file of a path below `src`.
fn room_of(name: &str) -> String {
    let first = name.split('/').next().unwrap();
    first.strip_suffix(".rs").unwrap_or(first).to_owned()
}

/// One file below `src`.
struct SourceFile {
    /// Path below `src`.
    name: String,
    text: String,
    /// The text without comments and without what is in quotes.
    code: String,
}

impl SourceFile {
    fn new(name: String, text: String) -> Self {
        let code = code_of(&text);
        Self { name, text, code }
    }
}

fn source_files() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(source_file(&root, path));
            }
        }
    }
    assert!(files.len() > 10, "too few files below {root:?}");
    files
}

fn source_file(root: &Path, path: PathBuf) -> SourceFile {
    let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    SourceFile::new(name, fs::read_to_string(path).unwrap())
}

/// Every path into the crate, without `crate::`, with the groups of `use` spelled out.
fn used_paths(file: &SourceFile) -> BTreeSet<String> {
    let tokens: Vec<&str> = tokens(&file.code).collect();
    let depth = file.name.split('/').count();
    let mut paths = BTreeSet::new();
    for start in 0..tokens.len() {
        let roots = match tokens[start] {
            "crate" | "foveate" => 1,
            // From a file `depth` levels down, so many steps up are the crate.
            "super" => supers(&tokens[start..]).filter(|steps| *steps == depth).unwrap_or(0),
            _ => 0,
        };
        let after = start + 2 * roots;
        if roots > 0 && tokens.get(after - 1) == Some(&"::") {
            expand(&tokens[after..], "", &mut paths);
        }
    }
    paths
}

/// How many `super::` stand in a row.
fn supers(tokens: &[&str]) -> Option<usize> {
    Some(tokens.chunks(2).take_while(|pair| *pair == ["super", "::"]).count())
}

/// Collects the paths of one `use` tree, and returns how many tokens it has.
fn expand(tokens: &[&str], prefix: &str, paths: &mut BTreeSet<String>) -> usize {
    if tokens.first() == Some(&"{") {
        let mut at = 1;
        while tokens[at] != "}" {
            at += expand(&tokens[at..], prefix, paths);
            // Names after `as`, and commas, say nothing about where the path leads.
            while ![",", "}"].contains(&tokens[at]) {
                at += 1;
            }
            at += usize::from(tokens[at] == ",");
        }
        return at + 1;
    }
    let path = format!("{prefix}{}", tokens[0]);
    if tokens.get(1) == Some(&"::") && tokens.get(2).is_some_and(|token| *token != "<") {
        return 2 + expand(&tokens[2..], &format!("{path}::"), paths);
    }
    paths.insert(path);
    1
}

/// Words, `::` and other single characters.
fn tokens(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let end = match rest.find(|c: char| !c.is_alphanumeric() && c != '_') {
            None => rest.len(),
            Some(0) if rest.starts_with("::") => 2,
            Some(0) => rest.chars().next()?.len_utf8(),
            Some(end) => end,
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        (!token.is_empty()).then_some(token)
    })
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Rust without comments and without what is in quotes.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = literal_or_comment(rest);
        if skipped > 0 {
            code.push(' ');
            rest = &rest[skipped..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        }
        // A word that ends in r is no raw string: take words whole.
        if first.is_alphanumeric() && skipped == 0 {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            code.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    code
}

/// Length of the comment, string or character that `text` starts with; 0 if it starts with none.
fn literal_or_comment(text: &str) -> usize {
    let past = |from: usize, end: &str| {
        text[from..].find(end).map_or(text.len(), |at| from + at + end.len())
    };
    let raw = text.strip_prefix('b').unwrap_or(text).strip_prefix('r');
    let hashes = raw.map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    if text.starts_with("//") {
        past(0, "\n")
    } else if text.starts_with("/*") {
        block_comment(text)
    } else if text.starts_with('"') {
        quoted(text)
    } else if raw.is_some_and(|raw| raw[hashes..].starts_with('"')) {
        let open = text.find('"').unwrap() + 1;
        past(open, &format!("\"{}", "#".repeat(hashes)))
    } else if text.starts_with("'\\") {
        past(3, "'")
    } else {
        let mut characters = text.char_indices().skip(2);
        let closing = characters.next().filter(|(_, c)| text.starts_with('\'') && *c == '\'');
        closing.map_or(0, |(at, _)| at + 1)
    }
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut at, mut open) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (at, open) = (at + 2, open + 1);
        } else if text[at..].starts_with("*/") {
            (at, open) = (at + 2, open - 1);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if open == 0 {
            break;
        }
    }
    at
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Names and lengths of the functions of a formatted file: from `fn` to the brace that closes its indentation.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| Some((at, function_name(line)?)));
    starts.map(|(start, name)| (name, function_length(&lines[start..]))).collect()
}

/// A function without a body ends at its semicolon.
fn function_length(lines: &[&str]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let ends = |line: &&str| {
        indent(line) == indent(lines[0]) && (line.ends_with(';') || line.trim_start() == "}")
    };
    lines.iter().position(ends).map_or(0, |last| last + 1)
}

/// The name in the first line of a function that has a body on further lines.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers =
        ["pub", "pub(super)", "pub(crate)", "const", "async", "unsafe", "extern", "\"C\""];
    let plain = before.split_whitespace().all(|word| qualifiers.contains(&word));
    let one_line = line.ends_with(['}', ';']);
    (plain && !one_line).then(|| after.split(['(', '<']).next()).flatten()
}
