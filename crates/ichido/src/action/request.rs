//! What was asked for, and by whom: the command line as handlers and actions see it, and the ids that the handler `context` makes
//! of it.

use std::{collections::BTreeMap, sync::Arc};

use crate::process::Paths;

/// What was asked for on the command line.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Request {
    /// The action to run; none: all of them.
    pub action: Option<String>,
    /// The request id; none: the action's name.
    pub request_id: Option<String>,
    /// The user on whose behalf the process runs.
    pub user_id: Option<String>,
    /// The whole path, before any rule; `action` and `request_id` are read from it again if the process has rules.
    pub path: Option<String>,
    /// Further arguments, by name: everything after `--` on the command line.
    pub arguments: BTreeMap<String, String>,
}

impl Request {
    /// Reads `ACTION/REQUEST_ID` or `ACTION`.
    #[must_use]
    pub fn path(path: &str) -> Self {
        let (action, request_id) = match path.split_once('/') {
            Some((action, id)) => (action, Some(id).filter(|id| !id.is_empty())),
            None => (path, None),
        };
        Request {
            action: Some(action.into()),
            request_id: request_id.map(Into::into),
            path: Some(path.into()),
            ..Request::default()
        }
    }

    /// With an argument for handlers and actions.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.insert(name.into(), value.into());
        self
    }

    /// Reads the path again, by these rules.
    pub(crate) fn resolve(&mut self, paths: &Paths, is_action: impl Fn(&str) -> bool) {
        if let Some(path) = &self.path {
            let (action, request_id) = paths.resolve(path, is_action);
            self.action = Some(action);
            self.request_id = request_id;
        }
    }

    /// On behalf of this user.
    #[must_use]
    pub fn user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }
}

/// Who runs what for whom: on every log line, and readable by actions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Identity {
    /// The request id, once `context` and `dispatch` have run.
    pub request_id: Arc<str>,
    /// The user on whose behalf the process runs.
    pub user_id: Arc<str>,
    /// The language of the people who read the results, such as `ja` or `pt-BR`.
    pub language: Arc<str>,
    /// Their time zone, such as `Asia/Tokyo`.
    pub time_zone: Arc<str>,
}

impl Default for Identity {
    fn default() -> Self {
        Identity { request_id: "".into(), user_id: "".into(), language: "en".into(), time_zone: "UTC".into() }
    }
}
