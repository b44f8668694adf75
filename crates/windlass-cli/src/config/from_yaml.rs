//! Reads YAML into the tree.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::error::ConfigError;
use super::tree::{Entry, Node, Position, Table, Value};

/// Parses a whole file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Table, Vec<ConfigError>> {
    let file: Arc<str> = file.into();
    let top: Spanned<Yaml> =
        serde_saphyr::from_str(text).map_err(|error| vec![config_error(&file, &error)])?;
    match node(&file, top) {
        Node { value: Value::Table(table), .. } => Ok(table),
        Node { value: Value::Null, .. } => Ok(Table::default()),
        Node { value, position } => Err(vec![ConfigError::at(
            &position,
            format!("expected a table of sections, got {}", value.describe()),
        )]),
    }
}

fn config_error(file: &Arc<str>, error: &serde_saphyr::Error) -> ConfigError {
    let position = match error.location() {
        Some(location) => position(file, &location),
        None => Position::File { file: Arc::clone(file), line: 1, column: 1 },
    };
    let text = error.without_snippet().to_string();
    if text.contains("multiple YAML documents") {
        return ConfigError::at(&position, "expected one YAML document, got several");
    }
    // The parser repeats the position, and may append a drawing of it.
    let why = text.lines().next().and_then(|line| line.split(" at line ").next()).unwrap_or_default();
    ConfigError::at(&position, format!("expected YAML, got a syntax error: {why}"))
}

fn position(file: &Arc<str>, location: &serde_saphyr::Location) -> Position {
    let (line, column) = (location.line().max(1), location.column().max(1));
    Position::File { file: Arc::clone(file), line, column }
}

fn node(file: &Arc<str>, yaml: Spanned<Yaml>) -> Node {
    let position_of = |location| position(file, &location);
    let value = match yaml.value {
        Yaml::Plain(value) => value,
        Yaml::List(items) => Value::List(items.into_iter().map(|item| node(file, item)).collect()),
        Yaml::Map(entries) => Value::Table(Table(
            entries
                .into_iter()
                .map(|(key, item)| Entry {
                    key_position: position_of(key.referenced),
                    key: key.value,
                    node: node(file, item),
                })
                .collect(),
        )),
    };
    Node { value, position: position_of(yaml.referenced) }
}

/// A value as the parser reports it. Spans inside serde's untagged enums get lost, so this type is
/// deserialized explicitly.
enum Yaml {
    Plain(Value),
    List(Vec<Spanned<Yaml>>),
    Map(Vec<(Spanned<String>, Spanned<Yaml>)>),
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Null))
    }
    fn visit_none<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Null))
    }
    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Yaml, D::Error> {
        from.deserialize_any(self)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Bool(flag)))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Int(number)))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Yaml, E> {
        Ok(Yaml::Plain(i64::try_from(number).map_or_else(|_| Value::Number(number.to_string()), Value::Int)))
    }
    fn visit_i128<E>(self, number: i128) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Number(number.to_string())))
    }
    fn visit_u128<E>(self, number: u128) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Number(number.to_string())))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Number(number.to_string())))
    }
    fn visit_str<E>(self, text: &str) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Text(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Yaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Yaml::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Yaml, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Yaml::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_line_and_column() {
        let table = parse("w.yaml", "# first\na:\n  key: 30s\n  list:\n    - 1\n    - 2\n").unwrap();
        let Value::Table(a) = &table.get("a").unwrap().node.value else { panic!("a table") };
        let key = a.get("key").unwrap();
        assert_eq!(
            (key.key_position.to_string(), key.node.position.to_string()),
            ("w.yaml:3:3".into(), "w.yaml:3:8".into())
        );
        assert_eq!(key.node.value, Value::Text("30s".into()));
        let Value::List(items) = &a.get("list").unwrap().node.value else { panic!("a list") };
        assert_eq!((items[1].position.to_string(), &items[1].value), ("w.yaml:6:7".into(), &Value::Int(2)));
    }

    #[test]
    fn plain_values_keep_their_kinds() {
        let table = parse("w.yaml", "a: true\nb: null\nc: 1.5\nd: \"5\"\ne: 99999999999999999999\n").unwrap();
        let value = |key| table.get(key).unwrap().node.value.clone();
        assert_eq!(value("a"), Value::Bool(true));
        assert_eq!(value("b"), Value::Null);
        assert_eq!(value("c"), Value::Number("1.5".into()));
        assert_eq!(value("d"), Value::Text("5".into()));
        assert!(matches!(value("e"), Value::Number(_)), "{:?}", value("e"));
    }

    #[test]
    fn a_syntax_error_and_a_key_given_twice_name_their_places() {
        let errors = parse("w.yaml", "a:\n  - 1\n b: 2\n").unwrap_err();
        assert!(errors[0].to_string().starts_with("w.yaml:3:"), "{errors:?}");
        let errors = parse("w.yaml", "a: 1\na: 2\n").unwrap_err();
        assert!(errors[0].to_string().starts_with("w.yaml:2:"), "{errors:?}");
    }

    #[test]
    fn several_documents_are_refused_in_our_own_words() {
        let errors = parse("w.yaml", "a: 1\n---\nb: 2\n").unwrap_err();
        assert!(errors[0].to_string().ends_with(": expected one YAML document, got several"), "{errors:?}");
        let errors = parse("w.yaml", "a:\n\tb: 1\n").unwrap_err();
        assert!(!errors[0].to_string().contains("at line"), "{errors:?}");
    }

    #[test]
    fn an_empty_file_is_an_empty_table_and_a_bare_word_is_refused() {
        assert_eq!(parse("w.yaml", "# nothing yet\n").unwrap(), Table::default());
        assert!(parse("w.yaml", "hello\n").unwrap_err()[0].to_string().contains("a table of sections"));
    }
}
