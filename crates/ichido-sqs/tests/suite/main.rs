//! What ichido promises about SQS, against a server that speaks its API: tests of the queue's parts, and of the three stores together with it.

mod conformance;
mod cutter;
mod dead_letters;
mod fixture;
mod order;
mod plain;
mod publishing;
mod seam;
mod visibility;
