//! Whose certificates are believed: those of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`, and a file of one's own.

use super::NoClient;
use crate::classify::{Failure, Source};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_native_certs::CertificateResult;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;
use turnstream_model::event::ErrorClass;

/// The variables with which the system's authorities are replaced, as OpenSSL knows them.
const FILE: &str = "SSL_CERT_FILE";
const DIRECTORY: &str = "SSL_CERT_DIR";

/// The authorities, read from the system when they are needed first: who speaks plain HTTP needs none.
pub(super) struct Trust {
    own: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Trust {
    /// Believes the certificates in this PEM file too. It is read now, so that a mistake in it shows at the start.
    pub(super) fn new(authorities: Option<&Path>) -> Result<Self, NoClient> {
        let own = match authorities {
            Some(path) => {
                read(path).map_err(|problem| NoClient::Authorities { path: path.to_owned(), problem })?
            }
            None => Vec::new(),
        };
        Ok(Self { own, config: OnceCell::new() })
    }

    /// What a connection is made with.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let load = || async {
            let own = self.own.clone();
            let loaded = tokio::task::spawn_blocking(move || load(&own)).await;
            let config = loaded.unwrap_or_else(|_| Err("reading them failed".to_owned()));
            config.map(Arc::new).map_err(|problem| {
                let message = format!("no certificate authorities, so nobody can be believed: {problem}");
                Failure { is_final: true, ..Failure::new(ErrorClass::InvalidRequest, Source::Ours, message) }
            })
        };
        self.config.get_or_try_init(load).await.cloned()
    }
}

/// The certificates of a PEM file, each of which can be an authority.
fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    if store.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(certificates) }
}

fn load(own: &[CertificateDer<'static>]) -> Result<ClientConfig, String> {
    if let Some(path) = std::env::var_os(FILE).map(PathBuf::from) {
        // Else the next thing to be seen is a certificate that nobody knows.
        File::open(&path)
            .map_err(|error| format!("{FILE} is {}: {error}; correct or remove it", path.display()))?;
    }
    let named = [FILE, DIRECTORY].into_iter().find(|name| std::env::var_os(name).is_some());
    let roots = roots(rustls_native_certs::load_native_certs(), named, own)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Those that were found, or else those in the binary, unless a variable says where they are; and one's own.
fn roots(
    found: CertificateResult,
    named: Option<&str>,
    own: &[CertificateDer<'static>],
) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // Systems have a few that are too old or too odd to be used; the others count.
    roots.add_parsable_certificates(found.certs);
    match named {
        Some(name) if roots.is_empty() && own.is_empty() => {
            let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            return Err(format!("{name} leads to none ({}); correct or remove it", problems.join("; ")));
        }
        // A container without ca-certificates.
        None if roots.is_empty() => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(_) | None => {}
    }
    roots.add_parsable_certificates(own.iter().cloned());
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::roots;
    use rustls_native_certs::CertificateResult;

    #[test]
    fn the_list_in_the_binary_is_for_machines_that_have_none_and_were_told_of_none() {
        let bundled = webpki_roots::TLS_SERVER_ROOTS.len();
        assert_eq!(roots(CertificateResult::default(), None, &[]).map(|roots| roots.len()), Ok(bundled));
        let problem = roots(CertificateResult::default(), Some("SSL_CERT_DIR"), &[]).map(|roots| roots.len());
        assert!(problem.as_ref().is_err_and(|problem| problem.contains("SSL_CERT_DIR")), "{problem:?}");

        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::default().self_signed(&key).unwrap().der().clone();
        let mut found = CertificateResult::default();
        found.certs.push(own.clone());
        assert_eq!(
            roots(found, None, &[]).map(|roots| roots.len()),
            Ok(1),
            "the machine's own choice counts"
        );
        let with_own = roots(CertificateResult::default(), Some("SSL_CERT_DIR"), &[own]);
        assert_eq!(with_own.map(|roots| roots.len()), Ok(1));
    }
}
