//! Finds the word that was probably meant. The reader asks for keys and values, the command line for
//! actions, tables and columns.

/// A longer word is no typo of anything, and comparing it would cost memory by the square.
const LONGEST: usize = 256;

/// The known word nearest to `word`, if one is near enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let typed = word.to_lowercase();
    let allowed = (typed.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(&typed, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn distance(typed: &str, candidate: &str) -> usize {
    strsim::damerau_levenshtein(typed, &candidate.to_lowercase())
}

/// `; did you mean …?` for the end of a message, or nothing.
pub(super) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
