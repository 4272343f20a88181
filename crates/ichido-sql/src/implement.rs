//! The shared verbs as items of a store's own `impl`s. A store writes `impl Files for Postgres { ichido_sql::files!(); }`, and beside the
//! macro the verbs of that trait which are really its own.

/// All verbs of [`ichido::store::Files`].
#[macro_export]
macro_rules! files {
    () => {
        async fn note_files(&self, tx: &mut Self::Tx, set: ichido::store::FileSetId) -> ichido::error::Result<()> {
            $crate::verbs::files::note(self, tx, set).await
        }

        async fn decide_files(&self, set: ichido::store::FileSetId) -> ichido::error::Result<bool> {
            $crate::verbs::files::decide(self, set).await
        }

        async fn delete_file_sets(
            &self,
            stage: ichido::store::ProcessId,
            number: Option<i64>,
        ) -> ichido::error::Result<()> {
            $crate::verbs::files::delete_sets(self, stage, number).await
        }
    };
}

/// All verbs of [`ichido::store::Answers`].
#[macro_export]
macro_rules! answers {
    () => {
        async fn remember_answer(
            &self,
            tx: &mut Self::Tx,
            key: &str,
            answered: &ichido::store::Answered,
        ) -> ichido::error::Result<bool> {
            $crate::verbs::answers::remember(self, tx, key, answered).await
        }

        async fn recall_answer(&self, key: &str) -> ichido::error::Result<Option<ichido::store::Answered>> {
            $crate::verbs::answers::recall(self, key).await
        }
    };
}

/// All verbs of [`ichido::store::Stats`].
#[macro_export]
macro_rules! stats {
    () => {
        async fn note_longest(&self, queue: &str, time: std::time::Duration) -> ichido::error::Result<()> {
            $crate::verbs::stats::note_longest(self, queue, time).await
        }

        async fn note_stats(
            &self,
            process: ichido::store::ProcessId,
            minute: i64,
            stats: &[ichido::stat::Stat],
        ) -> ichido::error::Result<()> {
            $crate::verbs::stats::note(self, process, minute, stats).await
        }

        async fn count(&self, queue: &str) -> ichido::error::Result<Option<ichido::stat::Backlog>> {
            $crate::verbs::inspect::backlog(self, queue).await.map(Some)
        }

        async fn prune(&self, retention: ichido::process::Retention) -> ichido::error::Result<bool> {
            $crate::verbs::stats::prune(self, retention).await
        }
    };
}

/// All verbs of [`ichido::store::Processes`].
#[macro_export]
macro_rules! processes {
    () => {
        async fn register(&self, process: &ichido::store::Registration) -> ichido::error::Result<()> {
            $crate::verbs::processes::register(self, process).await
        }

        async fn heartbeat(
            &self,
            process: ichido::store::ProcessId,
            running: &[ichido::store::Running],
        ) -> ichido::error::Result<bool> {
            $crate::Liveness::write_heartbeat(self, process, ichido::store::Running::write(running)).await
        }

        async fn mark_running(
            &self,
            process: ichido::store::ProcessId,
            suspect: Option<&ichido::MessageId>,
        ) -> ichido::error::Result<()> {
            $crate::verbs::processes::mark_running(self, process, suspect).await
        }

        async fn deregister(&self, process: ichido::store::ProcessId) -> ichido::error::Result<()> {
            $crate::verbs::processes::deregister(self, process).await
        }

        async fn quit(&self, process: ichido::store::ProcessId, request_id: &str) -> ichido::error::Result<()> {
            $crate::verbs::processes::quit(self, process, request_id).await
        }

        async fn poll(&self, by: &ichido::store::Registration) -> ichido::error::Result<ichido::store::Polled> {
            $crate::verbs::processes::poll(self, by).await
        }

        async fn rescue(&self, by: &ichido::store::Registration) -> ichido::error::Result<ichido::store::Rescued> {
            $crate::verbs::rescue::rescue(self, by).await
        }

        async fn prune_dead(&self, by: &ichido::store::Registration) -> ichido::error::Result<u64> {
            $crate::verbs::rescue::prune_dead(self, by).await
        }

        async fn take_chore_lease(
            &self,
            process: ichido::store::ProcessId,
            queue: &str,
            lasts: std::time::Duration,
        ) -> ichido::error::Result<Option<String>> {
            $crate::verbs::leases::take_chore_lease(self, process, queue, lasts).await
        }

        async fn keep_chore_lease(
            &self,
            process: ichido::store::ProcessId,
            queue: &str,
            lasts: std::time::Duration,
            tidied: &str,
        ) -> ichido::error::Result<bool> {
            $crate::verbs::leases::keep_chore_lease(self, process, queue, lasts, tidied).await
        }

        async fn release_chore_lease(
            &self,
            process: ichido::store::ProcessId,
            queue: &str,
        ) -> ichido::error::Result<()> {
            $crate::verbs::leases::release_chore_lease(self, process, queue).await
        }
    };
}

/// The verbs of [`ichido::store::Queues`] but `claimed`.
#[macro_export]
macro_rules! queues {
    () => {
        async fn send(
            &self,
            connection: &mut Self::Connection,
            queue: &str,
            messages: &[ichido::NewMessage],
        ) -> ichido::error::Result<Vec<ichido::MessageId>> {
            $crate::verbs::queues::send(self, connection, queue, messages).await
        }

        async fn claim(
            &self,
            process: ichido::store::ProcessId,
            queue: &str,
            count: usize,
        ) -> ichido::error::Result<Vec<ichido::Delivery>> {
            $crate::claim(self, process, $crate::SqlStore::queue(self, queue).await?, count).await
        }

        async fn release(&self, deliveries: &[ichido::Delivery]) -> ichido::error::Result<()> {
            $crate::verbs::queues::release(self, deliveries).await
        }

        async fn park(
            &self,
            delivery: &ichido::Delivery,
            failure: &ichido::store::Failure,
        ) -> ichido::error::Result<bool> {
            $crate::verbs::queues::park(self, delivery, failure).await
        }

        async fn return_due(&self, by: &ichido::store::Registration) -> ichido::error::Result<u64> {
            $crate::verbs::queues::return_due(self, by).await
        }

        async fn tidy(&self, queue: &str, after: &str) -> ichido::error::Result<Option<String>> {
            $crate::verbs::queues::tidy(self, queue, after).await
        }

        async fn undrained(
            &self,
            queues: &[std::sync::Arc<str>],
        ) -> ichido::error::Result<Option<std::sync::Arc<str>>> {
            $crate::verbs::queues::undrained(self, queues).await
        }

        async fn claimable(&self, queues: &[std::sync::Arc<str>]) -> ichido::error::Result<Vec<bool>> {
            $crate::verbs::queues::claimable(self, queues).await
        }

        async fn next_due(
            &self,
            queues: &[std::sync::Arc<str>],
        ) -> ichido::error::Result<Vec<Option<std::time::Duration>>> {
            $crate::verbs::queues::next_due(self, queues).await
        }

        async fn backlog(&self, queue: &str, most: u64) -> ichido::error::Result<Option<u64>> {
            $crate::verbs::queues::backlog(self, queue, most).await.map(Some)
        }
    };
}

/// The verbs of [`ichido::store::Outbox`] but `publish` and `note_published`.
#[macro_export]
macro_rules! outbox {
    () => {
        fn broker_queues(&self) -> Vec<std::sync::Arc<str>> {
            $crate::broker_queues(&$crate::SqlStore::known(self).configured)
        }

        async fn unsent(&self, queue: &str, most: usize) -> ichido::error::Result<Vec<ichido::broker::Unsent>> {
            $crate::verbs::outbox::unsent(self, queue, most).await
        }

        async fn any_unsent(
            &self,
            queues: &std::collections::BTreeSet<std::sync::Arc<str>>,
        ) -> ichido::error::Result<bool> {
            $crate::verbs::outbox::any_unsent(self, queues).await
        }

        async fn take_relay_lease(&self, relay: ichido::store::ProcessId, queue: &str) -> ichido::error::Result<bool> {
            $crate::verbs::outbox::take_relay_lease(self, relay, queue).await
        }

        async fn release_relay_lease(&self, relay: ichido::store::ProcessId, queue: &str) -> ichido::error::Result<()> {
            $crate::verbs::outbox::release_relay_lease(self, relay, queue).await
        }

        async fn note_unpublished(
            &self,
            _: &str,
            unsent: &ichido::broker::Unsent,
            error: &str,
            wait: std::time::Duration,
        ) -> ichido::error::Result<()> {
            $crate::verbs::outbox::note_unpublished(self, unsent, error, wait).await
        }

        async fn keep(&self, message: &ichido::Message) -> ichido::error::Result<bool> {
            $crate::verbs::outbox::keep(self, message).await
        }

        async fn any_circulating(&self, queue: &str) -> ichido::error::Result<bool> {
            $crate::verbs::outbox::any_circulating(self, queue).await
        }

        async fn circulating(
            &self,
            queue: &str,
            age: std::time::Duration,
            most: usize,
        ) -> ichido::error::Result<ichido::broker::Circulating> {
            $crate::verbs::outbox::circulating(self, queue, age, most).await
        }

        async fn publish_again(&self, queue: &str, keys: &[ichido::Key], most: usize) -> ichido::error::Result<u64> {
            $crate::verbs::outbox::publish_again(self, queue, keys, most).await
        }
    };
}

/// The verbs of [`ichido::Inspect`] but `warnings`.
#[macro_export]
macro_rules! inspect {
    () => {
        async fn overview_beside(
            &self,
            known: &[ichido::inspect::QueueCounts],
        ) -> ichido::error::Result<ichido::inspect::Overview> {
            $crate::verbs::inspect::overview_beside(self, known).await
        }

        async fn stats(&self, last: std::time::Duration) -> ichido::error::Result<Vec<ichido::stat::StatRow>> {
            $crate::verbs::stats::read(self, last).await
        }

        async fn requests(&self) -> ichido::error::Result<Vec<ichido::process::RequestState>> {
            $crate::verbs::flags::states(self).await
        }

        async fn parked(
            &self,
            filter: &ichido::inspect::ParkedFilter,
        ) -> ichido::error::Result<Vec<ichido::inspect::Parked>> {
            $crate::verbs::parked_pages::parked(self, filter).await
        }

        async fn failed_elsewhere(&self) -> ichido::error::Result<Vec<(String, i64)>> {
            $crate::verbs::inspect::failed_elsewhere(self).await
        }

        async fn statements(&self) -> ichido::error::Result<Vec<ichido::inspect::Statement>> {
            $crate::verbs::inspect::statements(self).await
        }

        async fn send_sql(&self, queue: &str, columns: &[String]) -> ichido::error::Result<ichido::inspect::SendSql> {
            $crate::send_sql(self, queue, columns).await
        }

        async fn columns(&self, queue: &str) -> ichido::error::Result<Option<Vec<String>>> {
            $crate::verbs::inspect::columns(self, queue).await
        }

        async fn mutexes(
            &self,
            queue: &str,
            which: ichido::broker::MutexFilter<'_>,
        ) -> ichido::error::Result<Vec<ichido::broker::MutexRow>> {
            $crate::verbs::doctor::mutexes(self, queue, which).await
        }

        async fn originals(
            &self,
            queue: &str,
            letters: &[(ichido::Key, &[u8])],
        ) -> ichido::error::Result<Vec<Option<ichido::broker::Original>>> {
            $crate::verbs::doctor::originals(self, queue, letters).await
        }

        async fn orphans(&self, queue: &str) -> ichido::error::Result<Vec<ichido::broker::Orphan>> {
            $crate::verbs::doctor::orphans(self, queue).await
        }
    };
}

/// All verbs of [`ichido::Messages`].
#[macro_export]
macro_rules! messages {
    () => {
        async fn payload(&self, id: &ichido::MessageId) -> ichido::error::Result<Option<String>> {
            $crate::verbs::messages::payload(self, id).await
        }

        async fn sent_with(&self, id: &ichido::MessageId) -> ichido::error::Result<ichido::inspect::SentWith> {
            $crate::verbs::messages::sent_with(self, id).await
        }

        async fn message(&self, id: &ichido::MessageId) -> ichido::error::Result<Option<ichido::inspect::MessageInfo>> {
            $crate::verbs::messages::message(self, id).await
        }

        async fn messages(
            &self,
            filter: &ichido::inspect::MessageFilter,
        ) -> ichido::error::Result<ichido::inspect::MessagePage> {
            $crate::verbs::listing::messages(self, filter).await
        }

        async fn reschedule(
            &self,
            id: &ichido::MessageId,
            due: ichido::Due,
        ) -> ichido::error::Result<ichido::inspect::Changed> {
            $crate::verbs::moving::reschedule(self, id, due).await
        }

        async fn run_now(&self, id: &ichido::MessageId) -> ichido::error::Result<ichido::inspect::Changed> {
            $crate::verbs::moving::run_now(self, id).await
        }
    };
}

/// The verbs of [`ichido::Operate`] but those about migrations.
#[macro_export]
macro_rules! operate {
    () => {
        async fn retry(&self, id: &ichido::MessageId) -> ichido::error::Result<bool> {
            $crate::verbs::parked::retry(self, id).await
        }

        async fn discard(&self, id: &ichido::MessageId) -> ichido::error::Result<bool> {
            $crate::verbs::parked::discard(self, id).await
        }

        async fn release_orphan(&self, queue: &str, orphan: &ichido::broker::Orphan) -> ichido::error::Result<bool> {
            $crate::verbs::doctor::release_orphan(self, queue, orphan).await
        }

        async fn set_flag(
            &self,
            request_id: &str,
            flag: ichido::process::Flag,
            on: bool,
        ) -> ichido::error::Result<bool> {
            $crate::verbs::flags::set(self, request_id, flag, on).await
        }
    };
}

/// All verbs of [`ichido::store::Audit`] and [`ichido::store::Cancelling`], for a store that has a field `by`.
#[macro_export]
macro_rules! cancelling {
    ($store:ty) => {
        impl ichido::store::Audit for $store {
            fn by(&self, by: ichido::store::By) -> Self {
                Self { by: std::sync::Arc::new(by), ..self.clone() }
            }

            fn acts_for(&self) -> &ichido::store::By {
                &self.by
            }

            async fn note(&self, verb: &str, id: &ichido::MessageId, detail: &str) -> ichido::error::Result<()> {
                $crate::verbs::audit::note(self, verb, id, detail).await
            }

            async fn note_in(
                &self,
                tx: &mut Self::Tx,
                verb: &str,
                id: &ichido::MessageId,
                detail: &str,
            ) -> ichido::error::Result<()> {
                use ichido::store::Database as _;
                $crate::verbs::audit::note_in(self, Self::connection(tx), verb, id, detail).await
            }

            async fn audit(
                &self,
                queue: Option<&str>,
                after: Option<i64>,
                limit: u32,
            ) -> ichido::error::Result<Vec<ichido::store::Audited>> {
                $crate::verbs::audit::read(self, queue, after, limit).await
            }
        }

        impl ichido::store::Cancelling for $store {
            async fn cancel(&self, id: &ichido::MessageId) -> ichido::error::Result<ichido::store::Cancelled> {
                $crate::verbs::cancel::cancel(self, id).await
            }

            async fn would_cancel(&self, id: &ichido::MessageId) -> ichido::error::Result<ichido::store::Cancelled> {
                $crate::verbs::cancel::would(self, id).await
            }

            async fn cancel_some(
                &self,
                queue: &str,
                which: ichido::store::Cancellable,
                most: usize,
            ) -> ichido::error::Result<Vec<ichido::MessageId>> {
                $crate::verbs::cancel::cancel_some(self, queue, which, most).await
            }

            async fn cancellable(
                &self,
                queue: &str,
                which: ichido::store::Cancellable,
                most: usize,
            ) -> ichido::error::Result<Vec<ichido::MessageId>> {
                $crate::verbs::cancel::cancellable(self, queue, which, most).await
            }

            async fn finish_cancel(&self, delivery: &ichido::Delivery) -> ichido::error::Result<bool> {
                $crate::verbs::cancel::finish(self, delivery).await
            }
        }
    };
}

/// Of [`ichido::store::Mutexes`]: `guard`.
#[macro_export]
macro_rules! mutexes {
    () => {
        async fn guard(&self, queue: &str) -> ichido::error::Result<ichido::broker::Guard> {
            $crate::verbs::outbox::guard(self, queue).await
        }
    };
}
