//! What is guessed from which table.

use super::*;

fn column(default: Option<&str>, admits: &[&str]) -> Column {
    Column {
        name: "status".into(),
        kind: "char(1)".into(),
        holds: Holds::Text,
        nullable: true,
        generated: false,
        default: default.map(str::to_owned),
        admits: admits.iter().map(|&value| value.to_owned()).collect(),
        fits_owner: false,
    }
}

fn counts(values: &[(&str, u64)]) -> Counts {
    let values = values.iter().map(|(value, count)| (Some((*value).to_owned()), *count)).collect();
    Counts { rows: 1, all: true, values }
}

/// New, done and failed, a `?` behind what is not sure.
fn guessed(column: &Column, data: &[(&str, u64)]) -> String {
    let text = |guess: &Guess| format!("{}{}", guess.value, if guess.sure { "" } else { "?" });
    match values(column, &counts(data), &Given::default()) {
        Some(values) => {
            let failed = values.failed.as_ref().map_or("-".to_owned(), text);
            format!("{} {} {failed}", text(&values.new), text(&values.done))
        }
        None => "none".to_owned(),
    }
}

fn named(name: &str, column: Column) -> Column {
    Column { name: name.into(), ..column }
}

#[test]
fn digits_are_guessed_to_be_the_classic_code_and_never_sure() {
    let plain = column(None, &[]);
    assert_eq!(guessed(&plain, &[("0", 5), ("1", 9), ("2", 1)]), "0? 1? 2?");
    assert_eq!(guessed(&plain, &[("0", 5), ("1", 9), ("9", 1)]), "0? 1? 9?");
    assert_eq!(guessed(&plain, &[("0", 5), ("1", 9)]), "0? 1? 2?", "proposed where anything may be written");
    assert_eq!(guessed(&plain, &[("0", 5)]), "0? 1? 2?");
    assert_eq!(guessed(&column(Some("0"), &[]), &[]), "0? 1? 2?", "an empty table with a default");
    assert_eq!(guessed(&column(Some("0"), &["0", "1", "2"]), &[("0", 5), ("1", 9)]), "0? 1? 2?");
    assert_eq!(guessed(&plain, &[("0", 5), ("1", 1), ("2", 900)]), "0? 1? 2?", "1 may be: being processed");
    assert_eq!(guessed(&plain, &[("0", 5), ("A", 9)]), "0? A? -");
    assert_eq!(guessed(&plain, &[]), "none");
    assert_eq!(guessed(&plain, &[("3", 5), ("4", 5)]), "none");
}

#[test]
fn letters_are_never_sure_either() {
    let plain = column(None, &[]);
    assert_eq!(guessed(&plain, &[("N", 5), ("Y", 1)]), "N? Y? -", "Y and N of what?");
    assert_eq!(guessed(&plain, &[("N", 5), ("D", 1), ("E", 1)]), "N? D? E?", "D may be deleted");
    assert_eq!(guessed(&named("processed", plain.clone()), &[("N", 5), ("Y", 1)]), "N Y -");
}

#[test]
fn words_are_known_in_two_languages() {
    let plain = column(None, &[]);
    assert_eq!(guessed(&plain, &[("DONE", 5), ("NEW", 1), ("ERROR", 1), ("CANCELLED", 3)]), "NEW DONE ERROR");
    assert_eq!(guessed(&plain, &[("処理済", 5), ("未処理", 1)]), "未処理 処理済 -");
    assert_eq!(guessed(&plain, &[("CA", 5), ("NY", 1)]), "none");
}

#[test]
fn words_that_can_mean_something_else_are_marked() {
    let plain = column(None, &[]);
    assert_eq!(guessed(&plain, &[("open", 5), ("closed", 1)]), "open? closed? -");
    assert_eq!(guessed(&plain, &[("new", 5), ("done", 1), ("rejected", 1)]), "new done rejected?");
    assert_eq!(guessed(&column(Some("received"), &[]), &[("received", 5), ("processed", 1)]), "received processed -");
}

#[test]
fn a_table_of_which_no_row_is_done_is_marked() {
    assert_eq!(guessed(&column(None, &["new", "processing", "done", "failed"]), &[]), "new done? failed");
    assert_eq!(guessed(&column(None, &["new", "done"]), &[("new", 3)]), "new done? -");
    assert_eq!(guessed(&column(None, &["new", "done"]), &[("new", 3), ("done", 1)]), "new done -");
}

#[test]
fn a_value_that_nobody_knows_may_be_new_or_done() {
    let plain = column(None, &[]);
    assert_eq!(guessed(&plain, &[("new", 5), ("done", 1), ("foo", 1)]), "new? done? -");
    let nulls =
        Counts { values: vec![(None, 3), (Some("new".into()), 1), (Some("done".into()), 1)], rows: 5, all: true };
    assert!(!values(&plain, &nulls, &Given::default()).unwrap().new.sure);
}

#[test]
fn the_default_is_new_if_it_sounds_like_it() {
    assert_eq!(guessed(&column(Some("A"), &[]), &[("B", 5), ("A", 1)]), "A? B? -");
    assert_eq!(guessed(&column(Some("cart"), &[]), &[("cart", 5), ("complete", 1)]), "cart? complete -");
    assert_eq!(guessed(&column(Some("draft"), &[]), &[("draft", 5), ("queued", 1), ("sent", 1)]), "queued? sent -");
    assert_eq!(guessed(&column(Some("new"), &[]), &[("new", 5), ("pending", 1), ("sent", 1)]), "new? sent -");
    assert_eq!(guessed(&column(Some("done"), &[]), &[("new", 5), ("done", 3)]), "new? done -");
    assert_eq!(guessed(&column(Some("a"), &["a", "b"]), &[]), "a? b? -");
}

#[test]
fn a_flag_is_sure_if_its_name_says_what_it_means() {
    let flag = column(Some("false"), &["false", "true"]);
    let data = [("false", 1), ("true", 1)];
    assert_eq!(guessed(&flag, &data), "false? true? -", "a status that is true");
    assert_eq!(guessed(&named("is_processed", flag.clone()), &data), "false true -");
    assert_eq!(guessed(&named("processed", flag.clone()), &data[..1]), "false true? -", "no row is done yet");
    assert_eq!(guessed(&named("not_processed", flag.clone()), &data), "false? true? -");
    assert_eq!(guessed(&named("delete_flag", flag), &data), "false? true? -");
    assert_eq!(guessed(&named("processed", column(Some("true"), &["false", "true"])), &data), "false? true -");
    let number = named("processed", column(None, &["0", "1"]));
    assert_eq!(guessed(&number, &[("0", 1), ("1", 1)]), "0 1 -");
    assert_eq!(guessed(&number, &[("0", 1), ("1", 1), ("2", 1)]), "0? 1? 2?", "a tinyint(1) that holds more");
}

#[test]
fn a_flag_may_be_told_as_a_number_and_a_number_as_a_flag() {
    assert_eq!(as_held(&column(None, &["false", "true"]), "1"), "true");
    assert_eq!(as_held(&column(None, &["0", "1"]), "false"), "0");
    assert_eq!(as_held(&column(None, &["0", "1", "2"]), "false"), "false");
    assert_eq!(as_held(&column(None, &["false", "true"]), "x"), "x");
}

#[test]
fn several_words_for_one_thing_are_marked() {
    let both = [("pending", 5), ("new", 4), ("done", 1)];
    assert_eq!(guessed(&column(None, &[]), &both), "new? done -");
}

#[test]
fn what_is_given_is_taken_and_not_taken_twice() {
    let given = Given { new: Some("1".into()), done: Some("0".into()), failed: None };
    let values = values(&column(Some("0"), &[]), &counts(&[("0", 3), ("1", 2), ("9", 1)]), &given).unwrap();
    assert!(values.sure());
    assert_eq!((&*values.new.value, &*values.done.value), ("1", "0"));
    assert_eq!(values.failed, None, "what is not given is not written");
}

fn look(columns: &[(&str, bool)], keys: &[(&[&str], bool, bool)]) -> TableLook {
    let named = |(name, fits_owner): &(&str, bool)| Column {
        name: (*name).to_owned(),
        fits_owner: *fits_owner,
        ..column(None, &[])
    };
    let key = |(columns, primary, not_null): &(&[&str], bool, bool)| UniqueKey {
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        primary: *primary,
        not_null: *not_null,
    };
    TableLook {
        table: super::super::FoundTable { schema: None, name: "t".into(), id: "t".into(), unfit: None },
        columns: columns.iter().map(named).collect(),
        keys: keys.iter().map(key).collect(),
    }
}

#[test]
fn the_key_is_the_primary_one_or_the_shortest_that_cannot_be_null() {
    let all: [(&[&str], bool, bool); 4] =
        [(&["a", "b"], false, true), (&["c"], false, false), (&["b"], false, true), (&["x", "y", "z"], true, true)];
    assert_eq!(key(&look(&[], &all)).unwrap().columns, ["x", "y", "z"]);
    assert_eq!(key(&look(&[], &all[..3])).unwrap().columns, ["b"]);
    assert_eq!(key(&look(&[], &all[1..2])), None);
}

#[test]
fn the_status_is_what_sounds_most_like_it_and_the_owner_what_can_be_one() {
    let look = look(
        &[("status", false), ("payment_status", false), ("is_done", false), ("owner", true), ("process_id", true)],
        &[],
    );
    let names = |group: &[&Column]| group.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let groups: Vec<_> = statuses(&look, &["is_done".into()]).iter().map(|(_, group)| names(group)).collect();
    assert_eq!(groups, [["status"], ["payment_status"]]);
    assert_eq!(names(&owners(&look, &[], "status")), ["process_id", "owner"]);
    assert_eq!(names(&owners(&look, &["process_id".into()], "owner")), Vec::<String>::new());
}
