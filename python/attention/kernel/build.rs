//! Compiles `glsl/*.comp`.

#[path = "../../../glsl/compile.rs"]
mod compile;

fn main() {
    println!("cargo::rerun-if-changed=../../../glsl/shared");
    compile::compile_folder("glsl");
}
