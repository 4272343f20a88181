//! The queues and lane sets of the configuration for the settings page, in lines like those of `in_force`, which a process writes to its log
//! and which has queues at brokers already.

use ichido::{
    Table,
    by_hand::LaneTargets,
    lanes::{Level, Policy},
    stat::spell,
};

use crate::{
    config::{Config, QueueKind},
    lanes::targets,
};

/// A line for each.
pub(super) fn lines(config: &Config) -> Vec<String> {
    let queues = config.queues.iter().filter_map(|(name, queue)| match &queue.kind {
        QueueKind::Managed => Some(format!("queues.{name}=(managed, payload limit {})", queue.payload_limit)),
        QueueKind::Table(table) => Some(format!("queues.{name}=({})", of_table(table))),
        QueueKind::RabbitMq(_) | QueueKind::Sqs(_) => None,
    });
    queues.chain(targets(config).iter().map(of_lanes)).collect()
}

fn of_table(table: &Table) -> String {
    let schema = table.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default();
    let status = &table.status;
    let done = status.done.as_deref().map_or_else(|| ", deleted when done".to_owned(), |done| format!(", done {done}"));
    let failed = status.failed.as_deref().map(|failed| format!(", failed {failed}")).unwrap_or_default();
    let column = |name: &str, column: &Option<String>| {
        column.as_ref().map(|column| format!(", {name} {column}")).unwrap_or_default()
    };
    let more = column("sent at", &table.sent_at) + &column("group by", &table.group_by);
    let (name, owner) = (&table.name, &table.owner);
    format!("table {schema}{name}, status {}: new {}{done}{failed}, owner {owner}{more}", status.column, status.new)
}

fn of_lanes(LaneTargets { set, targets }: &LaneTargets) -> String {
    let policy = match set.policy {
        Policy::Strict => "strict",
        Policy::Weighted => "weighted",
        Policy::Dedicated { borrow: false } => "dedicated",
        Policy::Dedicated { borrow: true } => "dedicated, borrow",
    };
    let level = |(level, target): (&Level, &Option<std::time::Duration>)| {
        let target = target.map(|target| format!(", target {}", spell(target))).unwrap_or_default();
        let slots = level.concurrency.map(|slots| format!(", concurrency {slots}")).unwrap_or_default();
        let (name, queue) = (&level.name, &level.queue);
        format!("; {name}: queue {queue}, weight {}, reserve {}{slots}{target}", level.weight, level.reserve)
    };
    let levels: String = set.levels.iter().zip(targets).map(level).collect();
    format!("lanes.{}=({policy}{levels})", set.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_and_lane_sets_are_told() {
        let text = "[database]\nurl = \"sqlite://x.db\"\n\
            [queues.orders]\ntable = \"received_order\"\nstatus = { column = \"status\", new = \"0\", done = \"1\" }\nowner = \"process_id\"\n\
            [queues.mail]\n[lanes.m]\npolicy = \"weighted\"\n\
            levels = [{ level = \"vip\", queue = \"mail\", weight = 6, target = \"2s\" }, { level = \"free\", queue = \"rest\" }]\n";
        let config = Config::parse(text, "ichido.toml", &|_| None).expect("a configuration");
        let told = lines(&config).join("\n");
        for part in [
            "queues.orders=(table received_order, status status: new 0, done 1, owner process_id)",
            "queues.mail=(managed, payload limit 262144)",
            "lanes.m=(weighted; vip: queue mail, weight 6, reserve 0, target 2.0 s; free: queue rest, weight 1, reserve 0)",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
