//! Reads the dead letters of a queue without taking them: for the doctor, and for what is discarded. SQS shows a message only by handing it out,
//! so a reading keeps all of them out of sight until it is closed, and then makes those visible again that nobody has deleted. A reading
//! that is cut off loses nothing: they are back after five minutes.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::types::MessageSystemAttributeName as System;

use crate::{
    Delivery, Error, Result, Server, Sqs,
    depths::counts,
    publisher::BATCH,
    server::TIMEOUT,
    settling::{Settled, Settling, seconds},
};

/// How long they are out of sight.
const HIDDEN: Duration = Duration::from_mins(5);

/// A receive that finds nothing for so long has asked all of SQS's servers.
const WAIT: Duration = Duration::from_secs(1);

/// So many receives in a row that find nothing new are the end.
const EMPTY: u32 = 2;

/// A reading of the dead letters of one queue. While it is open, other consumers find none.
#[derive(Debug)]
pub struct DeadLetters {
    server: Server,
    queue: String,
    settling: Settling,
    /// The receipts of those that are to be released, by message.
    out: HashMap<String, String>,
    ended: bool,
}

impl Sqs {
    /// Begins to read the dead letters that are there now.
    ///
    /// # Errors
    /// If the service or the queue is away, or somebody else reads them ([`Error::Busy`]).
    pub async fn dead_letters(&self) -> Result<DeadLetters> {
        let queue = self.topology().dead_letter.clone();
        let [_, held, _] = counts(self.server(), &queue).await?;
        if held > 0 {
            return Err(Error::Busy(format!(
                "another consumer holds {held} messages of the dead-letter queue {queue:?}"
            )));
        }
        let settling = Settling::start(self.server(), &queue, BATCH);
        Ok(DeadLetters { server: self.server().clone(), queue, settling, out: HashMap::new(), ended: false })
    }
}

impl DeadLetters {
    /// The next of them, at most so many; none if all are read.
    ///
    /// # Errors
    /// If the service is away.
    pub async fn page(&mut self, most: usize) -> Result<Vec<Delivery>> {
        let (mut page, mut empty) = (Vec::new(), 0);
        while page.len() < most && empty < EMPTY && !self.ended {
            let brought = self.receive((most - page.len()).min(BATCH)).await?;
            empty += 1;
            for letter in brought {
                if self.out.insert(letter.message_id.clone(), letter.receipt.clone()).is_none() {
                    empty = 0;
                    page.push(letter);
                }
            }
        }
        self.ended |= empty >= EMPTY;
        Ok(page)
    }

    async fn receive(&self, most: usize) -> Result<Vec<Delivery>> {
        let call = self.server.client().await?.receive_message().queue_url(self.server.url(&self.queue).await?);
        let call = call
            .max_number_of_messages(i32::try_from(most).unwrap_or(1))
            .visibility_timeout(seconds(HIDDEN))
            .wait_time_seconds(seconds(WAIT))
            .message_system_attribute_names(System::SentTimestamp)
            .message_system_attribute_names(System::MessageGroupId)
            .message_attribute_names("All");
        let answer = self.server.answer("reading dead letters", WAIT + TIMEOUT, call.send()).await?;
        Ok(answer.messages.unwrap_or_default().into_iter().filter_map(Delivery::new).collect())
    }

    /// It is gone for good; false if that is not certain.
    pub async fn delete(&mut self, letter: &Delivery) -> bool {
        let receipt = self.out.get(&letter.message_id).unwrap_or(&letter.receipt);
        let deleted = self.settling.delete(receipt, false).await == Settled::Told;
        if deleted {
            self.out.remove(&letter.message_id);
        }
        deleted
    }

    /// Makes those visible again that were not deleted.
    pub async fn close(self) {
        self.settling.hide_all(self.out.values().map(String::as_str), Duration::ZERO).await;
    }
}
