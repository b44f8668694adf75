//! Tests of which commands scripts may use, and that the server accepts each script.

use std::collections::BTreeSet;

use super::*;
use crate::redis::keys::Keys;

/// Every command and every option that a script contains or this engine sends, with the version of Redis that
/// introduced it in the form in which it is used here.
const KNOWN: [(&str, (u32, u32)); 64] = [
    ("CLUSTER", (3, 0)),
    ("CONFIG", (2, 0)),
    ("COUNT", (2, 8)),
    ("EVAL", (2, 6)),
    ("EVALSHA", (2, 6)),
    ("EXISTS", (1, 0)),
    ("GET", (1, 0)),
    ("HDEL", (2, 4)),
    ("HEXISTS", (2, 0)),
    ("HGET", (2, 0)),
    ("HGETALL", (2, 0)),
    ("HINCRBY", (2, 0)),
    ("HKEYS", (2, 0)),
    ("HMGET", (2, 0)),
    ("HLEN", (2, 0)),
    ("HSCAN", (2, 8)),
    // With more than one pair.
    ("HSET", (4, 0)),
    ("INFO", (1, 0)),
    ("LIMIT", (1, 0)),
    ("LLEN", (1, 0)),
    ("LRANGE", (1, 0)),
    ("LREM", (1, 0)),
    ("LTRIM", (1, 0)),
    ("NX", (3, 0)),
    ("PING", (1, 0)),
    ("PUBLISH", (2, 0)),
    ("RPUSH", (2, 4)),
    ("SADD", (2, 4)),
    ("SCARD", (1, 0)),
    ("SET", (1, 0)),
    ("SISMEMBER", (1, 0)),
    ("SLOWLOG", (2, 2)),
    ("SMEMBERS", (1, 0)),
    ("SRANDMEMBER", (2, 6)),
    ("SREM", (2, 4)),
    ("SSCAN", (2, 8)),
    ("SUBSCRIBE", (2, 0)),
    ("TIME", (2, 6)),
    ("UNLINK", (4, 0)),
    ("WITHSCORES", (1, 0)),
    ("ZADD", (2, 4)),
    ("ZCARD", (1, 2)),
    ("ZCOUNT", (2, 0)),
    ("ZPOPMIN", (5, 0)),
    ("ZRANGE", (1, 2)),
    ("ZRANGEBYLEX", (2, 8)),
    ("ZRANGEBYSCORE", (1, 0)),
    ("ZREM", (2, 4)),
    ("ZREMRANGEBYRANK", (2, 0)),
    ("ZREVRANGEBYSCORE", (2, 2)),
    ("ZSCORE", (1, 2)),
    // Sections of INFO, and settings that CONFIG returns.
    ("default", (2, 6)),
    ("appendfsync", (1, 1)),
    ("save", (1, 0)),
    // What Lua provides inside the server.
    ("cjson.decode", (2, 6)),
    ("cjson.encode", (2, 6)),
    ("redis.call", (2, 6)),
    ("redis.sha1hex", (2, 6)),
    ("redis.pcall", (2, 6)),
    ("redis.replicate_commands", (3, 2)),
    ("struct.pack", (2, 6)),
    ("struct.unpack", (2, 6)),
    ("MATCH", (2, 8)),
    ("SCAN", (2, 8)),
];

const OLDEST: (u32, u32) = (5, 0);

fn lua_files() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/redis/lua");
    let paths = [folder.clone(), folder.join("parts")]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "lua"));
    files.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Words in quotes that are all capitals: only commands and options are written so here.
fn quoted_capitals(text: &str) -> Vec<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    let words = code.flat_map(|line| line.split(['\'', '"']));
    words.filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase())).collect()
}

fn known() -> BTreeSet<&'static str> {
    KNOWN.iter().filter(|(_, since)| *since <= OLDEST).map(|(word, _)| *word).collect()
}

#[test]
fn every_command_and_option_of_a_script_existed_in_redis_5() {
    let (known, files) = (known(), lua_files());
    assert!(files.len() > 30, "expected more than 30 scripts, got {}; the folder has moved", files.len());
    for (path, text) in &files {
        let words = quoted_capitals(text);
        for word in words {
            assert!(
                known.contains(word),
                "{path} uses {word}; look up which version introduced it, and add it to the table"
            );
        }
    }
}

#[test]
fn every_key_of_a_script_has_a_name_that_lanes_may_not_take() {
    let mut seen = BTreeSet::new();
    for (path, text) in lua_files() {
        for rest in text.split("key('").skip(1) {
            let name = rest.split(['\'', ':']).next().unwrap_or_default().to_owned();
            assert!(Keys::is_taken(&name), "{path} has the key {name}; add it to the names in keys.rs");
            seen.insert(name);
        }
    }
    assert!(
        seen.len() > 30,
        "expected more than 30 keys; scripts name their keys in another way now: {seen:?}"
    );
}

#[test]
fn scripts_use_no_other_library_of_the_server() {
    let known = known();
    for (path, text) in lua_files() {
        for library in ["redis.", "cjson.", "struct.", "cmsgpack.", "bit.", "server."] {
            let calls = text.match_indices(library).filter(|(at, _)| {
                !text[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.')
            });
            for (at, _) in calls {
                let name = text[at..]
                    .split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_')
                    .next()
                    .unwrap();
                let in_comment =
                    text[..at].lines().last().is_some_and(|line| line.trim_start().starts_with("--"));
                assert!(in_comment || known.contains(name), "{path} calls {name}");
            }
        }
    }
}

#[test]
fn every_command_that_this_engine_sends_existed_in_redis_5() {
    let known = known();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/redis");
    let (mut commands, mut options) = (0, 0);
    for folder in [folder.clone(), folder.join("doctor")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            for sent in text.split("redis::cmd(\"").skip(1).chain(text.split("self.command(\"").skip(1)) {
                let word = sent.split('"').next().unwrap();
                assert!(known.contains(word), "{} sends {word}", path.display());
                commands += 1;
            }
            let words = text.split("arg(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
            for word in words.filter(|word| word.bytes().all(|b| b.is_ascii_uppercase())) {
                assert!(known.contains(word), "{} sends the option {word}", path.display());
                options += 1;
            }
        }
    }
    assert!(commands >= 10 && options >= 5, "the engine builds its commands in another way now");
}

/// The commands that the server has counted, each with its subcommand behind a bar if it has subcommands.
async fn commands_seen(connection: &mut redis::aio::MultiplexedConnection) -> BTreeSet<String> {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await.unwrap();
    let names = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    names.map(str::to_uppercase).collect()
}

/// Opens a connection that also waits for a busy machine.
async fn connect(client: &redis::Client) -> redis::aio::MultiplexedConnection {
    let patience = Some(std::time::Duration::from_secs(120));
    let config = redis::AsyncConnectionConfig::new();
    let config = config.set_connection_timeout(patience).set_response_timeout(patience);
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

#[tokio::test]
async fn with_the_scripts_of_an_older_server_everything_is_done_by_commands_that_it_has() {
    let known = known();
    let server =
        windlass_servers::redis::Server::start(&windlass_servers::redis::Options::default()).unwrap();
    crate::redis::damage::do_everything(&server.url(), 6).await;
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = connect(&client).await;
    // Our own connection sends its name before its first command, and the code that starts a server pings it
    // and quits.
    let is_ours = |name: &String| name.starts_with("CLIENT") || name == "QUIT";
    let seen: BTreeSet<_> =
        commands_seen(&mut connection).await.into_iter().filter(|name| !is_ours(name)).collect();
    assert!(seen.len() > 30, "{seen:?}");
    for name in &seen {
        // Of commands with subcommands only these are sent, and they are as old.
        let is_known = known.contains(name.as_str()) || name == "CONFIG|GET";
        assert!(is_known, "{name} was sent; look up which version introduced it: {seen:?}");
    }
}

#[tokio::test]
async fn no_connection_of_an_engine_tells_its_name_by_a_command_that_older_servers_lack() {
    let server =
        windlass_servers::redis::Server::start(&windlass_servers::redis::Options::default()).unwrap();
    let (url, options) = (server.url(), crate::redis::RedisOptions::default());
    let engine = crate::redis::RedisEngine::connect(&url, options).await.unwrap();
    // A connection of another kind: it must not send its name either, so that only names sent by the engine
    // are counted.
    let info = redis::IntoConnectionInfo::into_connection_info(server.url()).unwrap();
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    let client = redis::Client::open(info.set_redis_settings(settings)).unwrap();
    let mut connection = connect(&client).await;
    let seen = commands_seen(&mut connection).await;
    assert!(!seen.iter().any(|name| name.starts_with("CLIENT") || name.starts_with("HELLO")), "{seen:?}");
    drop(engine);
}

#[tokio::test]
async fn the_server_takes_every_script() {
    let url = windlass_servers::shared::redis_url().expect("a Redis server");
    let client = redis::Client::open(url).unwrap();
    let mut connection = connect(&client).await;
    // In the form for this server, and in the form for an older one.
    for major in [7, 6] {
        for (name, script) in Scripts::for_server(major).all() {
            let loaded: Result<String, _> =
                redis::cmd("SCRIPT").arg("LOAD").arg(&script.text).query_async(&mut connection).await;
            assert_eq!(loaded.unwrap_or_else(|error| panic!("{name}: {error}")), script.sha, "{name}");
        }
    }
}

#[test]
fn a_full_memory_keeps_jobs_out_and_lets_them_end() {
    let scripts = Scripts::for_server(7);
    assert!(scripts.enqueue.text.starts_with("#!lua\n"));
    for script in [&scripts.claim, &scripts.settle, &scripts.extend, &scripts.cancel, &scripts.prune] {
        assert!(script.text.starts_with("#!lua flags=allow-oom\n"));
    }
    assert!(Scripts::for_server(6).enqueue.text.starts_with("redis.replicate_commands()\n"));
}
