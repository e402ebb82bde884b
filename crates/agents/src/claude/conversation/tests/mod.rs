//! Every capture of the real agent, played through the conversation and the turn machine.

mod captures;
mod commands;
mod desk;
mod faults;
mod playback;
mod recovery;
