//! Every capture of the real agent, played through the conversation and the turn machine.

mod captures;
mod commands;
mod faults;
mod leftovers;
mod playback;
mod reconnect;
mod recovery;
