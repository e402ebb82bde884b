//! What tests of every crate share. Dev only.

pub mod agents;
