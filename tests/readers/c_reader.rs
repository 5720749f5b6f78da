//! The C header compiles without a warning as C and C++, holds its laws, and reads from the real `foveated`
//! what the Rust reader reads.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;
use testkit::daemon::{Place, Process};
use testkit::left_out::{leave_out, leave_part_out};
use testkit::repository;
use testkit::scene::view;

/// Every program in `tests/c`.
const PROGRAMS: [&str; 7] =
    ["control_loop", "dump", "ego_motion", "laws", "own_view", "print", "steer"];

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"];

/// A compiler and the language that it is to take its input for.
#[derive(Clone, Copy, Debug)]
struct Language {
    compiler: &'static str,
    flags: &'static [&'static str],
}

const C: &[&str] = &["-x", "c", "-std=c11"];
const CPP: &[&str] = &["-x", "c++", "-std=c++17"];

const SYSTEM_C: Language = Language { compiler: "cc", flags: C };

#[test]
fn every_program_compiles_without_a_warning_as_c_and_as_cpp() {
    for language in languages() {
        for program in PROGRAMS {
            language.compile(&source(program), &["-O2"]);
        }
    }
}

/// The declarations compile under a strict compiler.
#[test]
fn including_and_implementing_files_link() {
    for language in languages() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let implementing = "#define FOVEATE_IMPLEMENTATION\n#include <foveate.h>\n";
        let using = "#include <foveate.h>\nint main(void) { return foveate_strerror(FOVEATE_OK)[0] == 0; }\n";
        let sources = [write("one.c", implementing), write("other.c", using)];
        let output = language.invoke(&sources, &folder.path().join("program"), &[]);
        assert!(output.status.success(), "{language:?}: {output:#?}");
    }
}

#[test]
fn the_laws_hold_in_every_language() {
    for language in languages() {
        let laws = language.compile(&source("laws"), &["-O2"]);
        assert_runs(laws.command());
    }
}

#[test]
fn the_laws_hold_under_the_address_sanitizer() {
    assert_laws_hold_with(SYSTEM_C, "-fsanitize=address,undefined");
}

/// It knows no fences, and needs to know none: all that two threads touch is atomic.
#[test]
fn the_laws_hold_under_the_thread_sanitizer() {
    match languages().into_iter().find(|language| language.compiler == "clang") {
        Some(clang) => assert_laws_hold_with(clang, "-fsanitize=thread"),
        None => leave_out("no clang, and the thread sanitizer of gcc knows no fences"),
    }
}

#[test]
fn a_program_that_prints_frames_says_why_there_are_none() {
    let place = Place::new();
    let outcome = place.c_program("print", &["camera/main", "1"]).finish();
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(outcome.message().contains("no daemon listens on"), "{outcome:#?}");

    let _daemon = place.daemon(&camera(""));
    let outcome = place.c_program("print", &["camera/main", "3"]).finish();
    outcome.assert_clean_exit(0);
    assert_eq!(outcome.stdout.matches("tokens around").count(), 3, "{outcome:#?}");

    let outcome = place.c_program("print", &["camera/other", "3"]).finish();
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(outcome.message().contains("unknown view `camera/other`"), "{outcome:#?}");
}

/// Also where its stream has not delivered a frame when it is asked for again.
#[test]
fn an_own_view_is_steered_through_a_restart_of_the_daemon() {
    for signal in [Signal::TERM, Signal::KILL] {
        let place = Place::new();
        let config = camera("");
        let first = place.daemon(&config);
        // No view can be opened before.
        first.subscribe("camera/main").next_frame();
        let outcome = place.c_program("own_view", &["camera", r#"{"bugdet":33}"#, "1"]).finish();
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        assert!(outcome.message().contains("unknown key `bugdet`"), "{outcome:#?}");

        let process = place.c_program("own_view", &["camera", r#"{"budget":33}"#, "2"]);
        process.stdout.wait_for("by its time\n");
        first.process.signal(signal);
        first.process.finish();
        process.stdout.wait_for("gone\n");
        let _second = place.daemon(&config);
        let outcome = process.finish();
        outcome.assert_clean_exit(0);
        for (line, count) in [(" tokens\n", 2), (": found by its time", 2), (": gone", 1)] {
            assert_eq!(outcome.stdout.matches(line).count(), count, "{line}: {outcome:#?}");
        }
    }
}

#[test]
fn the_daemon_obeys_whatever_is_said_in_c() {
    let place = Place::new();
    let daemon = place.daemon(&camera("gaze.policy = 'feedback'"));
    let outcome = place.c_program("steer", &["camera/main"]).finish();
    outcome.assert_clean_exit(0);
    // The test picture is 1280x720.
    for line in [
        "point (640.0000, 540.0000), decided",
        "box (640.0000, 180.0000), decided",
        "map (1173.3333, 630.0000)",
        "inside the token",
        "released",
    ] {
        assert!(outcome.stdout.contains(line), "{line}: {outcome:#?}");
    }
    let steering = daemon.listing("camera").views[0].steering.clone();
    assert!(steering.refused.is_empty() && 4 <= steering.accepted, "{steering:?}");
}

/// The blocks of the page are one program.
#[test]
fn the_examples_of_the_page_compile_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let tour = folder.path().join("tour.c");
    fs::write(&tour, blocks(include_str!("../../docs/guide/c.md"), "c")).unwrap();
    let place = Place::new();
    let _daemon = place.daemon(&camera("gaze.policy = 'feedback'"));
    for language in languages() {
        let outcome = language.compile(&tour, &["-O2"]).start(&place, &["camera/main"]).finish();
        outcome.assert_clean_exit(0);
        for part in [
            "20 tokens",
            "at the fixation",
            "the finest token weighs ",
            "finest token: ",
            "looks at (0.0, 0.0)",
            "stamp ",
            "in the ring",
            "embeds ",
            "camera/open-",
        ] {
            assert!(outcome.stdout.contains(part), "{part}: {outcome:#?}");
        }
        let fixations = outcome.stdout.lines().filter(|line| line.starts_with("fixation "));
        let weights = fixations.map(|line| line.split_once("), weight ").unwrap().1);
        let weights: Vec<f32> = weights.map(|weight| weight.parse().unwrap()).collect();
        assert!((1..=8).contains(&weights.len()), "{outcome:#?}");
        // Shares of the greatest, of the time when each was chosen.
        assert!(weights.iter().all(|weight| 0.0 < *weight && *weight <= 1.0), "{outcome:#?}");
    }
}

#[test]
fn the_canvas_of_the_page_compiles_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("canvas.c");
    fs::write(&program, blocks(include_str!("../../docs/guide/canvas.md"), "c")).unwrap();
    let place = Place::new();
    let _daemon = place.daemon(&camera(""));
    for language in languages() {
        let outcome = language.compile(&program, &["-O2"]).start(&place, &["camera"]).finish();
        outcome.assert_clean_exit(0);
        assert!(outcome.stdout.contains(" places drawn, step "), "{outcome:#?}");
    }
}

#[test]
fn cmake_finds_the_package_in_the_tree_and_installed() {
    assert!(is_there("cmake"), "cmake is not installed; scripts/test.sh installs it");
    let installed = installed();
    let places = [repository().join("cmake"), installed.path().join("lib/cmake/foveate")];
    for package in places {
        let build = tempfile::tempdir().unwrap();
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(repository().join("tests/c")).arg("-B").arg(build.path());
        configure.arg(format!("-Dfoveate_DIR={}", package.display()));
        assert_runs(configure);
        let mut make = Command::new("cmake");
        make.arg("--build").arg(build.path());
        assert_runs(make);
        assert!(build.path().join("print").exists());
    }
}

#[test]
fn cmake_finds_the_package_where_its_version_will_do() {
    assert!(is_there("cmake"), "cmake is not installed; scripts/test.sh installs it");
    let (major, rest) = env!("CARGO_PKG_VERSION").split_once('.').unwrap();
    let minor: u32 = rest.split_once('.').unwrap().0.parse().unwrap();
    let wishes = [
        (String::new(), true),
        (env!("CARGO_PKG_VERSION").to_owned(), true),
        (format!("{} EXACT", env!("CARGO_PKG_VERSION")), true),
        (format!("{major}.{minor}"), true),
        (format!("{major}.{minor}.999"), false),
        (format!("{major}.{}", minor + 1), false),
        (format!("{}.0", major.parse::<u32>().unwrap() + 1), false),
    ];
    let installed = installed();
    for (wish, is_found) in wishes {
        let project = tempfile::tempdir().unwrap();
        let text = format!(
            "cmake_minimum_required(VERSION 3.16)\nproject(wish LANGUAGES NONE)\n\
             find_package(foveate {wish} CONFIG REQUIRED)\n"
        );
        fs::write(project.path().join("CMakeLists.txt"), text).unwrap();
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(project.path()).arg("-B").arg(project.path().join("build"));
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed.path().display()));
        let output = configure.output().unwrap();
        assert_eq!(output.status.success(), is_found, "{wish}: {output:#?}");
    }
}

/// Packages take their version from the header.
#[test]
fn the_header_has_the_version_of_the_crate() {
    let line = format!("\n#define FOVEATE_HEADER_VERSION \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(include_str!("../../include/foveate.h").contains(&line));
}

#[test]
fn pkg_config_finds_the_installed_header() {
    assert!(is_there("pkg-config"), "pkg-config is not installed; scripts/test.sh installs it");
    let installed = installed();
    let said = |option| {
        let mut query = Command::new("pkg-config");
        query.env("PKG_CONFIG_PATH", installed.path().join("lib/pkgconfig"));
        query.args([option, "foveate"]);
        assert_runs(query).trim().to_owned()
    };
    assert_eq!(said("--modversion"), env!("CARGO_PKG_VERSION"));
    assert_eq!(said("--cflags"), format!("-I{}/include", installed.path().display()));
}

impl Language {
    /// Compiles `source` to a program; a warning is an error.
    fn compile(self, source: &Path, flags: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let output = self.invoke(&[source.to_owned()], &path, flags);
        assert!(output.status.success(), "{self:?} {}: {output:#?}", source.display());
        Program { path, _folder: folder }
    }

    fn invoke(self, sources: &[PathBuf], program: &Path, flags: &[&str]) -> Output {
        let mut command = Command::new(self.compiler);
        command.args(self.flags).args(WARNINGS).args(flags).args(["-pthread", "-I"]);
        command.arg(repository().join("include")).args(sources).arg("-o").arg(program);
        command.output().unwrap()
    }
}

/// A compiled program, removed when it is dropped.
struct Program {
    path: PathBuf,
    _folder: TempDir,
}

impl Program {
    fn command(&self) -> Command {
        Command::new(&self.path)
    }

    /// Starts it as a client of the daemon of `place`.
    fn start(&self, place: &Place, arguments: &[impl AsRef<OsStr>]) -> Process {
        let mut command = self.command();
        command.args(arguments);
        Process::start(command, &[("FOVEATE_SOCKET", place.socket().to_str().unwrap())])
    }
}

/// What the header is for, with the compilers that are here. `cc` and `c++` must be.
fn languages() -> Vec<Language> {
    let mut languages = vec![SYSTEM_C, Language { compiler: "c++", flags: CPP }];
    if is_there("clang") {
        languages.push(Language { compiler: "clang", flags: C });
        languages.push(Language { compiler: "clang++", flags: CPP });
    } else {
        leave_part_out("no clang");
    }
    languages
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs the laws with a sanitizer, where a program that does nothing runs with it.
fn assert_laws_hold_with(language: Language, sanitizer: &str) {
    let flags = ["-O1", "-g", sanitizer, "-fno-sanitize-recover=all"];
    let folder = tempfile::tempdir().unwrap();
    let (nothing, program) = (folder.path().join("nothing.c"), folder.path().join("nothing"));
    fs::write(&nothing, "int main(void) { return 0; }\n").unwrap();
    let compiled = language.invoke(&[nothing], &program, &flags).status.success();
    if !compiled || !Command::new(program).status().unwrap().success() {
        return leave_out(&format!("{} has no {sanitizer}", language.compiler));
    }
    assert_runs(language.compile(&source("laws"), &flags).command());
}

/// Runs `command` to its successful end, and returns what it printed.
fn assert_runs(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:#?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A live picture with the view `camera/main`, and settings of that.
fn camera(settings: &str) -> String {
    let main = view("main", &format!("budget = 20\n{settings}"));
    format!("[[stream]]\nname = 'camera'\nsource = 'test'\n{main}")
}

/// A prefix with what `docs/guide/c.md` installs, as it says.
fn installed() -> TempDir {
    let prefix = tempfile::tempdir().unwrap();
    let page = include_str!("../../docs/guide/c.md");
    let commands = blocks(page, "sh");
    let install = &commands[commands.find("prefix=").unwrap()..];
    let (settings, rest) = install.split_once('\n').unwrap();
    assert_eq!(settings, "prefix=/usr/local");
    let mut shell = Command::new("sh");
    shell.args(["-euc", rest]).current_dir(repository());
    shell.env("prefix", prefix.path());
    assert_runs(shell);
    prefix
}

/// All blocks of `language` on a page, one after the other.
fn blocks(page: &str, language: &str) -> String {
    let opening = format!("\n```{language}\n");
    page.split(&opening).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

fn source(program: &str) -> PathBuf {
    repository().join("tests/c").join(program).with_extension("c")
}
