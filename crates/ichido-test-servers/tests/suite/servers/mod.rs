//! The servers of the harness keep what they promise: they start, stop and
//! come back, and neither they nor their folders outlive the test process.

mod cases;
mod mariadb;
mod pgbouncer;
mod postgres;
mod rabbitmq;
mod rabbitmq_cluster;
mod sqs;
mod test_process;
