//! TLS with the certificates that this machine trusts.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Made when it is first needed: reading the certificates takes a while.
static CONNECTOR: OnceLock<TlsConnector> = OnceLock::new();

/// Secures a stream to a host.
pub(crate) async fn secure(stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    connector()?.connect(name, stream).await
}

fn connector() -> io::Result<&'static TlsConnector> {
    if let Some(connector) = CONNECTOR.get() {
        return Ok(connector);
    }
    let mut roots = RootCertStore::empty();
    // Those that cannot be read are passed over, as every client does.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let message = "this machine has no certificates to trust: install ca-certificates, or set \
            SSL_CERT_FILE";
        return Err(io::Error::other(message));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(CONNECTOR.get_or_init(|| TlsConnector::from(Arc::new(config))))
}
