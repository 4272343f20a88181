//! The `[serve]` section: where the console listens, who may use it, and what stands in front of it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::error::ConfigError;
use super::field::Field;
use super::names;
use super::section::Section;

pub(super) const KEYS: [&str; 5] = ["listen", "tokens", "tls", "behind_proxy", "docs"];
const TOKEN_KEYS: [&str; 3] = ["name", "role", "token"];
const TLS_KEYS: [&str; 2] = ["cert", "key"];
const ROLES: [(&str, ServeRole); 3] =
    [("read", ServeRole::Read), ("operate", ServeRole::Operate), ("admin", ServeRole::Admin)];

/// Shorter secrets can be guessed.
const SHORTEST: usize = 32;

/// Where the console listens, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    /// The address.
    pub listen: SocketAddr,
    /// Who may use it; without any, only this host.
    pub tokens: Vec<ServeToken>,
    /// The files with its certificate and with the key of that.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A proxy in front of it encrypts, and says who asks.
    pub behind_proxy: bool,
    /// Whether it serves the documentation.
    pub docs: bool,
}

/// Somebody who may use the console.
#[derive(Clone, PartialEq, Eq)]
pub struct ServeToken {
    /// A name for the audit.
    pub name: String,
    /// What they may do.
    pub role: ServeRole,
    /// Their secret.
    pub token: String,
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeRole {
    /// Look.
    Read,
    /// Change messages and processes.
    Operate,
    /// Everything.
    Admin,
}

impl fmt::Debug for ServeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeToken").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl Serve {
    pub(super) fn read(root: &Section) -> Result<Self, ConfigError> {
        let section = root.section("serve", &KEYS)?;
        let tokens = section.or("tokens", Vec::new(), |field| field.list(token))?;
        if let Some(field) = section.field("tokens") {
            names::check_distinct(&field, tokens.iter().map(|token| token.name.as_str()))?;
        }
        Ok(Self {
            listen: section.or("listen", SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)), address)?,
            tokens,
            tls: section.optional("tls", tls)?,
            behind_proxy: section.or("behind_proxy", false, Field::flag)?,
            docs: section.or("docs", true, Field::flag)?,
        })
    }
}

fn address(field: &Field) -> Result<SocketAddr, ConfigError> {
    field.parsed(|text| text.parse().map_err(|_| "not an address; write it like \"127.0.0.1:7070\"".to_owned()))
}

fn token(field: &Field) -> Result<ServeToken, ConfigError> {
    let section = field.section()?.allow(&TOKEN_KEYS)?;
    let name = section.required("name", Field::filled)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_@+ ".contains(c);
    if name.len() > 64 || name.trim() != name || !name.chars().all(plain) {
        return Err(section.invalid("name", "must have 1 to 64 letters, digits, blanks and characters of -_@+"));
    }
    let role = section.required("role", |field| field.one_of(&ROLES))?;
    let token = section.required("token", Field::filled)?;
    if token.len() < SHORTEST || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let text = format!("must have at least {SHORTEST} characters and no blanks; `openssl rand -hex 32` makes one");
        return Err(section.invalid("token", text));
    }
    Ok(ServeToken { name, role, token })
}

fn tls(field: &Field) -> Result<(PathBuf, PathBuf), ConfigError> {
    let section = field.section()?.allow(&TLS_KEYS)?;
    Ok((section.required("cert", Field::filled)?.into(), section.required("key", Field::filled)?.into()))
}
