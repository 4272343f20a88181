//! How an error and its causes are written: each cause once, on one line.

use std::error::Error as StdError;

use super::{Error, markers::inside};

/// An error and its causes, also those that have the text of the one before and are therefore not its source.
pub(crate) fn chain<'a>(cause: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(cause), |link| behind(*link))
}

fn behind<'a>(link: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match (link.downcast_ref(), inside(link)) {
        (Some(Error::Failed(cause)), _) | (_, Some(cause)) => Some(cause.as_ref()),
        _ => link.source(),
    }
}

/// An error and its sources on one line; many errors repeat their source's text, which is then left out.
pub(super) fn in_full(error: &(dyn StdError + 'static)) -> String {
    let mut written = String::new();
    for link in chain(error) {
        let text = of(link, &written);
        if !written.contains(&text) {
            if !written.is_empty() {
                written.push_str(": ");
            }
            written.push_str(&text);
        }
    }
    written
}

/// The text of one error, after what is written already.
pub(super) fn of(link: &(dyn StdError + 'static), written: &str) -> String {
    without_source_line(link.to_string(), written)
}

/// What sqlx writes before an error of the server.
const FROM_SERVER: &str = "error returned from database: ";

/// Did the server itself say it?
pub(super) fn is_from_server(error: &(dyn StdError + 'static)) -> bool {
    error.to_string().starts_with(FROM_SERVER)
}

/// PostgreSQL tells with an error on which line of its own source it was raised, and the driver appends that to the text, where it
/// looks like a line of the statement. (MySQL's texts begin with their number, and name a line of the statement.)
fn without_source_line(text: String, written: &str) -> String {
    let said = text.strip_prefix(FROM_SERVER).or_else(|| written.contains(FROM_SERVER).then_some(&*text));
    let Some(said) = said.filter(|said| !said.starts_with(|first: char| first.is_ascii_digit())) else { return text };
    match said.rsplit_once(" at line ") {
        Some((_, line)) if line.bytes().all(|digit| digit.is_ascii_digit()) => {
            text[..text.len() - " at line ".len() - line.len()].to_owned()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::without_source_line;

    #[test]
    fn a_line_of_the_servers_source_is_left_out_and_one_of_the_statement_stays() {
        let said = |text: &str| without_source_line(text.to_owned(), "");
        assert_eq!(
            said("error returned from database: no such table at line 639"),
            "error returned from database: no such table"
        );
        assert_eq!(
            without_source_line("no such table at line 639".into(), "error returned from database: no such table"),
            "no such table"
        );
        for kept in [
            "error returned from database: 1064 (42000): syntax error near 'x' at line 1",
            "error returned from database: look at line by line",
            "missing comma at line 3",
        ] {
            assert_eq!(said(kept), kept);
        }
    }
}
