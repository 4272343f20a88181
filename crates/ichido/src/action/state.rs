//! What the application gives to its actions and handlers: one value per type, there from the start of the process to its end. A pool
//! declares what its action asks for, so that what is missing is found at start.

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    sync::Arc,
};

use crate::{Error, error::Result};

/// The values of a process, by their types.
#[derive(Clone, Default)]
pub(crate) struct State(BTreeMap<TypeId, Value>);

#[derive(Clone)]
struct Value {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl State {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Value { name: type_name::<T>(), value: Arc::new(value) });
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let found = self.0.get(&TypeId::of::<T>()).and_then(|found| found.value.clone().downcast().ok());
        found.ok_or_else(|| self.missing(type_name::<T>(), "an action or a handler"))
    }

    /// What is there is named too: an `Arc<Mailer>` is no `Mailer`.
    fn missing(&self, name: &str, who: &str) -> Error {
        let mut known: Vec<_> = self.0.values().map(|value| format!("`{}`", value.name)).collect();
        known.sort_unstable();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::Setup(format!(
            "{who} needs state of the type `{name}`; add it with `.state(…)` to the `Process` or the `Program` (there is: {known})"
        ))
    }
}

/// A type that an action asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    id: TypeId,
    name: &'static str,
}

impl Need {
    pub(crate) fn of<T: 'static>() -> Self {
        Need { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// Is it there?
    pub(crate) fn check(self, state: &State, action: &str) -> Result<()> {
        if state.0.contains_key(&self.id) {
            Ok(())
        } else {
            Err(state.missing(self.name, &format!("action `{action}`")))
        }
    }
}
