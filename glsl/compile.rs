//! Compiles shaders to SPIR-V with `glslc`, or `glslangValidator` where only that is there. Part of the build scripts of the
//! crates that have shaders.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Compiles the compute shaders in a folder, as seen from the crate, if its Vulkan backend is built.
pub(crate) fn compile_folder(folder: &str) {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={folder}");
    if env::var_os("CARGO_FEATURE_VULKAN").is_none() {
        return;
    }
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for shader in shaders(Path::new(folder)) {
        compile(&shader, &out_dir);
    }
}

/// The compute shaders in `folder`.
fn shaders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| fail(&format!("{}: {error}", folder.display())));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new("comp")));
    paths.sort();
    paths
}

/// Writes `NAME.spv`. Debug names stay in: captures show them, and a test compares struct layouts by them.
fn compile(shader: &Path, out_dir: &Path) {
    let target =
        out_dir.join(shader.with_extension("spv").file_name().expect("a shader is a file"));
    let compilers: [(&str, &[&str]); 2] = [
        ("glslc", &["--target-env=vulkan1.3", "-Werror", "-g", "-o"]),
        ("glslangValidator", &["--target-env", "vulkan1.3", "-g", "-V", "-o"]),
    ];
    for (compiler, arguments) in compilers {
        match Command::new(compiler).args(arguments).args([&target, shader]).output() {
            Ok(output) if output.status.success() => return,
            // Either channel, by compiler.
            Ok(output) => fail(&String::from_utf8_lossy(&[output.stdout, output.stderr].concat())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => fail(&format!("`{compiler}` cannot be started: {error}")),
        }
    }
    fail(
        "`glslc` is missing: install the Debian package glslc, or build without the feature `vulkan`",
    );
}

/// Ends the build with one `cargo::error` line per line of `message`.
fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}
