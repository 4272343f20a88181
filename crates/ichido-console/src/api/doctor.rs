//! The doctor: what is wrong with messages, and the safe action about it.

use axum::Json;
use ichido::by_hand::Examination;
use serde::Deserialize;

use super::{Answered, Body, messages::reason};
use crate::{
    access::{Admin, As, Read},
    fields::Fields,
};

pub(super) async fn examine(who: As<Read>, query: Fields) -> Answered<Examination> {
    query.only(&[])?;
    Ok(Json(who.look().examine().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    reason: Option<String>,
}

pub(super) async fn fix(who: As<Admin>, body: Body<Why>) -> Answered<Examination> {
    Ok(Json(who.act(reason(body.value.reason)?).fix().await?))
}
