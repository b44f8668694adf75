//! The program in the README compiles and runs.

#[test]
fn the_program_in_the_readme_is_the_quickstart_example() {
    let readme = include_str!("../../../../README.md");
    let example = include_str!("../../examples/quickstart.rs");
    assert!(readme.contains(&format!("```rust\n{example}```\n")), "copy the example into README.md");
}
