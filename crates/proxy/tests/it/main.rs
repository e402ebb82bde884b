//! The proxy over real sockets, in front of the fake provider.

mod faults;
mod harness;
mod limits;
mod many;
#[path = "../../../llm/examples/recorded/providers.rs"]
mod providers;
mod reattach;
mod recordings;
mod requests;
