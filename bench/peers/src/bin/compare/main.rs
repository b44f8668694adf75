//! `compare FILE`: prints the output of several runs of `peers --json` and `windlass-bench --json` as one
//! table with the conditions. `cargo xtask peers` calls it.

use std::process::ExitCode;

use anyhow::Context as _;

mod readings;
mod table;
mod conditions;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("expected a file with JSON, as in `compare measured.json`")?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let readings = readings::read(&text).with_context(|| format!("reading {path}"))?;
    let server = std::env::var("DATABASE_URL").context("expected the server's address in DATABASE_URL")?;
    println!("{}", table::table(&readings));
    println!("{}", conditions::conditions(&server).await?);
    Ok(())
}
