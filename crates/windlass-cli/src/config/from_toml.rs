//! Reads TOML into the tree. The parser reports byte ranges, which are converted to lines and columns.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::error::ConfigError;
use super::tree::{Entry, Node, Position, Table, Value};

/// The maximum number of syntax errors that are reported for a file; one broken quote causes many.
const SYNTAX_ERRORS_MAX: usize = 10;

/// Parses a whole file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Table, Vec<ConfigError>> {
    let source = Source { file: file.into(), text };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(source.table(table.get_ref()));
    }
    Err(errors.iter().take(SYNTAX_ERRORS_MAX).map(|error| source.config_error(error)).collect())
}

/// Parses one value that stands alone, such as the `[1, 2]` of an environment variable. All its parts get
/// the same position.
pub(crate) fn parse_value(position: &Position, text: &str) -> Result<Value, String> {
    let value = DeValue::parse(text).map_err(|error| error.message().to_owned())?;
    let source = Source { file: "".into(), text };
    Ok(moved(source.value(value.get_ref()), position))
}

struct Source<'a> {
    file: Arc<str>,
    text: &'a str,
}

impl Source<'_> {
    fn config_error(&self, error: &Error) -> ConfigError {
        let start = error.span().map_or(0, |span| span.start);
        ConfigError::at(
            &self.position(start),
            format!("expected TOML, got a syntax error: {}", error.message()),
        )
    }

    fn position(&self, offset: usize) -> Position {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before[line_start..].chars().count() as u64 + 1;
        Position::File { file: Arc::clone(&self.file), line, column }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        Table(entries.into_iter().map(|(key, value)| self.entry(key, value)).collect())
    }

    fn entry(&self, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Entry {
        let key_position = self.position(key.span().start);
        Entry { key: key.get_ref().to_string(), key_position, node: self.node(value) }
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        Node { value: self.value(value.get_ref()), position: self.position(value.span().start) }
    }

    fn value(&self, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Number(number.to_string()), Value::Int),
            DeValue::Float(number) => Value::Number(number.to_string()),
            DeValue::Datetime(instant) => Value::Text(instant.to_string()),
            DeValue::Array(items) => Value::List(items.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
        }
    }
}

/// The same value, with every part at one position.
fn moved(value: Value, position: &Position) -> Value {
    let node = |node: Node| Node { value: moved(node.value, position), position: position.clone() };
    match value {
        Value::List(items) => Value::List(items.into_iter().map(node).collect()),
        Value::Table(table) => Value::Table(Table(
            table
                .0
                .into_iter()
                .map(|entry| Entry { key: entry.key, key_position: position.clone(), node: node(entry.node) })
                .collect(),
        )),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_line_and_column() {
        let table = parse("w.toml", "# first\n[a]\n  \"ключ\" = \"x\"\nlist = [1,\n 2]\n").unwrap();
        let Value::Table(a) = &table.get("a").unwrap().node.value else { panic!("a table") };
        let key = a.get("ключ").unwrap();
        assert_eq!(
            (key.key_position.to_string(), key.node.position.to_string()),
            ("w.toml:3:3".into(), "w.toml:3:12".into())
        );
        let Value::List(items) = &a.get("list").unwrap().node.value else { panic!("a list") };
        assert_eq!(items[1].position.to_string(), "w.toml:5:2");
    }

    #[test]
    fn a_syntax_error_names_its_place() {
        let errors = parse("w.toml", "[a]\nb = \n").unwrap_err();
        assert!(errors[0].to_string().starts_with("w.toml:2:"), "{errors:?}");
    }

    #[test]
    fn a_number_too_big_for_us_is_kept_as_it_was_written() {
        let table = parse("w.toml", "n = 99999999999999999999\n").unwrap();
        assert_eq!(table.get("n").unwrap().node.value, Value::Number("99999999999999999999".into()));
    }
}
