//! Names the PostgreSQL statements, one for each file of `src/postgres/sql`, so that a new file needs no
//! list.

use std::path::Path;
use std::{env, fs, io};

const FOLDER: &str = "src/postgres/sql";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut names = Vec::new();
    for file in fs::read_dir(FOLDER)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("expected OUT_DIR, got none"))?;
    let text = format!("statements! {{\n    {},\n}}\n", names.join(",\n    "));
    fs::write(Path::new(&folder).join("postgres_statements.rs"), text)
}
