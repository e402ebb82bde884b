//! The scripted agent and the built-in one behind a real turn machine. The law checker judges every log.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod after;
mod builtin;
mod faults;
mod people;
mod recovery;
mod scripts;
mod steps;
mod support;
