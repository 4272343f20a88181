//! The tokens of a console: a name for the audit, a role, and a secret of which only a digest is kept.

use std::fmt;

use ichido::{Error, error::Result};
use sha2::{Digest, Sha256};

use super::Role;

/// Shorter secrets can be guessed.
const SHORTEST: usize = 32;

/// No more of a name fits into what shows it.
const LONGEST_NAME: usize = 64;

/// Somebody who may use the console.
#[derive(Clone)]
pub struct Token {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Of the secret.
    pub(crate) digest: [u8; 32],
}

impl Token {
    /// A token with this name, for the audit, and this secret.
    ///
    /// # Errors
    /// [`Error::Setup`] if the name or the secret cannot be used.
    pub fn new(name: &str, role: Role, secret: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_@+ ".contains(c);
        if name.is_empty() || name.len() > LONGEST_NAME || name.trim() != name || !name.chars().all(plain) {
            let text = "a token's name must have 1 to 64 letters, digits, blanks and characters of -_@+";
            return Err(Error::Setup(text.into()));
        }
        if secret.len() < SHORTEST || secret.chars().any(|c| c.is_whitespace() || c.is_control()) {
            let text = format!(
                "a token must have at least {SHORTEST} characters and no blanks; `openssl rand -hex 32` makes one"
            );
            return Err(Error::Setup(text));
        }
        Ok(Token { name: name.to_owned(), role, digest: digest(secret) })
    }

    /// Is this its secret? Takes as long for every answer.
    pub(crate) fn is(&self, digest: &[u8; 32]) -> bool {
        self.digest.iter().zip(digest).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

/// What is kept of a secret.
pub(crate) fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_needs_a_name_and_a_long_secret() {
        let secret = "0123456789abcdef0123456789abcdef";
        assert!(Token::new("anna", Role::Read, secret).is_ok());
        for (name, secret) in
            [("", secret), (" a", secret), ("a\nb", secret), ("a.b", secret), ("a", ""), ("a", "short")]
        {
            assert!(Token::new(name, Role::Read, secret).is_err(), "{name:?} {secret:?}");
        }
        assert!(Token::new("a", Role::Read, &format!("{secret} ")).is_err(), "nobody can send a blank");
    }

    #[test]
    fn its_secret_is_never_printed() {
        let token = Token::new("anna", Role::Admin, "0123456789abcdef0123456789abcdef").unwrap();
        let text = format!("{token:?}");
        assert!(text.contains("anna") && !text.contains("0123456789abcdef") && !text.contains("digest"), "{text}");
        assert!(token.is(&digest("0123456789abcdef0123456789abcdef")) && !token.is(&digest("x")));
    }
}
