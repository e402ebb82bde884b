//! Every capture of real agents, played through the conversation and the turn machine.

mod captures;
mod commands;
mod faults;
mod history;
mod odd_messages;
mod playback;
