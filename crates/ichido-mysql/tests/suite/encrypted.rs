//! Encrypted connections: whose certificate is trusted, what a server says to who shows none, and what MySQL 8 asks for where nothing is
//! encrypted.

use ichido::{Error, Operate as _, store::Database as _};
use ichido_mysql::MySql;
use ichido_test_servers::{self as servers, certificates::ClientFiles};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What the server says to these parameters of the URL.
async fn ask(server: &servers::MariaDb, user: &str, parameters: &str) -> Result<(), String> {
    let url = server.fresh_database().replace("ichido:", &format!("{user}:"));
    let url = url.replace("ssl-mode=DISABLED", parameters);
    let store = MySql::new(&url, None, 4, false, Vec::new()).map_err(|error| format!("{error:#}"))?;
    store.ping().await.map_err(|error: Error| format!("{error:#}"))?;
    store.migrate().await.map(drop).map_err(|error| format!("{error:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_trusted_by_its_authority_and_a_client_by_its_certificate() {
    let (server, folder) = (servers::MariaDb::start_encrypted(), tempfile::tempdir().unwrap());
    let ClientFiles { ca, other_ca, cert, key } = ClientFiles::write(folder.path());
    let (ca, other, cert, key) = (ca.display(), other_ca.display(), cert.display(), key.display());
    ask(&server, "ichido", &format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")).await.expect("its own authority");
    ask(&server, "ichido", "ssl-mode=REQUIRED").await.expect("encrypted, whoever it is");
    for unknown in ["ssl-mode=VERIFY_IDENTITY".to_owned(), format!("ssl-mode=VERIFY_CA&ssl-ca={other}")] {
        let refused = ask(&server, "ichido", &unknown).await.expect_err("an authority that nobody trusts");
        assert!(refused.contains("certificate"), "{unknown}: {refused}");
    }
    let shown = format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}&ssl-cert={cert}&ssl-key={key}");
    ask(&server, "certified", &shown).await.expect("who shows its certificate");
    for silent in [format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"), "ssl-mode=DISABLED".to_owned()] {
        let refused = ask(&server, "certified", &silent).await.expect_err("who shows none");
        assert!(refused.contains("Access denied"), "{silent}: {refused}");
    }
}

/// MySQL 8 cannot be installed beside MariaDB, which has no such way to log in: this speaks as much of the protocol as is needed.
async fn wants_the_password(mut client: TcpStream) -> std::io::Result<()> {
    let mut greeting = b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0".to_vec();
    greeting.extend(0xa208_u16.to_le_bytes()); // the newer protocol, a database, transactions, a login by plugin; no TLS
    greeting.extend(b"\xff\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0caching_sha2_password\0");
    for (number, packet) in [(0, &greeting[..]), (2, b"\x01\x04"), (4, b"\x01-----BEGIN PUBLIC KEY-----")] {
        let length = u32::try_from(packet.len()).expect("short").to_le_bytes();
        client.write_all(&[length[0], length[1], length[2], number]).await?;
        client.write_all(packet).await?;
        let mut head = [0; 4];
        client.read_exact(&mut head).await?;
        let length = usize::from(head[0]) + 256 * usize::from(head[1]);
        client.read_exact(&mut vec![0; length]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_nothing_hides_is_not_sent_and_the_way_out_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(wants_the_password(client));
        }
    });
    let store = MySql::new(&format!("mysql://me:secret@{address}/shop"), None, 4, false, Vec::new()).unwrap();
    let refused = format!("{:#}", store.ping().await.expect_err("no TLS"));
    for part in ["caching_sha2_password", "not encrypted", "ssl-mode=VERIFY_IDENTITY", "mysql_native_password"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(!refused.contains("secret"), "{refused}");
}
