//! Certificates for servers of tests that speak TLS: an authority, and what it has signed for a server at `localhost` and 127.0.0.1 and for a
//! client named `ichido`; beside it an authority that has signed nothing. They are files, valid until 2120, so that no program is
//! needed to make them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The authority, in PEM.
pub const CA: &str = include_str!("certificates/ca.pem");
/// An authority that has signed none of these.
pub const OTHER_CA: &str = include_str!("certificates/other.pem");
/// The client's certificate.
pub const CLIENT: &str = include_str!("certificates/client.pem");
/// Its key.
pub const CLIENT_KEY: &str = include_str!("certificates/client.key");

pub(super) const SERVER: &str = include_str!("certificates/server.pem");
pub(super) const SERVER_KEY: &str = include_str!("certificates/server.key");

/// What a client needs, as files.
#[derive(Debug)]
pub struct ClientFiles {
    /// The authority.
    pub ca: PathBuf,
    /// An authority that has signed nothing.
    pub other_ca: PathBuf,
    /// The client's certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl ClientFiles {
    /// Writes them into this folder.
    #[must_use]
    pub fn write(folder: &Path) -> Self {
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            fs::write(&file, text).expect("a certificate's file");
            file
        };
        ClientFiles {
            ca: write("ca.pem", CA),
            other_ca: write("other.pem", OTHER_CA),
            cert: write("client.pem", CLIENT),
            key: write("client.key", CLIENT_KEY),
        }
    }
}

/// Writes what a server needs into its folder, where it can read it: authority, certificate, key.
pub(super) fn write_for_server(folder: &Path) -> [PathBuf; 3] {
    [("ca.pem", CA), ("server.pem", SERVER), ("server.key", SERVER_KEY)].map(|(name, text)| {
        let file = folder.join(name);
        fs::write(&file, text).expect("a certificate's file");
        file
    })
}
