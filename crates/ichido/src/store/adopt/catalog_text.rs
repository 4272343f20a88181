//! Reads what catalogs give as text: defaults, enumerations and check constraints. Only what is plain is understood; anything
//! else is as if it were not there, and the data decide.

/// The value of a default, if it is a plain one: `'0'::bpchar`, `('new')`, `0`, `false`.
#[must_use]
pub fn plain_default(text: &str) -> Option<String> {
    let text = text.trim();
    let inside = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).map_or(text, str::trim);
    if let Some((value, rest)) = literal(inside) {
        return (rest.is_empty() || rest.starts_with("::")).then_some(value);
    }
    let word = inside.split("::").next().unwrap_or_default().to_lowercase();
    let plain = word.parse::<i64>().is_ok() || word == "true" || word == "false";
    plain.then_some(word)
}

/// Every quoted text in a list such as `enum('new','it''s')`.
#[must_use]
pub fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\'') {
        let Some((value, after)) = literal(&rest[at..]) else { break };
        found.push(value);
        rest = after;
    }
    found
}

/// The values that a check constraint admits, if it only lists them: `status in ('0', '1')`, also as the server writes it.
/// Anything else that it may say is not understood, and the list is empty.
#[must_use]
pub fn listed(check: &str) -> Vec<String> {
    let texts = literals(check);
    let code = without_literals(check).to_lowercase();
    let words: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let lists = words.iter().any(|word| ["in", "any", "or"].contains(word));
    let more = ["not", "and", "like", "between", "length", "char_length", "is", "null", "regexp", "glob"];
    if !lists || code.contains(['<', '>', '~', '!']) || words.iter().any(|word| more.contains(word)) {
        return Vec::new();
    }
    if !texts.is_empty() {
        return texts;
    }
    words.into_iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned).collect()
}

/// The conditions of the check constraints in a statement that creates a table.
#[must_use]
pub fn checks_in(create: &str) -> Vec<&str> {
    let lower = create.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = lower[at..].find("check") {
        at += next + "check".len();
        let rest = create[at..].trim_start();
        if rest.starts_with('(') {
            let start = create.len() - rest.len();
            let end = closing(rest).map_or(create.len(), |length| start + length);
            found.push(&create[start..end]);
        }
    }
    found
}

/// The length of what the first parenthesis holds, with both.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0_usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// A text in these quotes at the beginning, and what follows it; a doubled quote stands for one.
#[must_use]
pub fn unquoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix(quote)?;
    let mut value = String::new();
    loop {
        let (before, after) = rest.split_once(quote)?;
        value.push_str(before);
        match after.strip_prefix(quote) {
            Some(more) => {
                value.push(quote);
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}

/// The same in a server's quotes of texts.
fn literal(text: &str) -> Option<(String, &str)> {
    unquoted(text, '\'')
}

fn without_literals(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\'') {
        code.push_str(&rest[..at]);
        rest = literal(&rest[at..]).map_or("", |(_, after)| after);
    }
    code + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_defaults_are_read_and_expressions_are_not() {
        for (text, value) in [
            ("'0'::bpchar", Some("0")),
            ("'it''s'", Some("it's")),
            ("('new')", Some("new")),
            ("0", Some("0")),
            ("false", Some("false")),
            ("'new'::\"Order Status\"", Some("new")),
            ("nextval('a_seq'::regclass)", None),
            ("now()", None),
            ("NULL", None),
            ("'a' || 'b'", None),
        ] {
            assert_eq!(plain_default(text).as_deref(), value, "{text}");
        }
    }

    #[test]
    fn a_constraint_that_lists_values_is_read_and_another_is_not() {
        let postgres =
            "CHECK (((status)::text = ANY ((ARRAY['new'::character varying, 'it''s'::character varying])::text[])))";
        assert_eq!(listed(postgres), ["new", "it's"]);
        assert_eq!(listed("`status` in ('0','1','2')"), ["0", "1", "2"]);
        assert_eq!(listed("(status IN (0, 1, 9))"), ["0", "1", "9"]);
        assert_eq!(listed("status = 'a' or status = 'b'"), ["a", "b"]);
        for other in
            ["status <> 'x'", "status in ('a') and other = 'b'", "length(status) in (1, 2)", "status not in ('a')"]
        {
            assert!(listed(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn constraints_are_found_in_the_statement_that_made_the_table() {
        let create = "create table t (a text check (a in ('x)', 'y')), b int, CHECK(b in (1, 2)))";
        assert_eq!(checks_in(create), ["(a in ('x)', 'y'))", "(b in (1, 2))"]);
    }
}
