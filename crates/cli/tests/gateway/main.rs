//! The commands as a person runs them: real processes on a real directory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_macros, reason = "tests print for those who look at them")]

mod access;
#[cfg(feature = "real-agents")]
mod acp;
mod budget;
mod builtin;
mod choice;
#[cfg(feature = "real-agents")]
mod claude;
#[cfg(feature = "real-agents")]
mod codex;
mod configuration;
mod demo;
mod diagnostics;
mod discovery;
#[cfg(target_os = "linux")]
mod disk;
mod files;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(feature = "real-agents")]
mod generated_page;
#[cfg(feature = "real-agents")]
mod history;
mod hostile;
mod interrupts;
#[cfg(feature = "real-agents")]
mod kills;
mod limits;
mod llm;
#[cfg(feature = "real-agents")]
mod opencode;
#[cfg(feature = "real-agents")]
mod opencode_clients;
#[cfg(feature = "real-agents")]
mod opencode_events;
#[cfg(feature = "real-agents")]
mod opencode_scenes;
mod otlp;
mod pty;
mod reach;
#[cfg(feature = "real-agents")]
mod real_agent;
mod removal;
#[cfg(feature = "real-agents")]
mod resilience;
#[cfg(feature = "real-agents")]
mod route;
mod search;
mod serve;
mod soak;
mod support;
mod terminal;
mod transfer;
#[cfg(feature = "real-agents")]
mod turn_ends;
mod turns;
mod unattended;
mod verbs;
