//! Manual pages and completions, which this test makes: `docs/man` and `configs/completions` hold what it made last.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use testkit::left_out::leave_part_out;
use testkit::program::write_program;
use testkit::repository;

use crate::manual_texts::{EXAMPLES, appendix, configuration};

#[allow(dead_code, reason = "only names and descriptions are read")]
#[path = "../../src/bin/foveated/arguments.rs"]
mod arguments;

/// Writes the files instead of comparing them.
const WRITE: &str = "FOVEATE_WRITE_MANUAL";

const SOURCE: &str = concat!("foveate ", env!("CARGO_PKG_VERSION"));
const MANUAL: &str = "docs/man";
const COMMANDS: &str = "docs/reference/commands.md";
const COMPLETIONS: &str = "configs/completions";

/// Arguments that are the name of a stream, of a view, or of either.
const NAMED: [&str; 3] = ["stream", "view", "place"];

#[test]
fn completions_offer_names_of_streams_and_views() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("foveate");
    write_program(
        &tool,
        "#!/bin/sh\n[ \"$*\" = 'ls --names' ] && printf 'front\\nfront/main\\nrear\\n'\n",
    );
    let script = repository().join(COMPLETIONS).join("foveate.bash");
    for (subcommand, word, expected) in [
        ("look", "fro", "front/main"),
        ("remove-stream", "", "front rear"),
        ("ls", "fr", "front front/main"),
        ("doctor", "fr", ""),
    ] {
        let asked = format!(
            "source '{}'; COMP_WORDS=(foveate {subcommand} '{word}'); COMP_CWORD=2; \
             _foveate foveate '{word}' {subcommand}; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash").args(["-c", &asked]).env("PATH", path).output().unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        let names = offered.split_whitespace().filter(|word| !word.starts_with('-'));
        assert_eq!(names.collect::<Vec<_>>().join(" "), expected, "{subcommand}");
    }
}

#[test]
fn manual_pages_and_completions_are_those_of_the_command_line() {
    let made = tempfile::tempdir().unwrap();
    for folder in [MANUAL, COMPLETIONS] {
        fs::create_dir_all(made.path().join(folder)).unwrap();
    }
    make_pages(&made.path().join(MANUAL));
    make_completions(&made.path().join(COMPLETIONS));
    for folder in [MANUAL, COMPLETIONS] {
        let (kept, made) = (repository().join(folder), made.path().join(folder));
        if std::env::var_os(WRITE).is_some() {
            let _ = fs::remove_dir_all(&kept);
            fs::create_dir_all(&kept).unwrap();
            for (name, text) in texts(&made) {
                fs::write(kept.join(name), text).unwrap();
            }
        }
        let (kept, made) = (texts(&kept), texts(&made));
        let names = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect::<Vec<_>>();
        let how = format!("`{WRITE}=1 cargo test --test programs manual` rewrites {folder}");
        assert_eq!(names(&kept), names(&made), "{how}");
        for (name, text) in &made {
            assert!(*text == kept[name], "{folder}/{name} is out of date: {how}");
        }
    }
}

#[test]
fn manual_pages_and_completions_know_every_subcommand() {
    let (pages, completions) =
        (texts(&repository().join(MANUAL)), texts(&repository().join(COMPLETIONS)));
    let tool = foveate_tool::ToolArguments::command();
    let names: Vec<&str> = tool.get_subcommands().map(clap::Command::get_name).collect();
    assert!(15 < names.len(), "{names:?}");
    for name in names {
        assert!(pages.contains_key(&format!("foveate-{name}.1")), "{name}");
        // As groff wants a hyphen of an option.
        assert!(pages["foveate.1"].contains(&name.replace('-', "\\-")), "{name}");
        for file in ["foveate.bash", "_foveate", "foveate.fish"] {
            assert!(completions[file].contains(name), "{name} in {file}");
        }
    }
    let source = format!("\"{SOURCE}\"");
    for page in pages.values() {
        assert!(page.contains(".TH foveate") && page.contains(&source), "{page}");
    }
}

#[test]
fn examples_of_manual_pages_are_valid_commands() {
    for (command, _) in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
        let parser = match command.split(' ').next() {
            Some("foveated") => arguments::DaemonArguments::command(),
            _ => foveate_tool::ToolArguments::command(),
        };
        let parsed = parser.try_get_matches_from(command.split(' '));
        assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
    }
}

#[test]
fn the_reference_lists_every_subcommand() {
    let page = fs::read_to_string(repository().join(COMMANDS)).unwrap();
    let (begin, end) = ("<!-- commands begins -->\n", "<!-- commands ends -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let tool = foveate_tool::ToolArguments::command();
    let rows = tool.get_subcommands().map(|subcommand| {
        let about = subcommand.get_about().unwrap();
        format!("| `foveate {}` | {about} |\n", subcommand.get_name())
    });
    let rows: String = rows.collect();
    let made = format!("{before}{begin}| Command | |\n| --- | --- |\n{rows}{end}{after}");
    if std::env::var_os(WRITE).is_some() {
        fs::write(repository().join(COMMANDS), &made).unwrap();
    } else {
        assert!(
            page == made,
            "{COMMANDS} is out of date: {WRITE}=1 cargo test --test programs manual"
        );
    }
}

/// Those of the shells that this machine has: it has at least one.
#[test]
fn completions_are_scripts_that_their_shells_read() {
    let mut read = 0;
    for (shell, ending) in [("bash", ".bash"), ("zsh", ""), ("fish", ".fish")] {
        for program in ["foveate", "foveated"] {
            let name = if shell == "zsh" { format!("_{program}") } else { program.to_owned() };
            let file = repository().join(COMPLETIONS).join(format!("{name}{ending}"));
            match Command::new(shell).arg("-n").arg(file).output() {
                Ok(output) => {
                    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
                    read += 1;
                }
                Err(error) => leave_part_out(&format!("{shell}: {error}")),
            }
        }
    }
    assert!(2 <= read);
}

fn make_pages(folder: &Path) {
    let mut tool = without_help(foveate_tool::ToolArguments::command());
    tool.build();
    make_page(&tool, "1", folder);
    make_page(&arguments::DaemonArguments::command(), "8", folder);
    for (name, text) in texts(folder) {
        // What stands behind the options.
        let text = text.replace(".SH EXTRA\n", ".SH \"EXIT STATUS AND ENVIRONMENT\"\n");
        fs::write(folder.join(&name), text + &appendix(&name)).unwrap();
    }
    let default = fs::read_to_string(repository().join("configs/default.toml")).unwrap();
    fs::write(folder.join("foveate.toml.5"), configuration(&default, SOURCE)).unwrap();
}

/// Writes the page of a command, and the pages of its subcommands.
fn make_page(command: &clap::Command, section: &str, folder: &Path) {
    for subcommand in command.get_subcommands() {
        make_page(subcommand, section, folder);
    }
    let page = Man::new(command.clone()).section(section).source(SOURCE).manual("Foveate");
    page.generate_to(folder).unwrap();
}

fn make_completions(folder: &Path) {
    for mut command in [
        without_help(foveate_tool::ToolArguments::command()),
        arguments::DaemonArguments::command(),
    ] {
        let name = command.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            generate_to(shell, &mut command, &name, folder).unwrap();
        }
    }
    offer_names(folder);
}

/// Makes the completions of `foveate` offer the names of streams and views that its daemon has.
fn offer_names(folder: &Path) {
    let ask = |kind: &str| match kind {
        "stream" => "foveate ls --names 2>/dev/null | grep -v /",
        "view" => "foveate ls --names 2>/dev/null | grep /",
        _ => "foveate ls --names 2>/dev/null",
    };
    let paths = ["foveate.bash", "_foveate", "foveate.fish"].map(|name| folder.join(name));
    let [mut bash, mut zsh, mut fish] =
        paths.each_ref().map(|path| fs::read_to_string(path).unwrap());
    for subcommand in foveate_tool::ToolArguments::command().get_subcommands() {
        let mut positionals =
            subcommand.get_positionals().map(|argument| argument.get_id().as_str());
        let Some(kind) = positionals.find(|id| NAMED.contains(id)) else { continue };
        let name = subcommand.get_name();
        let block =
            format!("foveate__subcmd__{})\n            opts=\"", name.replace('-', "__subcmd__"));
        assert!(bash.contains(&block), "{name} has other words in bash");
        bash = bash.replace(&block, &format!("{block}$({}) ", ask(kind)));
        fish += &format!(
            "complete -c foveate -n \"__fish_foveate_using_subcommand {name}\" -f -a \"({})\"\n",
            ask(kind)
        );
    }
    for kind in NAMED {
        let function = format!("_foveate_{kind}_names");
        let lines: Vec<_> = zsh.lines().collect();
        let is_named = |line: &str| {
            line.trim_start_matches("'").trim_start_matches(':').starts_with(&format!("{kind} -- "))
        };
        let named = lines.iter().map(|line| match line {
            line if is_named(line) => line.replace(":_default'", &format!(":{function}'")),
            line => (*line).to_owned(),
        });
        zsh = named.map(|line| line + "\n").collect();
        let define = format!(
            "{function}() {{\n    local -a names\n    names=(${{(f)\"$({})\"}})\n    compadd -a names\n}}\n\n",
            ask(kind)
        );
        let end = zsh.rfind("if [ \"$funcstack[1]\"").unwrap();
        zsh.insert_str(end, &define);
    }
    for (path, text) in paths.iter().zip([bash, zsh, fish]) {
        fs::write(path, text).unwrap();
    }
}

/// Without `foveate help`, which would repeat each subcommand.
fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true)
}

/// The files of a folder by name.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(Result::unwrap));
    let entries = entries.into_iter().flatten();
    entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}
