//! Trusted certificate authorities: the system's, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, and a
//! file of additional ones.

use super::ClientError;
use crate::classify::{Failure, Source};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_native_certs::CertificateResult;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;
use tracing::{debug, info};
use turnstream_model::Chain;
use turnstream_model::event::ErrorClass;

/// The environment variables that replace the system's authorities, as in OpenSSL.
const FILE: &str = "SSL_CERT_FILE";
const DIRECTORY: &str = "SSL_CERT_DIR";

/// The problem with a file of certificate authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// The file cannot be read, or is not PEM.
    #[error("it cannot be read as PEM")]
    Pem(#[source] pem::Error),
    /// A certificate in it cannot be an authority.
    #[error("a certificate in it cannot be an authority")]
    Certificate(#[source] rustls::Error),
    /// It has no certificate.
    #[error("it has no certificate")]
    Empty,
}

/// Why the system's authorities cannot be used.
#[derive(Debug, thiserror::Error)]
enum RootsError {
    #[error("{variable} names {}, which cannot be opened; correct or remove it", path.display())]
    Open {
        variable: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{variable} leads to no certificate ({problems}); correct or remove it")]
    None { variable: &'static str, problems: String },
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
    #[error("loading them failed")]
    Task(#[source] tokio::task::JoinError),
}

/// The trusted authorities. They are loaded when first needed: plain HTTP needs none.
pub(super) struct Trust {
    additional: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Trust {
    /// Trusts the certificates of this PEM file too. The file is read now, so that an error shows at the
    /// start.
    pub(super) fn new(authorities: Option<&Path>) -> Result<Self, ClientError> {
        let additional = match authorities {
            Some(path) => {
                read(path).map_err(|source| ClientError::Authorities { path: path.to_owned(), source })?
            }
            None => Vec::new(),
        };
        Ok(Self { additional, config: OnceCell::new() })
    }

    /// The TLS configuration of a connection.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let load = || async {
            let additional = self.additional.clone();
            let loaded = tokio::task::spawn_blocking(move || load(&additional)).await;
            let config = loaded.unwrap_or_else(|error| Err(RootsError::Task(error)));
            config.map(Arc::new).map_err(|error| {
                let message = format!("no certificate authorities can be loaded: {}", Chain(&error));
                Failure { is_final: true, ..Failure::new(ErrorClass::InvalidRequest, Source::Ours, message) }
            })
        };
        self.config.get_or_try_init(load).await.cloned()
    }
}

/// Reads the certificates of a PEM file, each of which must be usable as an authority.
fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, AuthoritiesError> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(AuthoritiesError::Pem)?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(AuthoritiesError::Pem)?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(AuthoritiesError::Certificate)?;
    }
    if store.is_empty() { Err(AuthoritiesError::Empty) } else { Ok(certificates) }
}

fn load(additional: &[CertificateDer<'static>]) -> Result<ClientConfig, RootsError> {
    if let Some(path) = std::env::var_os(FILE).map(PathBuf::from)
        && let Err(source) = File::open(&path)
    {
        // Otherwise the first symptom would be an unknown certificate.
        return Err(RootsError::Open { variable: FILE, path, source });
    }
    let named = [FILE, DIRECTORY].into_iter().find(|name| std::env::var_os(name).is_some());
    let roots = roots(rustls_native_certs::load_native_certs(), named, additional)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(RootsError::Tls)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The loaded authorities and the additional ones. Without any, and without a variable, the built-in list.
fn roots(
    found: CertificateResult,
    named: Option<&'static str>,
    additional: &[CertificateDer<'static>],
) -> Result<RootCertStore, RootsError> {
    for error in &found.errors {
        debug!(error = %Chain(error), "certificate authorities could not be loaded");
    }
    let mut roots = RootCertStore::empty();
    // Systems have a few certificates that are too old or too odd. The others count.
    let (_, ignored) = roots.add_parsable_certificates(found.certs);
    if ignored > 0 {
        debug!(ignored, "certificate authorities of the system are unusable");
    }
    match named {
        Some(variable) if roots.is_empty() && additional.is_empty() => {
            let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            return Err(RootsError::None { variable, problems: problems.join("; ") });
        }
        // For example a container without ca-certificates.
        None if roots.is_empty() => {
            info!("the system has no certificate authorities; the built-in list is used");
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Some(_) | None => {}
    }
    roots.add_parsable_certificates(additional.iter().cloned());
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::roots;
    use rustls_native_certs::CertificateResult;

    #[test]
    fn the_list_in_the_binary_is_for_machines_that_have_none_and_were_told_of_none() {
        let bundled = webpki_roots::TLS_SERVER_ROOTS.len();
        let count =
            |named, own: &[_]| roots(CertificateResult::default(), named, own).map(|roots| roots.len());
        assert_eq!(count(None, &[]).unwrap(), bundled);
        let problem = count(Some("SSL_CERT_DIR"), &[]).unwrap_err().to_string();
        assert!(problem.contains("SSL_CERT_DIR"), "{problem}");

        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::default().self_signed(&key).unwrap().der().clone();
        let mut found = CertificateResult::default();
        found.certs.push(own.clone());
        assert_eq!(roots(found, None, &[]).unwrap().len(), 1, "the machine's own choice counts");
        assert_eq!(count(Some("SSL_CERT_DIR"), &[own]).unwrap(), 1);
    }
}
