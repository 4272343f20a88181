//! [`ichido::Store`] for MariaDB and MySQL: every verb, each a line that names where it is done.

use std::{error::Error as StdError, sync::Arc, time::Duration};

use ichido::{
    Around, Bell, Circulating, Delivery, Failure, FileSetId, Found, Guard, Key, Message, MessageId, NewMessage,
    ProcessId, Publication, Registration, Rescued, Result, Retention, Store, Terms, Unsent, backend, stat::Stat,
};
use sqlx::MySqlConnection;

use crate::{MySql, Tx, fault};

impl Store for MySql {
    type Tx = Tx;
    type Connection = MySqlConnection;

    fn connection(tx: &mut Tx) -> &mut MySqlConnection {
        tx.connection()
    }

    fn is_fault(cause: &(dyn StdError + 'static)) -> bool {
        fault::is_fault(cause)
    }

    async fn prepare(&self) -> Result<()> {
        self.queues().await.map(|_| ())
    }

    fn apart(&self) -> Self {
        self.alone()
    }

    fn bell(&self) -> &Bell {
        &self.shared.bell
    }

    async fn ping(&self) -> Result<()> {
        self.answers().await
    }

    async fn begin_on(&self, terms: Terms) -> Result<Tx> {
        self.begin_business(terms).await
    }

    async fn complete(&self, tx: &mut Tx, done: &[Delivery]) -> Result<()> {
        self.complete_in(tx, done).await
    }

    async fn fail(&self, tx: &mut Tx, delivery: &Delivery, failure: &Failure) -> Result<()> {
        self.fail_in(tx, delivery, failure).await
    }

    async fn note_files(&self, tx: &mut Tx, set: FileSetId) -> Result<()> {
        self.note_set(tx, set).await
    }

    async fn decide_files(&self, set: FileSetId) -> Result<bool> {
        self.decide_set(set).await
    }

    async fn forget_files(&self, stage: ProcessId, number: Option<i64>) -> Result<()> {
        self.forget_sets(stage, number).await
    }

    async fn commit(&self, tx: Tx) -> Result<()> {
        Ok(tx.inner.commit().await?)
    }

    async fn rollback(&self, tx: Tx) -> Result<()> {
        Ok(tx.inner.rollback().await?)
    }

    async fn is_claimed(&self, delivery: &Delivery) -> Result<bool> {
        self.probe(delivery).await
    }

    async fn send(
        &self,
        connection: &mut MySqlConnection,
        queue: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>> {
        self.send_in(connection, queue, messages).await
    }

    async fn claim(&self, process: ProcessId, queue: &str, count: usize) -> Result<Vec<Delivery>> {
        self.claim_from(process, queue, count).await
    }

    async fn claimed(&self, process: ProcessId, queue: &str) -> Result<Vec<Delivery>> {
        self.claimed_by(process, queue).await
    }

    async fn release(&self, deliveries: &[Delivery]) -> Result<()> {
        self.release_all(deliveries).await
    }

    async fn park(&self, delivery: &Delivery, failure: &Failure) -> Result<bool> {
        self.park_message(delivery, failure).await
    }

    async fn guard(&self, queue: &str) -> Result<Guard> {
        self.guard_of(queue).await
    }

    async fn lock(&self, tx: &mut Tx, delivery: &Delivery) -> Result<Found> {
        self.guard_in(&mut tx.inner, delivery).await
    }

    async fn claim_these(&self, process: ProcessId, queue: &str, keys: &[Key]) -> Result<Vec<Found>> {
        self.claim_keys(process, queue, keys).await
    }

    fn broker_queues(&self) -> Vec<Arc<str>> {
        backend::broker_queues(&self.shared.queues)
    }

    async fn publish(
        &self,
        connection: &mut MySqlConnection,
        queue: &str,
        messages: &[Publication],
    ) -> Result<Vec<String>> {
        self.publish_in(connection, queue, messages).await
    }

    async fn unsent(&self, queue: &str, most: usize) -> Result<Vec<Unsent>> {
        self.unsent_of(queue, most).await
    }

    async fn take_turn(&self, relay: ProcessId, queue: &str) -> Result<bool> {
        self.take_turn_of(relay, queue).await
    }

    async fn leave_turn(&self, relay: ProcessId, queue: &str) -> Result<()> {
        self.leave_turn_of(relay, queue).await
    }

    async fn keep(&self, message: &Message) -> Result<bool> {
        self.keep_message(message).await
    }

    async fn circulating(&self, queue: &str, age: Duration, most: usize) -> Result<Circulating> {
        self.circulating_of(queue, age, most).await
    }

    async fn publish_again(&self, queue: &str, keys: &[Key], most: usize) -> Result<u64> {
        self.publish_keys_again(queue, keys, most).await
    }

    async fn note_published(&self, _: &str, published: &[&Unsent]) -> Result<()> {
        self.published(published).await
    }

    async fn note_unpublished(&self, _: &str, unsent: &Unsent, error: &str, wait: Duration) -> Result<()> {
        self.unpublished(unsent, error, wait).await
    }

    async fn undrained(&self, queues: &[Arc<str>]) -> Result<Option<Arc<str>>> {
        self.undrained_of(queues).await
    }

    async fn backlog(&self, queue: &str) -> Result<Option<u64>> {
        self.claimable(queue).await.map(Some)
    }

    async fn register(&self, process: &Registration) -> Result<()> {
        self.register_process(process).await
    }

    async fn beat(&self, process: ProcessId) -> Result<bool> {
        self.sign_of_life(process).await
    }

    async fn mark_running(&self, process: ProcessId, suspect: Option<&MessageId>) -> Result<()> {
        self.set_running(process, suspect).await
    }

    async fn leave(&self, process: ProcessId) -> Result<()> {
        self.take_leave(process).await
    }

    async fn quit(&self, process: ProcessId, request_id: &str) -> Result<()> {
        self.quit_request(process, request_id).await
    }

    async fn look_around(&self, by: &Registration) -> Result<Around> {
        self.around(by).await
    }

    async fn rescue(&self, by: &Registration) -> Result<Rescued> {
        self.rescue_dead(by).await
    }

    async fn note_longest(&self, queue: &str, time: Duration) -> Result<()> {
        self.longest(queue, time).await
    }

    async fn note_stats(&self, process: ProcessId, minute: i64, stats: &[Stat]) -> Result<()> {
        self.write_stats(process, minute, stats).await
    }

    async fn prune(&self, retention: Retention) -> Result<()> {
        self.forget_old(retention).await
    }

    async fn return_due(&self, by: &Registration) -> Result<u64> {
        self.return_all_due(by).await
    }

    async fn tidy(&self, by: &Registration) -> Result<()> {
        self.tidy_all(by).await
    }
}
