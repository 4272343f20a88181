//! Which action a request path means: `ACTION/REQUEST_ID` as it is, or after the rules of `[dispatch]`. `Process` asks it
//! before anything runs, because the request id is on every log line.

use std::borrow::Cow;

/// The rules that make an action's name of a request path.
///
/// A path is `[FOLDER/…]NAME[/REQUEST_ID]`, and the action is `[base.][folder.…]prefix NAME suffix`: with the base `billing` and
/// the suffix `Action`, the path `jp/Invoice/R1` means the action `billing.jp.InvoiceAction` with the request id `R1`. The
/// shortest name that is an action counts; what is left of the path is the request id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// What stands before every name, with a dot.
    pub base: String,
    /// What is put directly before the name.
    pub prefix: String,
    /// What is put directly after the name.
    pub suffix: String,
    /// Other bases; the first whose pattern matches counts.
    pub patterns: Vec<Pattern>,
}

/// A base of its own for the paths that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// A path without its request id; `*` stands for any text without `/` and `.`, and `//` at the end for everything below.
    pub pattern: String,
    /// The base of such paths.
    pub base: String,
}

impl Paths {
    /// The action and the request id that a path means; an action that is not there if none is.
    pub(crate) fn resolve(&self, path: &str, is_action: impl Fn(&str) -> bool) -> (String, Option<String>) {
        let parts: Vec<&str> = path.split('/').collect();
        let split = |at: usize| {
            let id = parts[at..].join("/");
            (self.name(&parts[..at]), Some(id).filter(|id| !id.is_empty()))
        };
        let found = (1..=parts.len()).map(split).find(|(name, _)| is_action(name));
        found.unwrap_or_else(|| split(1))
    }

    fn name(&self, parts: &[&str]) -> String {
        let path = parts.join("/");
        let own = self.patterns.iter().find(|own| matches(&own.pattern, &path));
        let base = own.map_or(&self.base, |own| &own.base);
        let dotted = path.replace('/', ".");
        let (folder, name) = dotted.rsplit_once('.').unwrap_or(("", &dotted));
        let last = format!("{}{name}{}", self.prefix, self.suffix);
        let all = [Cow::from(base.trim_end_matches('.')), folder.into(), last.into()];
        all.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix("//") {
        Some(folder) => {
            let depth = folder.split('/').count();
            let mut parts = path.splitn(depth + 1, '/');
            let above = parts.by_ref().take(depth).collect::<Vec<_>>().join("/");
            parts.next().is_some() && wild(folder.as_bytes(), above.as_bytes())
        }
        None => wild(pattern.as_bytes(), path.as_bytes()),
    }
}

/// Does the text match, where `*` is any run without `/` and `.`?
fn wild(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => {
            let longest = text.iter().position(|byte| b"/.".contains(byte)).unwrap_or(text.len());
            (0..=longest).any(|taken| wild(rest, &text[taken..]))
        }
        Some((first, rest)) => text.split_first().is_some_and(|(byte, after)| byte == first && wild(rest, after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(base: &str, prefix: &str, suffix: &str, patterns: &[(&str, &str)]) -> Paths {
        let own = |(pattern, base): &(&str, &str)| Pattern { pattern: (*pattern).into(), base: (*base).into() };
        Paths {
            base: base.into(),
            prefix: prefix.into(),
            suffix: suffix.into(),
            patterns: patterns.iter().map(own).collect(),
        }
    }

    #[track_caller]
    fn assert_means(paths: &Paths, path: &str, action: &str, id: Option<&str>) {
        let (found, request_id) = paths.resolve(path, |name| name == action);
        assert_eq!((found.as_str(), request_id.as_deref()), (action, id), "{path}");
    }

    #[test]
    fn without_rules_a_path_is_the_action_and_the_request_id() {
        let plain = Paths::default();
        assert_means(&plain, "Mail", "Mail", None);
        assert_means(&plain, "Mail/", "Mail", None);
        assert_means(&plain, "Mail/M1", "Mail", Some("M1"));
        assert_means(&plain, "Mail/jp/1.2", "Mail", Some("jp/1.2"));
        assert_means(&plain, "billing.Mail/M1", "billing.Mail", Some("M1"));
        assert_means(&plain, "billing/Mail/M1", "billing.Mail", Some("M1"));
    }

    #[test]
    fn base_prefix_and_suffix_are_put_around_the_name() {
        let rules = paths("billing", "The", "Action", &[]);
        assert_means(&rules, "Invoice/R1", "billing.TheInvoiceAction", Some("R1"));
        assert_means(&rules, "jp/tokyo/Invoice/R1", "billing.jp.tokyo.TheInvoiceAction", Some("R1"));
        assert_eq!(rules.resolve("Nothing/R1", |_| false), ("billing.TheNothingAction".into(), Some("R1".into())));
    }

    #[test]
    fn the_first_pattern_that_matches_has_the_base() {
        let rules = paths("all", "", "", &[("admin/Us*", "users"), ("admin//", "staff"), ("x*z", "")]);
        assert_means(&rules, "admin/User/R1", "users.admin.User", Some("R1"));
        assert_means(&rules, "admin/Menu", "staff.admin.Menu", None);
        assert_means(&rules, "admin/a/b/Menu/R1", "staff.admin.a.b.Menu", Some("R1"));
        assert_means(&rules, "administrator/Menu", "all.administrator.Menu", None);
        assert_means(&rules, "xyz/R1", "xyz", Some("R1"));
        assert_means(&rules, "Mail/M1", "all.Mail", Some("M1"));
    }

    #[test]
    fn a_star_does_not_pass_a_separator() {
        for (pattern, path, expected) in [
            ("*", "Mail", true),
            ("*", "a/Mail", false),
            ("a.*", "a.b", true),
            ("*", "a.b", false),
            ("*/Mail", "a/Mail", true),
            ("*//", "a/b/c", true),
            ("a//", "a", false),
            ("", "", true),
            ("**a", "aaa", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
