//! TLS on the connection to the server: which certificates each mode accepts, and the error when none is
//! accepted.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_engines::postgres::{Address, PostgresEngine, PostgresOptions, migrate};
use windlass_servers::postgres::{Options, Server};

use super::{TestStore, WAIT_MAX, claim, enqueue, eventually, make_ready, quick, request};

/// Starts a server with TLS, which accepts `secured` only with TLS and `badged` only with a client
/// certificate.
fn secure_server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let hba = [
            "hostnossl all secured 127.0.0.1/32 reject",
            "hostssl all badged 127.0.0.1/32 cert",
            "hostnossl all badged 127.0.0.1/32 reject",
        ];
        let hba = hba.map(str::to_owned).to_vec();
        let server = Server::start(&Options { tls: true, hba, ..quick() }).unwrap();
        server.psql("CREATE ROLE secured SUPERUSER LOGIN; CREATE ROLE badged SUPERUSER LOGIN").unwrap();
        server
    })
}

/// Returns the authority of a server that is not the one under test.
fn other_authority() -> &'static Path {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start(&Options { tls: true, ..quick() }).unwrap());
    Box::leak(server.authority().unwrap().into_boxed_path())
}

fn authority() -> String {
    secure_server().authority().unwrap().display().to_string()
}

/// Returns the URL of the server under its own name, with options.
fn secure_url(options: &str) -> String {
    format!("{}?{options}", secure_server().url())
}

/// Returns the URL of the same server under a name that its certificate does not have.
fn misnamed_url(options: &str) -> String {
    let url = secure_server().url().replace("127.0.0.1", "elsewhere.example");
    format!("{url}?hostaddr=127.0.0.1&{options}")
}

/// Whether a session at this address is encrypted, as the server sees it.
async fn is_protected(url: &str) -> bool {
    let client = Address::parse(url).unwrap().connect().await.unwrap();
    let row = client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await;
    row.unwrap().get(0)
}

/// Returns the error of opening an engine at this address.
async fn refusal(url: &str) -> String {
    let error = PostgresEngine::connect(url, PostgresOptions::default())
        .await
        .expect_err("the connection is refused");
    assert!(!error.is_passing(), "a repeat does not help: {error}");
    error.to_string()
}

struct Listener(mpsc::UnboundedSender<Hint>);

impl HintListener for Listener {
    fn hint(&self, hint: Hint) {
        let _ = self.0.send(hint);
    }
}

#[tokio::test]
async fn work_heartbeats_listening_and_migrations_are_protected_where_the_server_is_who_it_says() {
    let place = TestStore::on(secure_url(&format!("sslmode=verify-full&sslrootcert={}", authority())));
    migrate::apply(&place.url, &place.options()).await.unwrap();
    let engine = place.open().await;
    make_ready(&engine).await;
    let (sender, mut hints) = mpsc::unbounded_channel();
    let listener: Arc<dyn HintListener> = Arc::new(Listener(sender));
    engine.on_hint(Arc::downgrade(&listener));
    let listening = format!("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN wl_{}%'", place.schema);
    eventually("it listens", || Some(secure_server().psql(&listening).unwrap()).filter(|row| row == "1"));
    // A claim that finds nothing registers the worker as idle.
    assert_eq!(claim(&engine, 1).await.len(), 0);
    let other = place.open().await;
    enqueue(&other, 1).await;
    let notified = async { while !matches!(hints.recv().await, Some(Hint::Queue(_))) {} };
    tokio::time::timeout(WAIT_MAX, notified).await.expect("the other process wakes this one");
    assert_eq!(claim(&engine, 1).await.len(), 1);
    let unprotected = "SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid)
         WHERE a.application_name = 'windlass' AND NOT s.ssl";
    assert_eq!(secure_server().psql(unprotected).unwrap(), "0");
}

#[tokio::test]
async fn a_server_with_a_certificate_of_another_authority_is_refused() {
    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        let options = format!("sslmode={mode}&sslrootcert={}", other_authority().display());
        let said = refusal(&secure_url(&options)).await;
        assert!(said.contains("not trusted") && said.contains("sslrootcert"), "{mode}: {said}");
    }
}

#[tokio::test]
async fn a_server_of_another_name_is_refused_only_if_the_name_counts() {
    let roots = format!("sslrootcert={}", authority());
    let said = refusal(&misnamed_url(&format!("sslmode=verify-full&{roots}"))).await;
    assert!(said.contains("elsewhere.example") && said.contains("verify-ca"), "{said}");
    for mode in ["verify-ca", "require"] {
        assert!(is_protected(&misnamed_url(&format!("sslmode={mode}&{roots}"))).await, "{mode}");
    }
}

#[tokio::test]
async fn without_an_authority_any_server_is_trusted_and_no_third_party_can_listen() {
    assert!(is_protected(&secure_url("sslmode=require")).await);
    assert!(is_protected(&secure_url("")).await, "TLS is preferred by default");
    assert!(!is_protected(&secure_url("sslmode=disable")).await);
}

#[tokio::test]
async fn an_authority_that_this_machine_does_not_know_is_refused_where_no_file_is_named() {
    let said = refusal(&secure_url("sslmode=verify-full")).await;
    assert!(said.contains("sslrootcert"), "{said}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_only_where_tls_is_asked_for() {
    let plain = super::server();
    let said = refusal(&format!("{}?sslmode=require", plain.url())).await;
    assert!(said.contains("got a server without it") && said.contains("ssl = on"), "{said}");
    assert!(!is_protected(&plain.url()).await, "`prefer` does not require TLS");
}

#[tokio::test]
async fn a_server_that_demands_tls_says_so_to_who_comes_without() {
    let url = secure_server().url().replace("postgres@", "secured@");
    let said = refusal(&format!("{url}?sslmode=disable")).await;
    assert!(said.contains("without TLS") && said.contains("sslmode=require"), "{said}");
    assert!(is_protected(&url).await);
}

#[tokio::test]
async fn a_file_that_is_not_there_or_holds_no_certificate_is_named() {
    let key = secure_server().folder().join("server.key").display().to_string();
    for (file, option) in [("/nowhere/ca.pem", "sslrootcert"), (key.as_str(), "sslrootcert")] {
        let said = refusal(&secure_url(&format!("sslmode=require&{option}={file}"))).await;
        assert!(said.contains(file) && said.contains(option), "{said}");
    }
    let said = refusal(&secure_url(&format!("sslcert={}&sslkey=/nowhere/key.pem", authority()))).await;
    assert!(said.contains("/nowhere/key.pem") && said.contains("sslkey"), "{said}");
}

#[tokio::test]
async fn a_client_shows_who_it_is_by_a_certificate_of_its_own() {
    let server = secure_server();
    let url = server.url().replace("postgres@", "badged@");
    let (certificate, key) = server.client_certificate("badged").unwrap();
    let badge = format!("sslcert={}&sslkey={}", certificate.display(), key.display());
    assert!(is_protected(&format!("{url}?sslmode=require&{badge}")).await);
    let said = refusal(&format!("{url}?sslmode=require")).await;
    assert!(said.contains("client certificate"), "{said}");
}

#[tokio::test]
async fn a_certificate_that_signs_for_itself_is_trusted_if_it_is_the_one_that_was_named() {
    let server = Server::start(&Options { tls: true, ..quick() }).unwrap();
    let (folder, mut server) = (server.folder().to_owned(), server);
    // A certificate as the server's manual creates it: it counts as an authority, and is signed only by
    // itself.
    for (from, to) in [("authority.crt", "server.crt"), ("authority.key", "server.key")] {
        let text = std::fs::read(folder.join(from)).unwrap();
        std::fs::write(folder.join(to), text).unwrap();
    }
    server.restart().unwrap();
    let named = format!("sslmode=verify-ca&sslrootcert={}", folder.join("authority.crt").display());
    assert!(is_protected(&format!("{}?{named}", server.url())).await);
    let other = format!("sslmode=verify-ca&sslrootcert={}", other_authority().display());
    let said = refusal(&format!("{}?{other}", server.url())).await;
    assert!(said.contains("CaUsedAsEndEntity"), "{said}");
}

#[tokio::test]
async fn a_socket_needs_no_tls_whatever_is_asked_for() {
    let url = format!("{}?sslmode=verify-full", secure_server().socket_url());
    assert!(!is_protected(&url).await);
    let place = TestStore::on(url);
    let engine = place.open().await;
    super::declare(&engine).await;
    engine.enqueue(request(vec![super::new_job()])).await.unwrap();
}
