//! Lane sets and their levels.

use std::time::Duration;

use ichido::lanes::Policy;

use super::super::QueueKind;
use super::{accepted, refused, with_table};

fn lanes(lines: &str, levels: &str) -> String {
    format!("[lanes.mail]\n{lines}\nlevels = [{levels}]\n")
}

const TWO: &str = "{ level = \"member\", queue = \"m\" }, { level = \"free\", queue = \"f\" }";

#[test]
fn every_key_of_a_lane_set_is_read() {
    let config = accepted(
        r#"
[lanes.mail]
policy = "weighted"
look = 0
borrow = true
age_after = "5m"
level_by = { field = "plan", map = { gold = "member", none = "free" }, default = "free" }
auto = true
[[lanes.mail.levels]]
level = "member"
queue = "m"
weight = 3
reserve = 2
concurrency = 8
target = "1s"
weight_range = [1, 5]
reserve_range = [0, 3]
[[lanes.mail.levels]]
level = "free"
queue = "f"
[actions.Mail]
from = "mail"
"#,
    );
    let lanes = &config.lanes["mail"];
    let set = &lanes.set;
    assert_eq!(&*set.name, "mail");
    assert_eq!((set.policy, set.look, lanes.borrow), (Policy::Weighted, Duration::ZERO, true));
    assert_eq!((lanes.auto, set.age_after), (true, Some(Duration::from_mins(5))));
    assert_eq!(set.level_by.as_ref().map(|by| by.map["gold"].as_str()), Some("member"));
    let (member, free) = (&set.levels[0], &set.levels[1]);
    assert_eq!((member.weight, member.reserve, member.concurrency), (3, 2, Some(8)));
    let (hoped, unsaid) = (&lanes.tuning[0], &lanes.tuning[1]);
    assert_eq!((hoped.weight_range.clone(), hoped.reserve_range.clone()), (Some(1..=5), Some(0..=3)));
    assert_eq!((free.weight, free.reserve, free.concurrency, unsaid.target), (1, 0, None, None));
}

#[test]
fn an_undeclared_queue_of_a_lane_is_a_managed_one() {
    let config = accepted(&lanes("policy = \"strict\"", TWO));
    assert_eq!(config.queues["m"].kind, QueueKind::Managed);
    assert_eq!(config.queues["f"].payload_limit, 256 * 1024);
    assert_eq!(config.lanes["mail"].set.look, Duration::from_millis(20));
}

#[test]
fn a_lane_set_needs_a_policy_and_two_to_sixteen_levels() {
    refused(&lanes("", TWO), &["ichido.toml:1: lanes.mail.policy: missing"]);
    refused("[lanes.mail]\npolicy = \"strict\"", &["lanes.mail.levels: missing"]);
    refused(&lanes("policy = \"strickt\"", TWO), &["did you mean `strict`?", "\"weighted\""]);
    let one = "{ level = \"a\", queue = \"a\" }";
    refused(&lanes("policy = \"strict\"", one), &["lanes.mail.levels: found 1 levels", "2 to 16"]);
    let level = |n| format!("{{ level = \"l{n}\", queue = \"q{n}\" }}");
    let levels = |n| (0..n).map(level).collect::<Vec<_>>().join(", ");
    accepted(&lanes("policy = \"strict\"", &levels(16)));
    refused(&lanes("policy = \"strict\"", &levels(17)), &["found 17 levels, expected 2 to 16"]);
}

#[test]
fn a_dedicated_level_needs_its_concurrency() {
    let text = lanes("policy = \"dedicated\"", TWO);
    refused(&text, &["lanes.mail.levels[0].concurrency: missing", "dedicated"]);
    let levels = TWO.replace(" }", ", concurrency = 2 }");
    accepted(&lanes("policy = \"dedicated\"", &levels));
}

#[test]
fn the_reserves_must_leave_a_slot() {
    let text = |reserve: u32, rest: &str| {
        let levels = TWO.replace(" }", &format!(", reserve = {reserve}{rest} }}"));
        lanes("policy = \"strict\"", &levels)
    };
    let action = "[actions.A]\nfrom = \"mail\"\nconcurrency = 4";
    accepted(&format!("{}{action}", text(1, "")));
    refused(
        &format!("{}{action}", text(2, "")),
        &["ichido.toml:6: actions.A.concurrency", "`mail` reserve 4 of 4 slots"],
    );
    let dedicated = text(2, ", concurrency = 3").replace("strict", "dedicated");
    accepted(&format!("{dedicated}{action}"));
    let dedicated = text(3, ", concurrency = 3").replace("strict", "dedicated");
    refused(&format!("{dedicated}{action}"), &["reserve 6 of 6 slots"]);
}

#[test]
fn waiting_times_are_refused_where_nothing_says_when_a_row_was_sent() {
    let levels = "{ level = \"a\", queue = \"q\", target = \"1s\" }, { level = \"b\", queue = \"r\" }";
    let target = lanes("policy = \"strict\"", levels);
    let age = lanes("policy = \"strict\"\nage_after = \"5m\"", &levels.replace(", target = \"1s\"", ""));
    for (text, key) in [(&target, "lanes.mail.levels[0].target"), (&age, "lanes.mail.age_after")] {
        refused(&format!("{}{text}", with_table("")), &[key, "`q` has no `sent_at`"]);
        accepted(&format!("{}{text}", with_table("sent_at = \"created\"")));
        accepted(text);
    }
}

#[test]
fn a_lane_set_must_not_share_its_name_with_a_queue() {
    let set = lanes("policy = \"strict\"", TWO);
    refused(&format!("[queues.mail]\n{set}"), &["ichido.toml:2: lanes.mail: a queue is also named"]);
    let own = set.replace("\"m\"", "\"mail\"");
    refused(&own, &["lanes.mail: a queue is also named `mail`"]);
}

#[test]
fn levels_and_their_queues_are_distinct() {
    let set = lanes("policy = \"strict\"", TWO);
    refused(&set.replace("\"free\"", "\"member\""), &["lanes.mail.levels: \"member\" is used twice"]);
    refused(&set.replace("\"f\"", "\"m\""), &["lanes.mail.levels: \"m\" is used twice"]);
}

#[test]
fn level_by_names_only_levels_that_exist() {
    let text = |map: &str, default: &str| {
        let by = format!("level_by = {{ field = \"plan\", map = {{ gold = {map:?} }}, default = {default:?} }}");
        lanes(&format!("policy = \"strict\"\n{by}"), TWO)
    };
    accepted(&text("member", "free"));
    refused(
        &text("membre", "free"),
        &["lanes.mail.level_by.map.gold: no level \"membre\"; did you mean `member`?", "known: member, free"],
    );
    refused(&text("member", "paid"), &["lanes.mail.level_by.default: no level \"paid\""]);
}

#[test]
fn ranges_are_two_numbers_in_order() {
    for range in ["[5, 1]", "[1]", "[1, 2, 3]", "[]"] {
        let levels = TWO.replacen(" }", &format!(", weight_range = {range} }}"), 1);
        refused(
            &lanes("policy = \"weighted\"", &levels),
            &["lanes.mail.levels[0].weight_range: expected two numbers, the smaller first"],
        );
    }
    let levels = TWO.replacen(" }", ", weight_range = [0, 5] }", 1);
    refused(&lanes("policy = \"weighted\"", &levels), &["weight_range[0]: found 0"]);
}

#[test]
fn what_counts_workers_needs_workers_with_one_message() {
    let action = "[actions.A]\nfrom = \"mail\"\ncommit_interval = 5";
    accepted(&format!("{}{action}", lanes("policy = \"weighted\"", TWO)));
    for limit in ["reserve = 1", "concurrency = 2"] {
        let levels = TWO.replacen(" }", &format!(", {limit} }}"), 1);
        let text = format!("{}{action}", lanes("policy = \"weighted\"", &levels));
        refused(&text, &["actions.A.commit_interval", "from all levels at once", "`mail`"]);
    }
}

#[test]
fn aging_is_refused_where_levels_do_not_compete() {
    let levels = TWO.replace(" }", ", concurrency = 2 }");
    let text = |borrow: bool| lanes(&format!("policy = \"dedicated\"\nage_after = \"1m\"\nborrow = {borrow}"), &levels);
    refused(&text(false), &["lanes.mail.age_after: has no effect", "`borrow = true`"]);
    assert_eq!(accepted(&text(true)).lanes["mail"].set.policy, Policy::Dedicated { borrow: true });
}
