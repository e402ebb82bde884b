//! The model: the turn machine, the fold of its events, the checker and the JSON of events.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod acts;
mod budget;
mod cancel;
mod check;
mod halves;
mod late;
mod laws;
mod machine;
mod noise;
mod people;
mod support;
mod trim;
mod typescript;
mod unattended;
mod usage;
mod wire;
