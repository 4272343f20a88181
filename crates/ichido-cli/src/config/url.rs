//! Addresses that may carry a password, and the promise that no message shows it. The sections read
//! their `url` keys with it; the command line uses `masked` for what it prints itself.

use std::fmt;

use ichido::handlers::suggestion;

const SECRET_PARAMETERS: [&str; 4] = ["password", "passwd", "pwd", "sslpassword"];

/// An address with a known scheme. Printing it, also with `{:?}`, masks the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Url(String);

impl Url {
    /// The whole address with its password, for connecting.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first colon, such as `sqlite`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Does its scheme say that the connection is encrypted, and so the certificate verified?
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.scheme(), "amqps" | "https")
    }

    /// The host of an address of the web or of a broker, without the port; what cannot be read is empty.
    #[must_use]
    pub fn host(&self) -> &str {
        let place = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let authority = place.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        match host.find(']') {
            Some(end) => &host[..=end],
            None => host.split(':').next().unwrap_or_default(),
        }
    }

    /// Accepts `text` when its scheme is one of `schemes`; the complaint shows at most the scheme.
    pub(super) fn parse(text: &str, schemes: &[&str]) -> Result<Self, String> {
        let allowed = schemes.iter().map(|s| format!("{s}://")).collect::<Vec<_>>().join(", ");
        let scheme = text.split_once(':').map(|(scheme, _)| scheme).filter(|s| is_scheme(s));
        let Some(scheme) = scheme else {
            return Err(format!("the address has no scheme; allowed: {allowed}"));
        };
        if !schemes.contains(&scheme) {
            let near = suggestion(scheme, schemes.iter().copied());
            return Err(format!("unknown scheme `{scheme}`{near}\n  allowed: {allowed}"));
        }
        let rest = &text[scheme.len() + 1..];
        // SQLite is also addressed without slashes: `sqlite:ichido.db`, `sqlite::memory:`.
        let place = rest.strip_prefix("//").or(Some(rest).filter(|_| scheme == "sqlite"));
        match place {
            None => Err(format!("`{scheme}:` must be followed by `//`")),
            Some("") => Err(format!("the address is incomplete: nothing follows `{scheme}:`")),
            Some(_) if text.chars().any(char::is_control) => Err("the address contains a control character".to_owned()),
            Some(_) => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({:?})", masked(&self.0))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// The address with its password replaced by `***`, both in `user:password@host` and in
/// `password=…`. When in doubt about where a password ends it masks more, never less.
#[must_use]
pub fn masked(url: &str) -> String {
    let shown = mask_parameters(url);
    let ats = |text: &str| text.matches('@').count();
    let scheme = shown.find("://").filter(|at| is_scheme(&shown[..*at]));
    let start = scheme.map_or(0, |at| at + 3);
    // The last `@`, wherever it is: a password may itself contain `@`, `/` or `?`. And when a
    // parameter took an `@` with it, that parameter may have been part of the password.
    let end = match shown[start..].rfind('@') {
        _ if ats(&shown) < ats(url) => shown.len(),
        Some(at) => start + at,
        None => return shown,
    };
    match shown[start..end].find(':') {
        Some(colon) => format!("{}:***{}", &shown[..start + colon], &shown[end..]),
        None => shown,
    }
}

fn mask_parameters(url: &str) -> String {
    let mut shown = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('=') {
        shown.push_str(before);
        shown.push('=');
        rest = after;
        if names_a_secret(before) {
            shown.push_str("***");
            rest = &after[secret_length(after)..];
        }
    }
    shown + rest
}

fn names_a_secret(before: &str) -> bool {
    let name = before.trim_end().rsplit(|c: char| "?&;".contains(c) || c.is_whitespace()).next();
    name.is_some_and(|name| SECRET_PARAMETERS.iter().any(|s| name.eq_ignore_ascii_case(s)))
}

fn secret_length(text: &str) -> usize {
    let blanks = text.len() - text.trim_start().len();
    let value = &text[blanks..];
    let quoted = value.starts_with('\'');
    let mut escaped = false;
    for (at, c) in value.char_indices().skip(usize::from(quoted)) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' if quoted => return blanks + at + 1,
            _ if !quoted && ("&;".contains(c) || c.is_whitespace()) => return blanks + at,
            _ => {}
        }
    }
    text.len()
}
