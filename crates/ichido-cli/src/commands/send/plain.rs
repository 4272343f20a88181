//! `ichido send --sql`: the statements with which another program, on another driver or in another language, sends to a queue in its own
//! transaction. The store writes them; as text they are SQL with comments.

use ichido::{
    NewMessage,
    inspect::{SendParameter, SendSql, SendStatement},
};
use serde_json::value::RawValue;

use crate::{args::Send, config::Config, failure::Failure, lanes::routes, open::Backend, output};

pub(super) async fn print<S: Backend>(send: Send, store: S, config: &Config) -> Result<u8, Failure> {
    let of = |error| Failure::of::<S>(&error);
    let mut message = NewMessage::new(send.message.clone().unwrap_or_default());
    if send.level.is_none() && send.message.is_none() && config.lanes.contains_key(&send.queue) {
        let text = format!("`{}` is a lane set: name the level with --level; each has a queue of its own", send.queue);
        return Err(Failure::usage(text));
    }
    message.level = send.level;
    let queue = routes(config).queue(&send.queue, &message).map_err(of)?;
    let columns = send.message.as_deref().map(columns).transpose()?.unwrap_or_default();
    let plain = store.send_sql(&queue, &columns).await.map_err(of)?;
    if send.json {
        output::json(&plain)?;
    } else {
        output::print(&text(&plain))?;
    }
    Ok(0)
}

/// The fields of a message; none if it is something else.
fn columns(message: &str) -> Result<Vec<String>, Failure> {
    let refused = |error| Failure::usage(format!("not JSON: {error}"));
    serde_json::from_str::<&RawValue>(message).map_err(refused)?;
    let fields: serde_json::Map<_, _> = serde_json::from_str(message).unwrap_or_default();
    Ok(fields.into_iter().map(|(name, _)| name).collect())
}

fn text(plain: &SendSql) -> String {
    let SendSql { queue, kind, database, schema, .. } = plain;
    let mut lines = vec![
        format!(
            "-- Sends to the {kind} queue {queue}, on {database}. Run all of it, in this order, in your transaction."
        ),
        format!("-- Valid for versions {} and {} of ichido's tables (`ichido --version`).", schema.from, schema.to),
    ];
    lines.extend(plain.parameters.iter().map(parameter));
    lines.extend(plain.statements.iter().flat_map(statement));
    if !plain.after_commit.is_empty() {
        lines.push("\n-- After COMMIT, if idle workers shall look at once and not at their next poll:".into());
        lines.extend(plain.after_commit.iter().map(|after| format!("{};", after.sql)));
    }
    lines.join("\n")
}

fn parameter(parameter: &SendParameter) -> String {
    let SendParameter { name, kind, required, meaning, .. } = parameter;
    let null = if *required || *kind == "column" { "" } else { " or null" };
    format!("--   {name} ({kind}{null}): {meaning}")
}

fn statement(statement: &SendStatement) -> [String; 2] {
    let places = match statement.parameters.join(", ") {
        none if none.is_empty() => "without parameters".into(),
        places => format!("with {places}"),
    };
    [format!("\n-- {places}"), format!("{};", statement.sql)]
}
