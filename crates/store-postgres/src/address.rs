//! Where the database is: its URL, and how the way there is secured.
//!
//! `sslmode` decides, as everywhere: `disable`, `prefer` (the default: TLS if the
//! server has it, with any certificate, which only protects from those who do not
//! meddle) or `require` (TLS with a certificate that this machine trusts; so are
//! `verify-ca` and `verify-full`). `sslrootcert` names a file of certificates to be
//! trusted in place of the machine's.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

/// Where the database is and how it is reached.
#[derive(Clone)]
pub(crate) struct Address {
    /// For `tokio_postgres`.
    pub(crate) config: Config,
    /// Secures connections, if they are to be.
    pub(crate) tls: MakeRustlsConnect,
}

impl Address {
    /// Reads a URL. Connections are made within `patience`, or not.
    pub(crate) fn parse(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let (url, roots) = our_part(url);
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            unusable(
                format!("the database's URL is none: {}", cofferdam_types::error_chain(&error)),
                "write it as postgres://user:password@host:port/database?sslmode=require",
            )
        })?;
        config.connect_timeout(patience).tcp_user_timeout(patience);
        config.keepalives_idle(patience);
        if config.get_application_name().is_none() {
            config.application_name("cofferdam");
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Require => trusting(roots.as_deref())?,
            _ => anyone()?,
        };
        Ok(Self { config, tls: MakeRustlsConnect::new(tls) })
    }
}

/// Takes out of a URL what `tokio_postgres` does not know.
fn our_part(url: &str) -> (String, Option<String>) {
    let Some((place, parameters)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut roots = None;
    let mut others = Vec::new();
    for parameter in parameters.split('&') {
        match parameter.split_once('=') {
            Some(("sslrootcert", path)) => roots = Some(path.replace("%2F", "/")),
            Some(("sslmode", "verify-ca" | "verify-full")) => others.push("sslmode=require"),
            Some(("sslmode", "allow")) => others.push("sslmode=prefer"),
            _ => others.push(parameter),
        }
    }
    (format!("{place}?{}", others.join("&")), roots)
}

/// TLS with servers that these certificates vouch for.
fn trusting(roots: Option<&str>) -> Result<ClientConfig, StoreError> {
    let mut trusted = RootCertStore::empty();
    match roots {
        Some(path) => {
            let failed = |error| {
                let cause = format!("cannot read the certificates in {path}: {error}");
                unusable(cause, "let `sslrootcert` name a file of certificates in PEM")
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(failed)? {
                let certificate = certificate.map_err(failed)?;
                trusted.add_parsable_certificates([certificate]);
            }
        }
        // Those that cannot be read are passed over, as every client does.
        None => {
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if trusted.is_empty() {
        return Err(unusable(
            "there are no certificates to trust the database by".to_owned(),
            "install ca-certificates, or name a file in the URL: sslrootcert=/path/to/ca.pem",
        ));
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), provider.clone());
    let verifier = verifier.build().map_err(|error| no_tls(&error))?;
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| no_tls(&error))?;
    Ok(builder.with_webpki_verifier(verifier).with_no_client_auth())
}

/// TLS with whoever is there.
fn anyone() -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| no_tls(&error))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)));
    Ok(builder.with_no_client_auth())
}

/// Takes any certificate: for `prefer`, which would go without TLS as well.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn no_tls(error: &dyn std::error::Error) -> StoreError {
    unusable(format!("TLS cannot be set up: {error}"), "report this")
}

fn unusable(cause: String, remedy: &str) -> StoreError {
    StoreError::Unusable { cause, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_it_is_secured() {
        let check = |url: &str, expected: (&str, Option<&str>)| {
            let (rest, roots) = our_part(url);
            assert_eq!((rest.as_str(), roots.as_deref()), expected, "{url}");
        };
        check("postgres://h/d", ("postgres://h/d", None));
        check("postgres://h/d?sslmode=disable", ("postgres://h/d?sslmode=disable", None));
        check("postgres://h/d?sslmode=verify-full", ("postgres://h/d?sslmode=require", None));
        check(
            "postgres://h/d?sslrootcert=/a/b.pem&sslmode=require&application_name=x",
            ("postgres://h/d?sslmode=require&application_name=x", Some("/a/b.pem")),
        );
    }

    #[test]
    fn a_url_that_is_none_is_told_what_one_is() {
        for url in ["mysql://h/d", "postgres://h/d?colour=red"] {
            let Err(error) = Address::parse(url, Duration::from_secs(1)) else { panic!("{url}") };
            let StoreError::Unusable { cause, remedy } = error else { panic!("{error:?}") };
            assert!(cause.contains("URL"), "{cause}");
            assert!(remedy.contains("postgres://"), "{remedy}");
        }
    }
}
