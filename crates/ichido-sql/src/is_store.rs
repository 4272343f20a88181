//! What makes a store one of SQL, as items of its own `impl`s: what it knows, what its queues are, and what its driver's errors mean. The
//! shared verbs are in `implement`.

/// A queue of a store is one of all stores, which it has in `shared`, and more.
#[macro_export]
macro_rules! is_sql_queue {
    ($queue:ty) => {
        impl std::ops::Deref for $queue {
            type Target = $crate::SqlQueue;

            fn deref(&self) -> &$crate::SqlQueue {
                &self.shared
            }
        }
    };
}

/// Of [`SqlStore`](crate::SqlStore): what a store knows, which it has in `shared.known`, and how it looks at its queues.
#[macro_export]
macro_rules! known {
    () => {
        fn known(&self) -> &$crate::Known<Self::Queue> {
            &self.shared.known
        }

        async fn look_at_queues(&self) -> ichido::error::Result<Vec<Self::Queue>> {
            self.make_statements().await
        }
    };
}

/// Of [`ichido::store::Database`], for a store whose statements have a deadline: `is_own_fault` by this function, and what it knows of silence.
#[macro_export]
macro_rules! server_database {
    ($is_own_fault:path) => {
        fn is_own_fault(cause: &(dyn std::error::Error + 'static)) -> bool {
            $is_own_fault(cause)
        }

        fn timeout(&self) -> Option<std::time::Duration> {
            Some(self.shared.deadline.timeout())
        }

        fn silences(&self) -> u64 {
            self.shared.deadline.silences()
        }

        fn hurry(&self, timeout: std::time::Duration) {
            self.shared.deadline.hurry(timeout);
        }
    };
}

/// Of [`ichido::store::Database`]: `connection`, `is_fault` by this function, and `prepare`.
#[macro_export]
macro_rules! database {
    ($is_fault:path) => {
        fn connection(tx: &mut Self::Tx) -> &mut Self::Connection {
            tx.connection()
        }

        fn is_fault(cause: &(dyn std::error::Error + 'static)) -> bool {
            $is_fault(cause)
        }

        async fn prepare(&self) -> ichido::error::Result<()> {
            $crate::SqlStore::queues(self).await.map(|_| ())
        }
    };
}
