//! What ichido promises about RabbitMQ, against a real one: tests of the topology, the publisher and the source, and of how they
//! come back.

mod bench;
mod cluster;
mod coming_back;
mod cutting;
mod dead_letters;
mod management;
mod publishing;
mod receiving;
mod seam;
mod topology;
