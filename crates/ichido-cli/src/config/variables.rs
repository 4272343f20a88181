//! Replaces `${VAR}` and `${VAR:-default}` in one string value. The document calls it after TOML
//! has been parsed, so that what a variable contains can never become a key.

/// Where variables come from: the process's environment, or what a test says it is.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text with its variables replaced, or `None` when it has none and stays as it is.
pub(super) fn replace(text: &str, environment: Environment) -> Result<Option<String>, String> {
    let mut replaced = String::new();
    let mut any = false;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, found) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            replaced.push_str(before);
            replaced.push_str("${");
            rest = &found[2..];
        } else {
            replaced.push_str(before);
            let Some((variable, after)) = found[2..].split_once('}') else {
                return Err("`${` has no closing `}`; write `$${` for a literal `${`".to_owned());
            };
            replaced.push_str(&value(variable, environment)?);
            rest = after;
        }
        any = true;
    }
    replaced.push_str(rest);
    Ok(any.then_some(replaced))
}

fn value(variable: &str, environment: Environment) -> Result<String, String> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    if !is_name(name) {
        return Err(format!(
            "`${{{}}}` is not a valid variable; write `${{NAME}}` or `${{NAME:-default}}`, \
             and `$${{` for a literal `${{`",
            variable.escape_debug()
        ));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(format!("the default of `${{{name}}}` contains another variable; write plain text"));
    }
    match (environment(name), default) {
        (Some(value), None) => Ok(value),
        // As in a shell, `:-` also stands in for a variable that is set and empty.
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err(format!("the environment variable {name} is not set; set it or write `${{{name}:-default}}`"))
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
