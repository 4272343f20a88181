//! The word that was probably meant, for messages about names that do not exist.

/// A longer word is no typo of anything, and comparing it would cost memory by the square.
const LONGEST: usize = 256;

/// The known word nearest to this one, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let typed = word.to_lowercase();
    let allowed = (typed.chars().count() / 3).max(1);
    let distance = |candidate: &str| strsim::damerau_levenshtein(&typed, &candidate.to_lowercase());
    let near = known.into_iter().filter(|candidate| candidate.len() <= LONGEST);
    let near = near.map(|candidate| (distance(candidate), candidate)).filter(|(distance, _)| *distance <= allowed);
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// `; did you mean …?` for the end of a message, or nothing.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word_and_another_word_does_not() {
        let known = ["concurrency", "from", "retry"];
        assert_eq!(nearest("concurency", known), Some("concurrency"));
        assert_eq!(nearest("form", known), Some("from"));
        assert_eq!(nearest("Retry", known), Some("retry"));
        assert_eq!(nearest("isolation", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(1_000_000), known), None);
        assert_eq!(nearest("retry", []), None);
    }

    #[test]
    fn a_letter_less_two_that_changed_places_or_capitals_are_near() {
        let known = ["orders", "mail", "project"];
        assert_eq!(nearest("order", known), Some("orders"));
        assert_eq!(nearest("MAIL", known), Some("mail"));
        assert_eq!(nearest("proejct", known), Some("project"));
        assert_eq!(nearest("invoice", known), None);
    }

    #[test]
    fn a_suggestion_ends_a_message_or_says_nothing() {
        assert_eq!(suggestion("form", ["from"]), "; did you mean `from`?");
        assert_eq!(suggestion("isolation", ["from"]), "");
    }
}
