//! Links between documents lead to files and headings that exist, the index lists every page, and the files, tests and reasons that
//! documents and comments name are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::config_files::{files_below, in_repository};

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let found = target.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor));
            if !found {
                broken.push(format!("{}: {link}", document.display()));
            }
            count += 1;
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(200 < count, "{count} links");
}

#[test]
fn the_index_lists_every_page() {
    let index = in_repository("docs/README.md");
    let text = fs::read_to_string(&index).unwrap();
    let listed: BTreeSet<_> = links(&text)
        .map(|link| index.parent().unwrap().join(link.split('#').next().unwrap()))
        .collect();
    for page in files_below("docs", "md").into_iter().filter(|page| *page != index) {
        assert!(listed.contains(&page), "docs/README.md lacks {}", page.display());
    }
}

#[test]
fn files_that_texts_name_exist() {
    let mut missing = Vec::new();
    let mut count = 0;
    for (file, text) in texts() {
        // The code of a test has names of files that it makes.
        let is_test = file.starts_with(in_repository("tests")) && file.extension().unwrap() == "rs";
        let lines = text.lines().filter(|line| !is_test || line.contains("//"));
        let is_other = |c: char| !c.is_ascii_alphanumeric() && !"_-./".contains(c);
        for word in lines.flat_map(|line| line.split(is_other)) {
            let word = word.trim_end_matches('.');
            let folder = word.split('/').next().unwrap();
            let is_path = FOLDERS.contains(&folder)
                && EXTENSIONS.iter().any(|extension| word.ends_with(extension))
                // As in `glsl/NAME.comp`.
                && !word.contains("NAME") && !word.contains("ABI");
            // Beside a crate of its own, paths start there.
            if is_path && !file.ancestors().any(|above| above.join(word).exists()) {
                missing.push(format!("{}: {word}", file.display()));
            }
            count += usize::from(is_path);
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(300 < count, "{count} paths");
}

/// Texts name tests in the form `cargo test --test PROGRAM FILTER`.
#[test]
fn tests_that_texts_run_exist() {
    let tests = tests_of_programs();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (file, text) in texts() {
        for (start, begin) in text.match_indices("cargo test ") {
            let (before, command) = (&text[..start], &text[start + begin.len()..]);
            // Between backticks a command may go on in the next line.
            let is_inline = before.rsplit('\n').next().unwrap().matches('`').count() % 2 == 1;
            let ends = if is_inline { &['`'][..] } else { &['`', '"', '\'', '#', '\n', ')', '|'] };
            let command = &command[..command.find(ends).unwrap_or(command.len())];
            let words: Vec<_> = command.split_whitespace().collect();
            for (index, program) in words.iter().enumerate().skip(1) {
                if words[index - 1] != "--test" {
                    continue;
                }
                let filters = filters(&words[index + 1..]);
                let is_right = tests.get(*program).is_some_and(|tests| {
                    filters.iter().all(|filter| tests.iter().any(|test| test.contains(*filter)))
                });
                if !is_right {
                    wrong.push(format!("{}: {program} {filters:?}", file.display()));
                }
                count += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(10 < count, "{count} commands");
}

/// The last column of a table of failures has names of tests, and after them their file.
#[test]
fn tests_of_failure_modes_are_in_the_files_named() {
    let text = fs::read_to_string(in_repository("tests/FAILURES.md")).unwrap();
    let mut missing = Vec::new();
    let mut count = 0;
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    for row in rows.filter(|row| row.contains("tests/")) {
        let mut names = Vec::new();
        for item in row.rsplit(" | ").next().unwrap().split('`').skip(1).step_by(2) {
            if item.contains('/') {
                let content = fs::read_to_string(in_repository(item)).unwrap();
                let lacks = |name: &&str| {
                    let forms =
                        [format!("fn {name}("), format!("def {name}("), format!("LAW({name})")];
                    !forms.iter().any(|form| content.contains(form))
                };
                missing.extend(names.drain(..).filter(lacks).map(|name| format!("{item}: {name}")));
            } else if item.contains('_') {
                names.push(item);
                count += 1;
            }
        }
        missing.extend(names.iter().map(|name| format!("no file follows {name}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(60 < count, "{count} tests");
}

/// The reason of an end or of a refusal in a document is one that messages have.
#[test]
fn reasons_in_documents_are_those_of_messages() {
    let messages = fs::read_to_string(in_repository("src/reader/messages.rs")).unwrap();
    let mut unknown = Vec::new();
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap().replace('\n', " ");
        for before in ["reason `", "reasons `", "with `reason` `"] {
            for rest in text.split(before).skip(1) {
                let reason = rest.split('`').next().unwrap();
                if !messages.contains(&format!("\"{reason}\"")) {
                    unknown.push(format!("{}: {reason}", document.display()));
                }
                count += 1;
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(2 < count, "{count} reasons");
}

/// Folders and endings of the files that texts name.
const FOLDERS: [&str; 12] = [
    "bridges",
    "cmake",
    "configs",
    "docs",
    "fuzz",
    "glsl",
    "include",
    "pipelines",
    "python",
    "scripts",
    "src",
    "tests",
];
const EXTENSIONS: [&str; 12] = [
    ".c",
    ".comp",
    ".gst",
    ".h",
    ".json",
    ".md",
    ".proto",
    ".py",
    ".rs",
    ".safetensors",
    ".sh",
    ".toml",
];

/// Documents, code and scripts, each with its text.
fn texts() -> Vec<(PathBuf, String)> {
    let mut files = documents();
    for (folder, extensions) in [
        ("src", &["rs", "toml"][..]),
        ("tests", &["rs", "c", "h", "py"]),
        ("python", &["rs", "py", "toml"]),
        ("scripts", &["sh", "py"]),
        ("glsl", &["comp", "glsl", "rs"]),
        ("include", &["h"]),
        ("configs", &["toml", "json5", "yaml", "yml"]),
        ("bridges/zenoh", &["rs", "py", "toml"]),
        ("bridges/ros2", &["rs", "py", "toml"]),
    ] {
        for extension in extensions {
            files.extend(files_below(folder, extension));
        }
    }
    // This one speaks of commands in general.
    files.retain(|file| !file.ends_with("laws/documents.rs"));
    let read = |file: PathBuf| fs::read_to_string(&file).ok().map(|text| (file, text));
    files.into_iter().filter_map(read).collect()
}

/// What selects tests among the words after `cargo test --test PROGRAM`: one before `--`, any after.
fn filters<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut halves = words.split(|word| *word == "--");
    let mut filters = halves.next().map(plain).unwrap_or_default();
    filters.truncate(1);
    filters.extend(halves.flat_map(plain));
    filters
}

/// The words that are neither options nor their values, up to the first that a shell or a format string replaces.
fn plain<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut is_value = false;
    let is_plain = |word: &&&str| {
        let was_value = is_value;
        is_value = ["--skip", "--test", "--package", "--target", "--features"].contains(*word);
        !was_value && !word.starts_with('-')
    };
    let words = words.iter().filter(is_plain).copied();
    words.take_while(|word| !word.contains(['$', '\\', '{', '<', '.'])).collect()
}

/// The names of tests, as the harness gives them without the parts of a file, by program.
fn tests_of_programs() -> BTreeMap<String, Vec<String>> {
    let mut programs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files_below("tests", "rs") {
        let below = file.strip_prefix(in_repository("tests")).unwrap();
        let program = below.iter().next().unwrap();
        let name = Path::new(program).file_stem().unwrap().to_str().unwrap().to_owned();
        let module = file.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let functions = text.lines().filter_map(|line| line.trim().strip_prefix("fn "));
        let names = functions.map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            format!("{module}::{}", &rest[..end.unwrap_or(rest.len())])
        });
        programs.entry(name).or_default().extend(names);
    }
    programs
}

fn documents() -> Vec<PathBuf> {
    let mut documents = files_below("docs", "md");
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "tests/FAILURES.md",
        "configs/scorers/README.md",
        "python/README.md",
        "python/engine/README.md",
    ] {
        documents.push(in_repository(name));
    }
    documents
}

/// Targets of links within the repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    targets
        .filter_map(|rest| rest.split([')', ' ']).next())
        .filter(|link| !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:"))
}

/// The anchors that GitHub gives headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in prose(text).filter(|line| line.starts_with('#')) {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    anchors
}

/// Lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}
