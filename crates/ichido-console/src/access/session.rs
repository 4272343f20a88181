//! Who has which cookie. A session is signed with a key that only its token yields and kept nowhere: it is valid at every console with the
//! same tokens, ends after [`LASTS`], and ends at once when its token is taken away.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::http::{HeaderMap, StatusCode, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{
    Role, Token, Who, bearer,
    throttle::Throttle,
    token::{self},
};
use crate::{
    Problem,
    headers::{MOST_REQUESTS, RATE_WINDOW},
};

/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_hours(12);

/// The cookie's name.
pub(crate) const COOKIE: &str = "ichido_session";

/// So many wrong tokens from one address within a minute.
const WRONG_TOKENS: u32 = 10;

/// Who may use the console.
pub(crate) struct Access {
    tokens: Vec<Token>,
    /// Without tokens, whoever reaches it may do everything.
    trusting: bool,
    /// Browsers come over HTTPS.
    pub(crate) secure: bool,
    /// Signs forms where there are no tokens; another one in each process.
    own: [u8; 32],
    wrong: Throttle,
    asked: Throttle,
}

impl Access {
    pub(crate) fn new(tokens: Vec<Token>, trusting: bool, secure: bool) -> Self {
        let mut own = [0; 32];
        // Without randomness nobody can be let in.
        getrandom::fill(&mut own).expect("the operating system has random numbers");
        let wrong = Throttle::new(WRONG_TOKENS, Duration::from_mins(1));
        Access { tokens, trusting, secure, own, wrong, asked: Throttle::new(MOST_REQUESTS, RATE_WINDOW) }
    }

    /// May this address ask once more?
    pub(crate) fn may_ask(&self, peer: Option<IpAddr>) -> bool {
        self.asked.count(peer)
    }

    /// Is nobody but this host itself answered?
    pub(crate) fn is_for_this_host(&self) -> bool {
        self.tokens.is_empty() && !self.trusting
    }

    /// Who asks, by what they show.
    pub(crate) fn who(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Who, Problem> {
        if self.tokens.is_empty() {
            let form_token = sign(&self.own, &["form"]);
            return Ok(Who { name: None, role: Role::Admin, form_token });
        }
        if let Some(shown) = bearer(headers) {
            let token = self.token(shown, peer)?;
            return Ok(who(token, ""));
        }
        let unknown = || Problem::new(StatusCode::UNAUTHORIZED, "log in, or send a token as `Authorization: Bearer`");
        let session = cookie(headers).ok_or_else(unknown)?;
        self.by_session(session).ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "the session has ended; log in"))
    }

    /// The token with this secret. Who shows too many wrong ones must wait.
    pub(crate) fn token(&self, secret: &str, peer: Option<IpAddr>) -> Result<&Token, Problem> {
        let digest = token::digest(secret);
        // All of them are compared, so that the time tells nothing.
        let found = self.tokens.iter().fold(None, |found, token| if token.is(&digest) { Some(token) } else { found });
        if self.wrong.is_full(peer) {
            let text = "too many wrong tokens from this address; wait a minute";
            return Err(Problem::later(StatusCode::TOO_MANY_REQUESTS, 60, text));
        }
        found.ok_or_else(|| {
            self.wrong.count(peer);
            Problem::new(StatusCode::UNAUTHORIZED, "no such token")
        })
    }

    /// A new session, as the cookie's value.
    pub(crate) fn begin(token: &Token) -> String {
        let ends = now() + LASTS.as_secs();
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system has random numbers");
        let (name, ends, random) =
            (URL_SAFE_NO_PAD.encode(&token.name), ends.to_string(), URL_SAFE_NO_PAD.encode(random));
        let signature = sign(&token.digest, &["session", &name, &ends, &random]);
        format!("{name}.{ends}.{random}.{signature}")
    }

    fn by_session(&self, session: &str) -> Option<Who> {
        let mut parts = session.split('.');
        let (name, ends, random, signature) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let plain = URL_SAFE_NO_PAD.decode(name).ok()?;
        let token = self.tokens.iter().find(|token| token.name.as_bytes() == plain)?;
        if parts.next().is_some() || !verify(&token.digest, &["session", name, ends, random], signature) {
            return None;
        }
        (ends.parse::<u64>().ok()? > now()).then(|| who(token, session))
    }
}

fn who(token: &Token, session: &str) -> Who {
    let form_token = sign(&token.digest, &["form", session]);
    Who { name: Some(token.name.clone()), role: token.role, form_token }
}

/// The value of the session's cookie.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

fn mac(key: &[u8; 32], parts: &[&str]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    for part in parts {
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    mac
}

fn sign(key: &[u8; 32], parts: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(mac(key, parts).finalize().into_bytes())
}

fn verify(key: &[u8; 32], parts: &[&str], signature: &str) -> bool {
    URL_SAFE_NO_PAD.decode(signature).is_ok_and(|signature| mac(key, parts).verify_slice(&signature).is_ok())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn access() -> Access {
        Access::new(vec![Token::new("anna b", Role::Operate, SECRET).unwrap()], false, false)
    }

    fn with_cookie(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(&format!("a=b; {COOKIE}={value}")).unwrap());
        headers
    }

    #[test]
    fn a_session_is_known_at_every_console_with_the_same_token() {
        let session = Access::begin(access().token(SECRET, None).unwrap());
        let who = access().who(&with_cookie(&session), None).unwrap();
        assert_eq!((who.name.as_deref(), who.role), (Some("anna b"), Role::Operate));
        let tokens = vec![Token::new("anna b", Role::Operate, &SECRET.replace('0', "x")).unwrap()];
        let other = Access::new(tokens, false, false);
        assert_eq!(other.who(&with_cookie(&session), None).unwrap_err().status, StatusCode::UNAUTHORIZED);
    }

    #[test]
    fn a_changed_session_is_refused() {
        let session = Access::begin(access().token(SECRET, None).unwrap());
        let parts: Vec<&str> = session.split('.').collect();
        let later = [parts[0], "99999999999", parts[2], parts[3]].join(".");
        let other = [&URL_SAFE_NO_PAD.encode("root"), parts[1], parts[2], parts[3]].join(".");
        for forged in [later.as_str(), &other, "", "...", &format!("{session}.x"), &session[..session.len() - 1]] {
            assert!(access().who(&with_cookie(forged), None).is_err(), "{forged}");
        }
    }

    #[test]
    fn wrong_tokens_are_throttled_by_address() {
        let access = access();
        let peer = |last| Some(IpAddr::from([192, 0, 2, last]));
        for _ in 0..WRONG_TOKENS {
            assert_eq!(access.token("wrong", peer(1)).unwrap_err().status, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(access.token("wrong", peer(1)).unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(
            access.token(SECRET, peer(1)).unwrap_err().status,
            StatusCode::TOO_MANY_REQUESTS,
            "nor the right one"
        );
        assert!(access.token(SECRET, peer(2)).is_ok());
    }
}
