//! Reads `WINDLASS__SECTION__KEY` variables into the tree. A variable replaces the setting that it names.
//! The setting may be a table or a list, written as in inline TOML.

use std::sync::Arc;

use windlass::select::{check_timeout, flag};

use super::Config;
use super::database_url::DatabaseUrl;
use super::error::{ConfigError, ConfigErrors};
use super::fallback::{FallbackChoice, FallbackSettings};
use super::from_toml;
use super::redis::RedisUrl;
use super::store::{EngineChoice, StoreSettings};
use super::tree::{Entry, Node, Position, Table, Value};

const PREFIX: &str = "WINDLASS__";

/// The maximum number of parts of a variable's name; no setting lies deeper.
const PARTS_MAX: usize = 8;

/// Overrides the settings of the file with the variables.
pub(crate) fn overlay(table: &mut Table, variables: &[(String, String)], errors: &mut ConfigErrors) {
    let mut ours: Vec<_> = variables.iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    ours.sort();
    for (name, text) in ours {
        if let Err(error) = set(table, name, text) {
            errors.push(error);
        }
    }
}

fn set(table: &mut Table, name: &str, text: &str) -> Result<(), ConfigError> {
    let position = Position::Env(name.into());
    let path: Vec<&str> = name[PREFIX.len()..].split("__").collect();
    if path.iter().any(|part| part.is_empty()) {
        return Err(ConfigError::at(
            &position,
            "expected a name such as WINDLASS__WORKER__LEASE, got an empty part",
        ));
    }
    if path.len() > PARTS_MAX {
        return Err(ConfigError::at(
            &position,
            format!("expected at most {PARTS_MAX} parts, got {}", path.len()),
        ));
    }
    let value = value_of(&position, text)?;
    let (last, sections) = path.split_last().expect("splitting gives at least one part");
    let mut here = table;
    for section in sections {
        here = step_into(here, section, &position)?;
    }
    let entry = entry_of(here, last, &position);
    entry.node = Node { value, position };
    Ok(())
}

fn value_of(position: &Position, text: &str) -> Result<Value, ConfigError> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(Value::Raw(text.to_owned()));
    }
    from_toml::parse_value(position, text.trim()).map_err(|why| {
        ConfigError::at(position, format!("expected a TOML list or inline table, got a syntax error: {why}"))
    })
}

fn step_into<'a>(
    table: &'a mut Table,
    part: &str,
    position: &Position,
) -> Result<&'a mut Table, ConfigError> {
    let entry = entry_of(table, part, position);
    if entry.node.value == Value::Null {
        entry.node.value = Value::Table(Table::default());
    }
    match &mut entry.node.value {
        Value::Table(table) => Ok(table),
        other => Err(ConfigError::at(
            position,
            format!("expected a table at `{}` to set a part of, got {}", entry.key, other.describe()),
        )),
    }
}

/// The entry that a part of a variable's name means. Variables have no dots, dashes or small letters.
/// `MAIL_SEND` therefore means `mail.send` if the file has that key, else a new key in small letters.
fn entry_of<'a>(table: &'a mut Table, part: &str, position: &Position) -> &'a mut Entry {
    let known = table.0.iter().position(|entry| plain(&entry.key) == plain(part));
    let at = known.unwrap_or_else(|| {
        let node = Node { value: Value::Null, position: position.clone() };
        table.0.push(Entry { key: part.to_ascii_lowercase(), key_position: position.clone(), node });
        table.0.len() - 1
    });
    &mut table.0[at]
}

fn plain(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

/// Reads `DATABASE_URL`, as many programs do: the address of PostgreSQL, if PostgreSQL is selected and no
/// setting has its address. The variable never selects the engine, since it may be set for another program.
pub(crate) fn take_database_url(
    store: &mut StoreSettings,
    variables: &[(String, String)],
    errors: &mut ConfigErrors,
) {
    if store.engine != EngineChoice::Postgres || store.postgres.url.is_some() {
        return;
    }
    let given = variables.iter().find(|(name, text)| name == "DATABASE_URL" && !text.is_empty());
    let Some((name, text)) = given else { return };
    match DatabaseUrl::parse(text) {
        Ok(url) => store.postgres.url = Some(url),
        Err(why) => errors.push(ConfigError::at(&Position::Env(Arc::from(name.as_str())), why)),
    }
}

/// Reads `USE_REDIS_QUEUE`, as older deployments set it. If true, it selects Redis, whatever the file says,
/// and a spool on disk, unless the file names another. If false, it changes nothing.
pub(crate) fn take_use_redis(config: &mut Config, variables: &[(String, String)], errors: &mut ConfigErrors) {
    let Some((name, text)) = variables.iter().find(|(name, _)| name == "USE_REDIS_QUEUE") else { return };
    match flag(text) {
        Some(true) => {
            config.store.engine = EngineChoice::Redis;
            config.fallback.engine.get_or_insert(FallbackChoice::Sqlite);
        }
        Some(false) => {}
        None => {
            let position = Position::Env(Arc::from(name.as_str()));
            errors.push(ConfigError::at(&position, format!("expected true or false, got {text:?}")));
        }
    }
}

/// Reads `REDIS_URL`: the address of Redis, if Redis is selected and no setting has its address.
pub(crate) fn take_redis_url(
    store: &mut StoreSettings,
    variables: &[(String, String)],
    errors: &mut ConfigErrors,
) {
    if store.engine != EngineChoice::Redis || store.redis.url.is_some() {
        return;
    }
    let given = variables.iter().find(|(name, text)| name == "REDIS_URL" && !text.is_empty());
    let Some((name, text)) = given else { return };
    match RedisUrl::parse(text) {
        Ok(url) => store.redis.url = Some(url),
        Err(why) => errors.push(ConfigError::at(&Position::Env(Arc::from(name.as_str())), why)),
    }
}

/// Reads `REDIS_HEALTH_CHECK_TIMEOUT`, as older deployments set it: seconds, such as 2.0.
pub(crate) fn take_check_timeout(
    fallback: &mut FallbackSettings,
    variables: &[(String, String)],
    errors: &mut ConfigErrors,
) {
    let given =
        variables.iter().find(|(name, text)| name == "REDIS_HEALTH_CHECK_TIMEOUT" && !text.is_empty());
    let Some((name, text)) = given else { return };
    match check_timeout(text) {
        Ok(span) => fallback.check_timeout = span,
        Err(why) => errors.push(ConfigError::at(&Position::Env(Arc::from(name.as_str())), why)),
    }
}
