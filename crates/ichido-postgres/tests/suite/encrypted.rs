//! Encrypted connections: whose certificate is trusted, and what a server says to who shows none.

use ichido::{Error, Operate as _, store::Database as _};
use ichido_postgres::Postgres;
use ichido_test_servers::{self as servers, certificates::ClientFiles};

/// What the server says to these parameters of the URL.
async fn ask(server: &servers::Postgres, user: &str, parameters: &str) -> Result<(), String> {
    let url = server.fresh_database().replace("postgres@", &format!("{user}@"));
    let url = url.replace("sslmode=disable", parameters);
    let store = Postgres::new(&url, None, 4, Vec::new()).map_err(|error| format!("{error:#}"))?;
    store.ping().await.map_err(|error: Error| format!("{error:#}"))?;
    store.migrate().await.map(drop).map_err(|error| format!("{error:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_trusted_by_its_authority_and_a_client_by_its_certificate() {
    let (server, folder) = (servers::Postgres::start_encrypted(), tempfile::tempdir().unwrap());
    let ClientFiles { ca, other_ca, cert, key } = ClientFiles::write(folder.path());
    let (ca, other, cert, key) = (ca.display(), other_ca.display(), cert.display(), key.display());
    ask(&server, "postgres", &format!("sslmode=verify-full&sslrootcert={ca}")).await.expect("its own authority");
    ask(&server, "postgres", "sslmode=require").await.expect("encrypted, whoever it is");
    for unknown in ["sslmode=verify-full".to_owned(), format!("sslmode=verify-ca&sslrootcert={other}")] {
        let refused = ask(&server, "postgres", &unknown).await.expect_err("an authority that nobody trusts");
        assert!(refused.contains("certificate"), "{unknown}: {refused}");
    }
    let shown = format!("sslmode=verify-full&sslrootcert={ca}&sslcert={cert}&sslkey={key}");
    ask(&server, "ichido", &shown).await.expect("who shows its certificate");
    for silent in [format!("sslmode=verify-full&sslrootcert={ca}"), "sslmode=disable".to_owned()] {
        let refused = ask(&server, "ichido", &silent).await.expect_err("who shows none");
        assert!(refused.contains("certificate") || refused.contains("pg_hba.conf"), "{silent}: {refused}");
    }
}
