//! Failures of the transport, from the kinds in the chain of causes.
//!
//! HTTP clients wrap what happened in errors of their own, which say little: a reset and an end in the middle differ only
//! further down the chain.

use super::{Failure, Source};
use std::error::Error;
use std::io;
use turnstream_model::event::ErrorClass;

/// How far a chain of causes is followed.
const CHAIN: usize = 16;

/// What was going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A connection was being made.
    Connect,
    /// The request was on its way, or its answer was waited for.
    Request,
    /// The answer had begun.
    Body,
}

/// Classifies an error of the transport.
pub fn transport(error: &(dyn Error + 'static), phase: Phase) -> Failure {
    let class = match (phase, io_kind(error)) {
        // It was there and went away: a server that restarts, a proxy in between.
        (Phase::Connect, Some(kind)) if is_loss(kind) => ErrorClass::TransportLost,
        // Refused, no such name, a certificate for another name: waiting does not mend a wrong address.
        (Phase::Connect, Some(_) | None) => ErrorClass::Unreachable,
        (Phase::Request | Phase::Body, Some(_) | None) => ErrorClass::TransportLost,
    };
    Failure::new(class, Source::Transport, sentence(error))
}

/// The kind of the first error of the system in the chain.
fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    chain(error).find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind)
}

fn is_loss(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::Interrupted
    )
}

/// The chain in one line, without what is said twice: "error sending request: connection reset by peer".
fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in chain(error) {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source()).take(CHAIN)
}
