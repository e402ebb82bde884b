//! The scripted agent and the built-in one behind a real turn machine: every log they lead to is judged by the law checker.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod after;
mod builtin;
mod faults;
mod people;
mod recovery;
mod scripts;
mod steps;
mod support;
