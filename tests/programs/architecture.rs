//! The table of crates in ARCHITECTURE.md holds: which there are, in which order they depend on each other, and on what they must not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::repository;

/// What a crate must not use, in the words of the table, and how its code would show that it does.
const USES: [(&str, &[&str]); 4] = [
    ("GStreamer", &["gstreamer::", "gst::"]),
    ("sockets", &["std::net", "UnixStream", "UnixListener", "rustix::net", "TcpStream"]),
    ("threads", &["std::thread", "thread::spawn"]),
    ("files", &["std::fs", "rustix::fs", "File::open"]),
];

#[test]
fn the_table_lists_every_crate_from_the_bottom_up() {
    let (crates, rows) = (crates(), rows());
    let listed: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    let there: BTreeSet<_> = crates.keys().map(String::as_str).collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), there);
    for (index, name) in listed.iter().enumerate() {
        for needed in &crates[*name] {
            let is_above =
                !there.contains(needed.as_str()) || listed[..index].contains(&needed.as_str());
            assert!(is_above, "{name} needs {needed}, which is not above it");
        }
    }
}

#[test]
fn no_crate_depends_on_what_it_must_not() {
    let (crates, mut count) = (crates(), 0);
    for row in rows() {
        let needed = closure(&crates, &row.name);
        for other in crates.keys().filter(|name| row.limits.contains(&format!("`{name}`"))) {
            assert!(!needed.contains(other), "{} depends on {other}", row.name);
            count += 1;
        }
        for (word, signs) in USES.iter().filter(|(word, _)| row.limits.contains(word)) {
            assert!(
                !needed.iter().any(|name| *word == "GStreamer" && name.starts_with("gstreamer"))
            );
            for file in sources(&repository().join("src").join(&row.name)) {
                // Which its row names.
                if file.ends_with("core/file.rs") {
                    continue;
                }
                let text = fs::read_to_string(&file).unwrap();
                let found = signs.iter().find(|sign| text.contains(*sign));
                assert_eq!(found, None, "{} uses {word}", file.display());
            }
            count += 1;
        }
    }
    assert!(20 < count, "{count} limits");
}

#[test]
fn one_crate_names_ash() {
    let crates = crates();
    let users: Vec<_> = crates.iter().filter(|(_, needed)| needed.contains("ash")).collect();
    assert!(users.len() == 1 && users[0].0 == "gpu", "{users:?}");
}

/// A row of the table.
struct Row {
    name: String,
    /// Last cell of the row.
    limits: String,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = text.split_once("| Crate | What it does |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').collect();
        let name = cells[0].split('`').nth(1).unwrap().to_owned();
        Row { name, limits: cells[2].to_owned() }
    };
    rows.map(row).collect()
}

/// The crates below `src` by their folders, each with the packages that it needs to be built: those of this workspace by folder.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"]);
    let output = command.current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let folder_of = |package: &Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
        let below = manifest.parent()?.strip_prefix(repository().join("src")).ok()?;
        Some(below.to_str().unwrap().to_owned())
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let folders: BTreeMap<String, String> = packages
        .iter()
        .filter_map(|package| Some((text(&package["name"]), folder_of(package)?)))
        .collect();
    let needed = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let built = dependencies.filter(|dependency| dependency["kind"].is_null());
        let names = built.map(|dependency| text(&dependency["name"]));
        names.map(|name| folders.get(&name).cloned().unwrap_or(name)).collect()
    };
    packages.iter().filter_map(|package| Some((folder_of(package)?, needed(package)))).collect()
}

/// All that `name` needs, directly or through other crates of this workspace.
fn closure(crates: &BTreeMap<String, BTreeSet<String>>, name: &str) -> BTreeSet<String> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(next) = rest.pop() {
        for needed in crates.get(&next).into_iter().flatten() {
            if found.insert(needed.clone()) {
                rest.push(needed.clone());
            }
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension() {
                None => folders.push(path),
                Some(extension) if extension == "rs" => files.push(path),
                Some(_) => {}
            }
        }
    }
    files
}
