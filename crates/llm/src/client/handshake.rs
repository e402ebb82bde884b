//! Failed TLS handshakes: the host, the problem, and what a person can do about it.

use super::address::Address;
use crate::classify::{Failure, Phase, Source, transport};
use rustls::{AlertDescription, CertificateError, Error};
use std::io;
use turnstream_model::event::ErrorClass;

/// Classifies a failed handshake. A failure that only a person can resolve is final and not retried.
pub(super) fn failure(address: &Address, error: &io::Error) -> Failure {
    let host = &address.host;
    let Some(problem) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        // Not a TLS error but a reset or an early end of the connection.
        let failure = transport(error, Phase::Connect);
        return Failure { message: format!("{host}: in the TLS handshake: {}", failure.message), ..failure };
    };
    let unreachable = |what: String| Failure::new(ErrorClass::Unreachable, Source::Transport, what);
    match advice(address, problem) {
        Some(what) => Failure { is_final: true, ..unreachable(what) },
        None => unreachable(format!("{host}: the TLS handshake failed: {problem}")),
    }
}

/// What a person can do about it; `None` if a retry may succeed.
fn advice(address: &Address, problem: &Error) -> Option<String> {
    let Address { host, port, .. } = address;
    Some(match problem {
        Error::InvalidCertificate(certificate) => bad_certificate(host, certificate),
        Error::NoCertificatesPresented => {
            format!("{host} shows no certificate; is this the address of the provider?")
        }
        Error::InvalidMessage(_) => format!(
            "{host} does not speak TLS on port {port}; if it speaks plain HTTP, give the route an http:// address"
        ),
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => {
            format!(
                "{host} supports no common TLS version or cipher ({problem}); TLS 1.2 or 1.3 and HTTP/1.1 are needed"
            )
        }
        Error::AlertReceived(alert) => match alert {
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity
            | AlertDescription::NoApplicationProtocol => format!(
                "{host} supports no common TLS version or cipher ({problem}); TLS 1.2 or 1.3 and HTTP/1.1 are needed"
            ),
            AlertDescription::CertificateRequired | AlertDescription::AccessDenied => {
                format!("{host} wants a client certificate, which is not supported ({problem})")
            }
            AlertDescription::UnrecognisedName => {
                format!("{host} does not know this name ({problem}); correct the route's address")
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn bad_certificate(host: &str, certificate: &CertificateError) -> String {
    match certificate {
        // A new authority with the name of an old one shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of {host} is signed by an unknown authority; if it is your company's own, name its \
             file in `authorities` or SSL_CERT_FILE"
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the certificate of {host} is for another name ({certificate}); correct the route's address"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => format!(
            "the certificate of {host} has expired ({certificate}); the provider has to renew it, unless the \
             clock of this machine is wrong"
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!(
                "the certificate of {host} is not valid yet ({certificate}); is the clock of this machine right?"
            )
        }
        _ => {
            format!("the certificate of {host} is not trusted: {certificate}; the provider has to replace it")
        }
    }
}
