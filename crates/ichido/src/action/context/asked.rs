//! What an action may ask its context: about the message in hand, about the request and about the process.

use crate::{Context, Delivery, Error, Headers, Masks, Message, MessageId, Store, error::Result, store::ProcessId};

impl<S: Store> Context<S> {
    /// The delivery in hand; the first of them where there are several.
    ///
    /// # Errors
    /// [`Error::Setup`] outside `read`, where there is none.
    pub fn delivery(&self) -> Result<&Delivery> {
        self.batch
            .in_hand()
            .first()
            .ok_or_else(|| Error::Setup("no current message: this handler must come after `read`".into()))
    }

    /// All deliveries in hand: one, unless a [`BatchAction`](crate::BatchAction) or a handler before `each` asks.
    #[must_use]
    pub fn deliveries(&self) -> &[Delivery] {
        self.batch.in_hand()
    }

    /// The message in hand.
    ///
    /// # Errors
    /// [`Error::Setup`] outside `read`, where there is none.
    pub fn message(&self) -> Result<&Message> {
        Ok(&self.delivery()?.message)
    }

    /// The id of the message in hand, the same in every attempt: the idempotency key for effects elsewhere.
    ///
    /// # Errors
    /// [`Error::Setup`] outside `read`, where there is none.
    pub fn message_id(&self) -> Result<MessageId> {
        Ok(self.message()?.id())
    }

    /// Which run of the message this is, starting with 1; 0 outside `read`.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.batch.in_hand().first().map_or(0, |delivery| delivery.attempt)
    }

    /// The headers of the message in hand.
    ///
    /// # Errors
    /// [`Error::Setup`] outside `read`, where there is none.
    pub fn headers(&self) -> Result<&Headers> {
        Ok(&self.message()?.headers)
    }

    /// The number of this execution in its process, starting with 1; 0 before anything was read.
    #[must_use]
    pub fn execution_number(&self) -> u64 {
        self.batch.in_hand().first().map_or(self.execution, |delivery| delivery.execution)
    }

    /// The id of this execution: one per message and run, in no other process and on every log line about it. Empty before
    /// anything was read.
    #[must_use]
    pub fn execution_id(&self) -> String {
        match (self.execution_number(), self.process_id()) {
            (0, _) => String::new(),
            (number, Some(process)) => format!("{}-{number}", process.short()),
            (number, None) => number.to_string(),
        }
    }

    /// The names whose values are masked.
    #[must_use]
    pub fn masks(&self) -> &Masks {
        &self.journal.masks
    }

    /// A text about the messages in hand, without the values that must not be seen ([`Process::mask`](crate::Process::mask)).
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let messages = self.batch.window().iter().map(|delivery| &delivery.message);
        let masks = &self.journal.masks;
        messages.fold(text.to_owned(), |text, message| masks.text(&text, &message.payload, &message.headers))
    }

    /// The request id that this process or pool serves.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.identity.request_id
    }

    /// The user on whose behalf the process runs; empty if not given.
    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.identity.user_id
    }

    /// The language of the people who read the results.
    #[must_use]
    pub fn language(&self) -> &str {
        &self.identity.language
    }

    /// The time zone of the people who read the results.
    #[must_use]
    pub fn time_zone(&self) -> &str {
        &self.identity.time_zone
    }

    /// The argument with this name from the command line, after `--`: `-- --name value`.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.request.arguments.get(name).map(String::as_str)
    }

    /// The id under which this process claims; none before `dispatch`.
    #[must_use]
    pub fn process_id(&self) -> Option<ProcessId> {
        self.life.as_ref().map(|life| life.id())
    }
}
