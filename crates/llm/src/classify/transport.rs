//! Failures of the transport, classified by the error kinds in the chain of causes.
//!
//! HTTP clients wrap the cause in errors of their own. A reset and an early end differ only further down
//! the chain.

use super::{Failure, Source};
use std::error::Error;
use std::io;
use turnstream_model::event::ErrorClass;

/// The longest chain of causes that is followed.
const CHAIN: usize = 16;

/// The phase of the request in which the transport failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opening the connection.
    Connect,
    /// Sending the request, or waiting for the response headers.
    Request,
    /// Reading the body.
    Body,
}

/// Classifies an error of the transport.
pub fn transport(error: &(dyn Error + 'static), phase: Phase) -> Failure {
    let class = match (phase, io_kind(error)) {
        // The peer was there and went away: a restarting server, or a proxy.
        (Phase::Connect, Some(kind)) if is_loss(kind) => ErrorClass::TransportLost,
        // Refused, unknown host, wrong certificate: waiting does not mend a wrong address.
        (Phase::Connect, Some(_) | None) => ErrorClass::Unreachable,
        (Phase::Request | Phase::Body, Some(_) | None) => ErrorClass::TransportLost,
    };
    Failure::new(class, Source::Transport, sentence(error))
}

/// The kind of the first I/O error in the chain.
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

/// The chain in one line, without repetitions: "error sending request: connection reset by peer".
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
