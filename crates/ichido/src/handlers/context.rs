//! `context`: who asked for what, in which language and time zone, for the log and for actions.
//!
//! Scope: process. In: request id (the action's name if none was given), user id, language and time zone are put into the context.
//! Out and on error: nothing. It comes before `dispatch`, which registers the process under the request id. Options: `language`
//! and `time_zone`, which `-- --language ja --time-zone Asia/Tokyo` overrides; without either they are those of the environment
//! (`LC_ALL` or `LANG`, `TZ`), else `en` and `UTC`.

use std::sync::Arc;

use crate::{
    Context, Error, Handler, Next, Outcome, Store,
    error::Result,
    handlers::{About, Options, Scope},
};

/// Puts request id, user id, language and time zone into the context.
#[derive(Debug, Clone, Default)]
pub struct SetContext {
    language: Option<String>,
    time_zone: Option<String>,
}

impl SetContext {
    /// With this language, unless the command line says another.
    #[must_use]
    pub fn language(mut self, language: impl Into<String>) -> Self {
        self.language = Some(language.into());
        self
    }

    /// With this time zone, unless the command line says another.
    #[must_use]
    pub fn time_zone(mut self, time_zone: impl Into<String>) -> Self {
        self.time_zone = Some(time_zone.into());
        self
    }

    pub(crate) fn from_options(options: &mut Options) -> Self {
        SetContext { language: options.text("language"), time_zone: options.text("time_zone") }
    }
}

impl<S: Store> Handler<S> for SetContext {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let request = cx.request.clone();
        let request_id = request.request_id.as_ref().or(request.action.as_ref());
        cx.identity.request_id = request_id.map_or("", String::as_str).into();
        cx.identity.user_id = request.user_id.as_deref().unwrap_or_default().into();
        let said = |name: &str, option: &Option<String>| request.arguments.get(name).or(option.as_ref()).cloned();
        let language = said("language", &self.language).or_else(language_around);
        let time_zone = said("time-zone", &self.time_zone).or_else(time_zone_around);
        cx.identity.language = proper("language", language.as_deref().unwrap_or("en"))?;
        cx.identity.time_zone = proper("time zone", time_zone.as_deref().unwrap_or("UTC"))?;
        next.run(cx).await
    }

    fn about(&self, _: Scope) -> About {
        About::new("context", "request id, user id, … from the command line", "", "").only(Scope::Process)
    }
}

/// `ja_JP.UTF-8` is `ja-JP`; `C` is no language.
fn language_around() -> Option<String> {
    let locale = ["LC_ALL", "LANG"].into_iter().find_map(environment)?;
    let language = locale.split(['.', '@']).next().unwrap_or_default().replace('_', "-");
    Some(language).filter(|language| !matches!(language.as_str(), "" | "C" | "POSIX"))
}

fn time_zone_around() -> Option<String> {
    environment("TZ").map(|zone| zone.trim_start_matches(':').to_owned()).filter(|zone| !zone.is_empty())
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| is_name(value.split('@').next().unwrap_or_default()))
}

/// It goes into every log line.
fn proper(what: &str, text: &str) -> Result<Arc<str>> {
    if !is_name(text) {
        return Err(Error::Setup(format!("{text:?} is not a valid {what}; write one like \"ja\" or \"Asia/Tokyo\"")));
    }
    Ok(text.into())
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_/+:,.<>".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(allowed)
}
