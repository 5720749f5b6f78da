//! Links between documents lead to files and headings that exist, and the index lists every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

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
