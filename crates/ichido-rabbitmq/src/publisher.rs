//! Sends messages and tells the fate of each: confirmed by the broker, refused, or unknown. The relay and the source call it.
//! It keeps no message of its own: whoever calls holds them, waits, and is told in time. So memory is bounded when the broker
//! is away or takes no messages.
//!
//! Each call has a channel to itself. lapin hands a message that the broker returned to whichever confirm comes next, which may
//! be another message's; on a channel of its own it is one of the same call, and is found by what it is.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lapin::{
    Channel, Confirmation, Connection,
    message::BasicReturnMessage,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until, timeout_at},
};

use ichido::broker::Unpublished;

use crate::{
    Envelope, Server, State,
    error::{self, Error},
    link::{Link, Pace},
};

/// A message without a queue comes back, and is not lost with a confirm.
const MANDATORY: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// What a publisher may do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PublisherSettings {
    /// After this time the fate of a message is told, whatever it is. 30 s.
    pub publish_deadline: Duration,
    /// So many messages of one call wait for their confirms at a time. 256.
    pub window: usize,
    /// So many calls send at a time; more wait. 16.
    pub calls: usize,
}

impl Default for PublisherSettings {
    fn default() -> Self {
        Self { publish_deadline: Duration::from_secs(30), window: 256, calls: 16 }
    }
}

/// Publishes, over one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Link,
    settings: PublisherSettings,
    turns: Semaphore,
    idle: Mutex<Vec<ConfirmChannel>>,
    /// A channel is idle again: who waits for one may have it.
    freed: Notify,
    /// Why no channel is to be had, since that was told.
    refused: Mutex<Option<String>>,
}

/// A channel in confirm mode, and the connection that it belongs to.
#[derive(Debug)]
struct ConfirmChannel {
    channel: Channel,
    connection: Arc<Connection>,
}

type Fate = Result<(), Unpublished>;

impl Publisher {
    /// A publisher for a broker; it connects when there is something to send.
    #[must_use]
    pub fn new(broker: Server, settings: PublisherSettings) -> Self {
        let turns = Semaphore::new(settings.calls.max(1));
        let link = Link::new(broker, "ichido publisher");
        let (idle, freed, refused) = (Mutex::default(), Notify::new(), Mutex::default());
        Self(Arc::new(Inner { link, settings, turns, idle, freed, refused }))
    }

    /// How its connection is: also whether the broker takes messages.
    #[must_use]
    pub fn state(&self) -> State {
        self.0.link.state()
    }

    pub(crate) async fn publish_one(&self, message: Envelope) -> Fate {
        self.publish(&[message]).await.pop().expect("one fate for one message")
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.0.settings.publish_deadline
    }

    /// Publishes messages in their order and tells the fate of each, in the same order. Those that are confirmed are in each
    /// queue in the order in which they were given.
    ///
    /// If it is dropped before its end, the fate of the messages is unknown.
    pub async fn publish(&self, messages: &[Envelope]) -> Vec<Fate> {
        let deadline = Instant::now() + self.0.settings.publish_deadline;
        let mut fates = Vec::with_capacity(messages.len());
        let Ok(_turn) = timeout_at(deadline, self.0.turns.acquire()).await else {
            return unsent(messages, "the deadline has passed while other messages were being sent");
        };
        for window in messages.chunks(self.0.settings.window.max(1)) {
            let sent = self.0.send(window, deadline).await;
            // Nothing may overtake what could not be sent.
            let stop = sent.iter().any(|fate| matches!(fate, Err(Unpublished::Unsent(_) | Unpublished::Unknown(_))));
            fates.extend(sent);
            if stop {
                break;
            }
        }
        fates.extend(unsent(&messages[fates.len()..], "an earlier message could not be sent"));
        fates
    }
}

impl Inner {
    async fn send(&self, window: &[Envelope], deadline: Instant) -> Vec<Fate> {
        let lane = match timeout_at(deadline, self.channel()).await {
            Ok(Ok(lane)) => lane,
            Ok(Err(error)) => return unsent(window, &error.to_string()),
            Err(_) => {
                self.link.doubt(None);
                return unsent(window, &self.why_waiting());
            }
        };
        let sent = Window::send(&lane.channel, window, deadline).await;
        if sent.all_taken() {
            self.link.worked();
            self.idle().push(lane);
            self.freed.notify_one();
        } else if sent.is_late() {
            // The broker may have much to do; a connection that says nothing at all would say nothing to the next call either.
            self.link.doubt(Some(&lane.connection));
        }
        match sent.closed_by_refusal() {
            Some(error) if window.len() == 1 => vec![Err(refusal(error))],
            // One message has closed the channel on all of them: each alone tells which.
            Some(_) => self.send_each(window, deadline).await,
            None => sent.fates(window),
        }
    }

    async fn send_each(&self, window: &[Envelope], deadline: Instant) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(window.len());
        for message in window {
            fates.extend(Box::pin(self.send(std::slice::from_ref(message), deadline)).await);
        }
        fates
    }

    /// A channel on a connection on which the broker takes messages. A broker that refuses one is asked again later each time, or when
    /// another call is done with its own.
    async fn channel(&self) -> Result<ConfirmChannel, Error> {
        let mut pace = Pace::default();
        loop {
            let connection = match self.link.connection().await {
                Ok(connection) => connection,
                Err(error) if error.is_transient() => continue,
                Err(error) => return Err(error),
            };
            self.link.unblocked().await;
            if let Some(lane) = self.idle_on(&connection) {
                return Ok(lane);
            }
            match confirming(&connection).await {
                Ok(channel) => {
                    *self.refused() = None;
                    return Ok(ConfirmChannel { channel, connection });
                }
                Err(error) => self.note_refused(&error),
            }
            pace.failed();
            tokio::select! {
                () = sleep_until(pace.next.into()) => {}
                () = self.freed.notified() => {}
            }
        }
    }

    fn note_refused(&self, error: &lapin::Error) {
        let why = format!("cannot open a channel: {error}");
        // Once is enough: it is tried again all the time.
        if self.refused().replace(why).is_none() {
            tracing::warn!(%error, "ichido publisher: cannot open a channel; retrying");
        } else {
            tracing::debug!(%error, "ichido publisher: still cannot open a channel");
        }
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle_on(&self, connection: &Arc<Connection>) -> Option<ConfirmChannel> {
        let mut idle = self.idle();
        idle.retain(|lane| Arc::ptr_eq(&lane.connection, connection) && lane.channel.status().connected());
        idle.pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<ConfirmChannel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why_waiting(&self) -> String {
        match self.link.state() {
            State::Blocked(reason) => format!("the broker accepts no messages: {reason}"),
            State::Away(reason) => reason,
            State::Connected | State::Idle => {
                self.refused().clone().unwrap_or_else(|| "the deadline has passed".to_owned())
            }
        }
    }
}

async fn confirming(connection: &Connection) -> lapin::Result<Channel> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

/// What was sent together, and what came back.
struct Window {
    answers: Vec<Answer>,
    returned: Vec<BasicReturnMessage>,
}

enum Answer {
    Ack,
    Nack,
    Lost(lapin::Error),
    Late,
}

impl Window {
    async fn send(channel: &Channel, messages: &[Envelope], deadline: Instant) -> Self {
        let mut waiting = Vec::with_capacity(messages.len());
        for message in messages {
            let (exchange, key) = (message.exchange.clone(), message.routing_key.clone());
            let sent = channel.basic_publish(exchange, key, MANDATORY, &message.payload, message.properties.clone());
            waiting.push(timeout_at(deadline, sent).await);
        }
        let mut window = Self { answers: Vec::with_capacity(messages.len()), returned: Vec::new() };
        for sent in waiting {
            let answer = match sent {
                Ok(Ok(confirm)) => {
                    timeout_at(deadline, confirm).await.unwrap_or_else(|_| Ok(Confirmation::NotRequested))
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Ok(Confirmation::NotRequested),
            };
            window.take(answer);
        }
        window
    }

    fn take(&mut self, answer: lapin::Result<Confirmation>) {
        let (answer, returned) = match answer {
            Ok(Confirmation::Ack(returned)) => (Answer::Ack, returned),
            Ok(Confirmation::Nack(returned)) => (Answer::Nack, returned),
            Ok(Confirmation::NotRequested) => (Answer::Late, None),
            Err(error) => (Answer::Lost(error), None),
        };
        self.answers.push(answer);
        self.returned.extend(returned);
    }

    /// Is everything taken, so that the channel has nothing left to say about these messages? One that has refused a message
    /// may refuse for ever: RabbitMQ 3.10.8 looks for the leader of a quorum queue once per channel, and if that was a node
    /// that has just died, it says no to whatever is sent there.
    fn all_taken(&self) -> bool {
        self.answers.iter().all(|answer| matches!(answer, Answer::Ack))
    }

    /// Is there one whose fate the broker has not told in time?
    fn is_late(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Answer::Late))
    }

    /// What the broker said when it closed the channel because of one of the messages.
    fn closed_by_refusal(&self) -> Option<&lapin::Error> {
        self.answers.iter().find_map(|answer| match answer {
            Answer::Lost(error) if error::is_refusal(error) => Some(error),
            _ => None,
        })
    }

    fn fates(self, messages: &[Envelope]) -> Vec<Fate> {
        let mut returned = self.returned;
        let fate = |(message, answer): (&Envelope, Answer)| {
            if let Some(at) = returned.iter().position(|returned| is_same(returned, message)) {
                let returned = returned.swap_remove(at);
                let (reply, key) = (&returned.reply_text, message.routing_key.as_str());
                return Err(Unpublished::Unroutable(format!("{reply} ({:?}, {key:?})", message.exchange.as_str())));
            }
            match answer {
                Answer::Ack => Ok(()),
                Answer::Nack => Err(Unpublished::Refused(format!(
                    "a queue bound to {:?} rejected it",
                    message.routing_key.as_str()
                ))),
                Answer::Lost(error) => Err(Unpublished::Unknown(error.to_string())),
                Answer::Late => Err(Unpublished::Unknown("the deadline has passed".to_owned())),
            }
        };
        let mut fates: Vec<Fate> = messages.iter().zip(self.answers).map(fate).collect();
        if !returned.is_empty() {
            // One of them is not in a queue, and nobody can tell which.
            let unknown = || Err(Unpublished::Unknown("the broker returned a modified message".to_owned()));
            fates.iter_mut().filter(|fate| fate.is_ok()).for_each(|fate| *fate = unknown());
        }
        fates
    }
}

/// Two messages that are the same in all of this may be taken for each other: their fate is told once for each. Brokers may add to
/// the other properties on the way.
fn is_same(returned: &BasicReturnMessage, message: &Envelope) -> bool {
    let delivery = &returned.delivery;
    delivery.exchange == message.exchange
        && delivery.routing_key == message.routing_key
        && delivery.data == message.payload
        && delivery.properties.message_id() == message.properties.message_id()
}

/// What a closed channel says about the message that has closed it: 404 is an exchange that is not there.
fn refusal(error: &lapin::Error) -> Unpublished {
    match error::code(error) {
        Some(404) => Unpublished::Unroutable(error.to_string()),
        _ => Unpublished::Refused(error.to_string()),
    }
}

fn unsent(messages: &[Envelope], why: &str) -> Vec<Fate> {
    messages.iter().map(|_| Err(Unpublished::Unsent(why.to_owned()))).collect()
}
