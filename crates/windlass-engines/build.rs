//! Prepares the statements of the SQL engines. `{job}` in a statement stands for the columns that every
//! reader of jobs reads, `{carried}` for those that a job keeps from its enqueue on; `{job j}` names them as
//! columns of `j`. The lists stand once for each dialect, in `job_columns.txt`; conditions that several
//! statements share stand in `parts.sql`.
//!
//! A new PostgreSQL statement needs no list either: its file is registered here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out =
        PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("expected OUT_DIR, got none"))?);
    for dialect in ["postgres", "sqlite"] {
        let source = Path::new("src").join(dialect);
        println!("cargo::rerun-if-changed={}", source.display());
        let expansions = Expansions::read(&source)?;
        let names = expand_all(&source.join("sql"), &out.join(dialect), &expansions)?;
        let count = format!(
            "/// How many columns `{{job}}` stands for.\npub(super) const JOB_COLUMNS: usize = {};\n",
            expansions.job.len()
        );
        fs::write(out.join(format!("{dialect}_columns.rs")), count)?;
        let list = format!("statements! {{\n    {},\n}}\n", names.join(",\n    "));
        fs::write(out.join(format!("{dialect}_statements.rs")), list)?;
    }
    Ok(())
}

/// Writes each statement with its columns, and returns their names.
fn expand_all(from: &Path, to: &Path, expansions: &Expansions) -> io::Result<Vec<String>> {
    // What an earlier build left there may be gone from the source.
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let mut names = Vec::new();
    for file in fs::read_dir(from)? {
        let path = file?.path();
        let (Some(stem), Some(name)) = (path.file_stem(), path.file_name()) else { continue };
        names.push(stem.to_string_lossy().into_owned());
        fs::write(to.join(name), expansions.expand(&fs::read_to_string(&path)?)?)?;
    }
    names.sort();
    Ok(names)
}

/// The parts by name. Each begins with a line `-- part NAME:`; other comments are left out.
fn read_parts(text: &str) -> HashMap<String, String> {
    let mut parts = HashMap::new();
    let mut name = None;
    for line in text.lines() {
        if let Some((part, _)) = line.strip_prefix("-- part ").and_then(|line| line.split_once(':')) {
            name = Some(part.to_owned());
        } else if let Some(name) = name.as_ref().filter(|_| !line.starts_with("--") && !line.is_empty()) {
            let part: &mut String = parts.entry(name.clone()).or_default();
            *part += &format!("{} ", line.trim());
        }
    }
    parts
}

/// What stands for the words in braces.
struct Expansions {
    job: Vec<String>,
    carried: Vec<String>,
    parts: HashMap<String, String>,
}

impl Expansions {
    fn read(source: &Path) -> io::Result<Self> {
        let path = source.join("job_columns.txt");
        let text = fs::read_to_string(&path)?;
        let list = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let line = line
                .ok_or_else(|| io::Error::other(format!("expected a line {name:?} in {}", path.display())))?;
            io::Result::Ok(line.split(", ").map(str::to_owned).collect::<Vec<_>>())
        };
        let carried = list("carried")?;
        let is_carried = |column: &String| column == "{carried}";
        let job = list("job")?.into_iter();
        let job =
            job.flat_map(|column| if is_carried(&column) { carried.clone() } else { vec![column] }).collect();
        // Only PostgreSQL has parts.
        let parts = fs::read_to_string(source.join("parts.sql")).unwrap_or_default();
        Ok(Self { job, carried, parts: read_parts(&parts) })
    }

    fn expand(&self, statement: &str) -> io::Result<String> {
        let mut expanded = String::new();
        let mut rest = statement;
        while let Some((before, after)) = rest.split_once('{') {
            expanded += before;
            let end = after.split_once('}');
            let words = end.map(|(inside, _)| inside.split(' ').collect::<Vec<_>>()).unwrap_or_default();
            let name = words.first().copied().unwrap_or_default();
            let prefix = words.get(1).map(|table| format!("{table}.")).unwrap_or_default();
            let columns = |list: &[String]| {
                list.iter().map(|column| format!("{prefix}{column}")).collect::<Vec<_>>().join(", ")
            };
            let part = match name {
                "job" => Some(columns(&self.job)),
                "carried" => Some(columns(&self.carried)),
                _ => self.parts.get(name).map(|part| part.replace("$.", &prefix)),
            };
            // Other braces are SQL's own: `'{}'` is an empty array.
            expanded += part.as_deref().unwrap_or("{");
            rest = part.and(end).map_or(after, |(_, rest)| rest);
        }
        Ok(expanded + rest)
    }
}
