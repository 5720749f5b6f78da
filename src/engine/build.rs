//! Compiles `glsl/*.comp`.

#[path = "../../glsl/compile.rs"]
mod compile;

fn main() {
    compile::compile_folder("../../glsl");
}
