//! The scripted agent behind a real turn machine: every log it leads to is judged by the law checker.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod after;
mod faults;
mod people;
mod recovery;
mod scripts;
mod steps;
mod support;
