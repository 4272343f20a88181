//! The servers, the proxy and the injector that other tests rely on.

mod injector;
mod proxy;
mod script;
mod servers;
