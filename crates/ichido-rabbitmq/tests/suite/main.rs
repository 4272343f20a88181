//! What ichido promises about RabbitMQ, against a real one: tests of the topology, the publisher and the source, of how they come
//! back, and of the three stores together with it.

mod bench;
mod cluster;
mod conformance;
mod cuts;
mod dead_letters;
mod fixture;
mod management;
mod publishing;
mod receiving;
mod reconnect;
mod seam;
mod silence;
mod topology;
