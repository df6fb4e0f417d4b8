//! The handshake of a WebSocket (RFC 6455).

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::credentials::protocols;
use crate::problem::{Refusal, UPGRADE as NO_WEBSOCKET};

/// What RFC 6455 has the key answered with.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of one message.
const LONGEST: usize = 1 << 20;

/// A connection after its handshake.
pub(crate) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A handshake that is one.
pub(crate) struct Handshake {
    accept: HeaderValue,
    protocol: Option<&'static str>,
}

impl Handshake {
    /// Checks what the client sent. One of these subprotocols is answered: the first of them
    /// that is offered.
    pub(crate) fn check(
        version: Version,
        headers: &HeaderMap,
        known: &[&'static str],
    ) -> Result<Self, Refusal> {
        let named = |name: HeaderName, token: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            let mut tokens = values.flat_map(|value| value.split(','));
            tokens.any(|part| part.trim().eq_ignore_ascii_case(token))
        };
        if version != Version::HTTP_11
            || !named(CONNECTION, "upgrade")
            || !named(UPGRADE, "websocket")
        {
            return Err(refused("this address is for WebSockets alone"));
        }
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(refused("only version 13 of WebSocket is spoken"));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
        if STANDARD.decode(key).is_ok_and(|key| key.len() != 16) || key.len() != 24 {
            return Err(Refusal::malformed("Sec-WebSocket-Key is none"));
        }
        let common = known.iter().find(|known| protocols(headers).any(|one| one == **known));
        if common.is_none() && protocols(headers).next().is_some() {
            let detail = format!("the subprotocols here are: {}", known.join(", "));
            return Err(Refusal::malformed(detail));
        }
        let accept = HeaderValue::try_from(accept(key));
        let accept = accept.map_err(|error| Refusal::internal(&error))?;
        Ok(Self { accept, protocol: common.copied() })
    }

    /// The subprotocol that will be spoken.
    pub(crate) fn protocol(&self) -> Option<&'static str> {
        self.protocol
    }

    /// The answer after which the connection is a WebSocket.
    pub(crate) fn answer(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        response
    }
}

/// The connection, once it is a WebSocket.
pub(crate) async fn socket(upgraded: Upgraded) -> Socket {
    let config = WebSocketConfig::default()
        .read_buffer_size(16 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * LONGEST)
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST));
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await
}

fn refused(detail: &'static str) -> Refusal {
    Refusal::new(NO_WEBSOCKET, detail, "use a WebSocket client, or `cofferdam` itself")
}

fn accept(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(MAGIC).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(changes: &[(&'static str, Option<&str>)]) -> Result<Response, u16> {
        let mut headers = HeaderMap::new();
        headers.insert("connection", "keep-alive, Upgrade".parse().unwrap());
        headers.insert("upgrade", "websocket".parse().unwrap());
        headers.insert("sec-websocket-version", "13".parse().unwrap());
        headers.insert("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==".parse().unwrap());
        for (name, value) in changes {
            match value {
                Some(value) => drop(headers.insert(*name, value.parse().unwrap())),
                None => drop(headers.remove(*name)),
            }
        }
        let checked =
            Handshake::check(Version::HTTP_11, &headers, &["cofferdam.terminal.v1", "binary"]);
        checked.map(Handshake::answer).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn a_handshake_is_answered_as_the_rfc_says() {
        let answer = checked(&[]).unwrap();
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!answer.headers().contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn only_our_subprotocol_is_answered_and_never_a_token() {
        let offered = "cofferdam.terminal.v1, bearer.cof_secret";
        let answer = checked(&[("sec-websocket-protocol", Some(offered))]).unwrap();
        assert_eq!(answer.headers()["sec-websocket-protocol"], "cofferdam.terminal.v1");
        let both = checked(&[("sec-websocket-protocol", Some("binary, cofferdam.terminal.v1"))]);
        assert_eq!(both.unwrap().headers()["sec-websocket-protocol"], "cofferdam.terminal.v1");
        let other = checked(&[("sec-websocket-protocol", Some("chat"))]);
        assert_eq!(other.err(), Some(400));
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        assert_eq!(checked(&[("upgrade", None)]).err(), Some(426));
        assert_eq!(checked(&[("connection", Some("close"))]).err(), Some(426));
        assert_eq!(checked(&[("sec-websocket-version", Some("8"))]).err(), Some(426));
        assert_eq!(checked(&[("sec-websocket-key", Some("x"))]).err(), Some(400));
        assert_eq!(checked(&[("sec-websocket-key", None)]).err(), Some(400));
    }
}
