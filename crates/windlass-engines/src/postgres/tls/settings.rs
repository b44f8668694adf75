//! The TLS options of a database URL, named as in libpq: `sslmode`, `sslrootcert`, `sslcert`, `sslkey`. The
//! driver knows half of the values of one of them, so they are removed before it reads the rest.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

/// The TLS settings of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct TlsSettings {
    transport: SslMode,
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
}

impl TlsSettings {
    /// Whether the connection uses TLS at all.
    pub(in crate::postgres) fn transport(&self) -> SslMode {
        self.transport
    }
}

/// Which servers are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any server. That protects against eavesdropping, and not against a server that pretends to be the
    /// right one.
    Anyone,
    /// A server with a certificate by an authority in this file, whatever its name.
    Authority(PathBuf),
    /// A server with a certificate by such an authority, for the host in the URL. Without a file, the
    /// authorities are those that the machine trusts.
    AuthorityAndName(Option<PathBuf>),
}

/// The certificate by which a client identifies itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// The value of `sslrootcert` for the authorities that the machine trusts.
const SYSTEM: &str = "system";

/// Removes the settings from a URL and returns the rest of it.
pub(in crate::postgres) fn take(url: &str) -> Result<(String, TlsSettings)> {
    let mut given = Given::default();
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    let rest = if is_url { from_url(url, &mut given) } else { from_words(url, &mut given) };
    Ok((rest, given.decide()?))
}

/// The options as they were given. An empty option counts as not given.
#[derive(Default)]
struct Given {
    mode: Option<String>,
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl Given {
    /// Keeps an option if it is about TLS, and returns whether it is. The last one wins.
    fn takes(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.roots,
            "sslcert" => &mut self.certificate,
            "sslkey" => &mut self.key,
            _ => return false,
        };
        *place = Some(value.to_owned()).filter(|value| !value.is_empty());
        true
    }

    fn decide(self) -> Result<TlsSettings> {
        let from_system = self.roots.as_deref() == Some(SYSTEM);
        let default = if from_system { "verify-full" } else { "prefer" };
        let mode = self.mode.as_deref().unwrap_or(default);
        let file = self.roots.filter(|_| !from_system).map(PathBuf::from);
        let checked = |file: Option<PathBuf>| file.map_or(Trust::Anyone, Trust::Authority);
        let (transport, trust) = match mode {
            "disable" => (SslMode::Disable, Trust::Anyone),
            "verify-full" => (SslMode::Require, Trust::AuthorityAndName(file)),
            "prefer" | "require" | "verify-ca" if from_system => return Err(too_weak(mode)),
            "prefer" => (SslMode::Prefer, checked(file)),
            "require" => (SslMode::Require, checked(file)),
            "verify-ca" => (SslMode::Require, Trust::Authority(file.ok_or_else(no_authority)?)),
            other => return Err(unknown_mode(other)),
        };
        Ok(TlsSettings { transport, trust, identity: identity(self.certificate, self.key)? })
    }
}

fn identity(certificate: Option<String>, key: Option<String>) -> Result<Option<Identity>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Ok(Some(Identity { certificate: certificate.into(), key: key.into() }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(wrong("expected sslkey beside sslcert, got none; name the file of its key")),
        (None, Some(_)) => {
            Err(wrong("expected sslcert beside sslkey, got none; name the file of its certificate"))
        }
    }
}

/// The error for too weak a mode. Any server can get a certificate by an authority that the whole world
/// trusts; only the name tells servers apart.
fn too_weak(mode: &str) -> EngineError {
    wrong(&format!("expected sslmode=verify-full with sslrootcert=system, got sslmode={mode}"))
}

fn no_authority() -> EngineError {
    wrong(
        "expected sslrootcert with sslmode=verify-ca, got none; name the file of the authority that signed the server's certificate",
    )
}

/// The error for an unknown mode. It repeats a word. Anything else may be a part of a password with a `?`
/// in it.
fn unknown_mode(mode: &str) -> EngineError {
    let is_word = mode.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '-');
    let got = if is_word { format!("{mode:?}") } else { "something else".to_owned() };
    wrong(&format!("expected sslmode disable, prefer, require, verify-ca or verify-full, got {got}"))
}

fn wrong(why: &str) -> EngineError {
    EngineError::Unusable { why: format!("{why} (in the database URL)") }
}

/// Takes options from a URL. The driver, too, looks for options after the first `?` behind the first `@`.
fn from_url(url: &str, given: &mut Given) -> String {
    let after_user = url.find('@').map_or(0, |at| at + 1);
    let Some(mark) = url[after_user..].find('?').map(|mark| after_user + mark) else { return url.to_owned() };
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut is_ours = |option: &str| {
        option.split_once('=').is_some_and(|(name, value)| given.takes(&decoded(name), &decoded(value)))
    };
    let kept: Vec<_> = url[mark + 1..].split('&').filter(|option| !is_ours(option)).collect();
    format!("{}?{}", &url[..mark], kept.join("&"))
}

/// Takes options from words such as `host=db sslmode=require`, where a value may stand in quotes.
fn from_words(text: &str, given: &mut Given) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((name, told)) = rest.split_once('=') {
        let (value, after) = word(told.trim_start());
        if !given.takes(name.trim(), &value) {
            kept.push_str(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    kept + rest
}

/// Splits a text into its first value and the rest.
fn word(text: &str) -> (String, &str) {
    let quoted = text.starts_with('\'');
    let body = if quoted { &text[1..] } else { text };
    let mut value = String::new();
    let mut letters = body.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return (value, &body[at + 1..]),
            blank if !quoted && blank.is_whitespace() => return (value, &body[at..]),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "postgres://app@db.example/app";

    fn settings(options: &str) -> TlsSettings {
        take(&format!("{PLACE}?{options}")).unwrap().1
    }

    fn refusal(options: &str) -> String {
        take(&format!("{PLACE}?{options}")).unwrap_err().to_string()
    }

    fn authority() -> PathBuf {
        PathBuf::from("/ca.pem")
    }

    #[test]
    fn each_mode_trusts_whom_libpq_would_trust() {
        let expected = [
            ("", SslMode::Prefer, Trust::Anyone),
            ("sslmode=disable", SslMode::Disable, Trust::Anyone),
            ("sslmode=prefer", SslMode::Prefer, Trust::Anyone),
            ("sslmode=require", SslMode::Require, Trust::Anyone),
            ("sslrootcert=/ca.pem", SslMode::Prefer, Trust::Authority(authority())),
            ("sslmode=require&sslrootcert=/ca.pem", SslMode::Require, Trust::Authority(authority())),
            ("sslmode=verify-ca&sslrootcert=/ca.pem", SslMode::Require, Trust::Authority(authority())),
            (
                "sslmode=verify-full&sslrootcert=/ca.pem",
                SslMode::Require,
                Trust::AuthorityAndName(Some(authority())),
            ),
            ("sslmode=verify-full", SslMode::Require, Trust::AuthorityAndName(None)),
            ("sslrootcert=system", SslMode::Require, Trust::AuthorityAndName(None)),
        ];
        for (options, transport, trust) in expected {
            assert_eq!(settings(options), TlsSettings { transport, trust, identity: None }, "{options}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_write_instead() {
        assert!(refusal("sslmode=verify").contains("verify-ca or verify-full, got \"verify\""));
        assert!(refusal("sslmode=hunter2").contains("verify-ca or verify-full, got something else"));
        assert!(refusal("sslmode=verify-ca").contains("name the file of the authority"));
        assert!(refusal("sslmode=require&sslrootcert=system").contains("expected sslmode=verify-full"));
        assert!(refusal("sslcert=/me.pem").contains("expected sslkey"));
        assert!(refusal("sslkey=/me.key").contains("expected sslcert"));
    }

    #[test]
    fn only_options_about_tls_are_taken_out_of_a_url() {
        let url = "postgres://app:a%3Fb@db.example/app?application_name=x&sslrootcert=%2Fmy%20ca.pem&connect_timeout=3";
        let (rest, settings) = take(url).unwrap();
        assert_eq!(rest, "postgres://app:a%3Fb@db.example/app?application_name=x&connect_timeout=3");
        assert_eq!(settings.trust, Trust::Authority(PathBuf::from("/my ca.pem")));
        assert_eq!(take(PLACE).unwrap().0, PLACE);
    }

    #[test]
    fn only_options_about_tls_are_taken_out_of_words() {
        let words = r"host=db.example sslmode = 'verify-full' password='sslmode=disable \' x' sslrootcert=/my\ ca.pem user=app";
        let (rest, settings) = take(words).unwrap();
        assert_eq!(rest, r"host=db.example password='sslmode=disable \' x' user=app");
        assert_eq!(settings.trust, Trust::AuthorityAndName(Some(PathBuf::from("/my ca.pem"))));
    }

    #[test]
    fn a_clients_certificate_is_named_with_its_key() {
        let identity = Identity { certificate: "/me.pem".into(), key: "/me.key".into() };
        assert_eq!(settings("sslcert=/me.pem&sslkey=/me.key").identity, Some(identity));
    }
}
