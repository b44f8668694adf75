//! `windlass version`: prints the version.

use serde_json::json;

use crate::exit::{Code, Failure};
use crate::output::Output;

/// Prints the version.
pub(crate) fn version(output: &mut Output) -> Result<Code, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    output.either(&json!({ "name": "windlass", "version": version }), || format!("windlass {version}"))?;
    Ok(Code::Ok)
}
