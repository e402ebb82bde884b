//! The reader with streams of all formats: correct, damaged in every documented way, cut and spliced at
//! every byte.

mod arguments;
mod bodies;
mod bounds;
mod corpus;
mod dialects;
mod fixtures;
mod halves;
mod hostile;
mod law;
mod property;
mod providers;
mod random;
mod reading;
mod recorded;
mod rows;
mod single_events;
mod splice;
mod truncation;
mod unread;
mod whole;
