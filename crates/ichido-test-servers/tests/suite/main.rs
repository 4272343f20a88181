//! The servers and the proxy that other tests rely on.

mod proxy;
mod script;
mod servers;
