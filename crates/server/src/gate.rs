//! What every request passes, before it is looked at any closer and after it was
//! answered.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{CONNECTION, CONTENT_ENCODING, HOST as HOST_HEADER, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::body::Incoming;
use tower_service::Service;
use tracing::Instrument;
use tracing::field::Empty;

use crate::app::App;
use crate::credentials::{Shown, shown, shown_in_handshake};
use crate::headers;
use crate::origin::is_foreign;
use crate::preview::{self, Spot};
use crate::problem::{FOREIGN, HOST, LONG_URI, MALFORMED, MEDIA, Refusal, SLOW};
use crate::request::Caller;
use crate::routes::{Access, PREVIEW, Patience, Policy, Table};

/// Bytes of a request's target: a path in a workspace, each byte of it encoded, has
/// room in it.
const LONGEST_TARGET: usize = 52 << 10;

/// Everything that answers requests.
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) table: Table,
    pub(crate) router: Router,
}

impl Gate {
    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Response, Infallible> {
        let begun = Instant::now();
        let method = request.method().clone();
        let host = host(request.headers(), request.uri());
        let spot = host.ok().and_then(|host| self.app.previews.domain.spot(host));
        let policy = match spot {
            Some(_) => PREVIEW,
            None => self.table.policy(request.uri().path()),
        };
        let span = tracing::info_span!(
            "request",
            method = %method,
            route = policy.route,
            status = Empty,
            user = Empty
        );
        let answer = async {
            match spot {
                Some(spot) => self.preview(request, spot).await,
                None => self.pass(request, peer, policy).await,
            }
        };
        let answer = AssertUnwindSafe(answer).catch_unwind().instrument(span.clone()).await;
        let mut response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(refusal)) => refusal.into_response(),
            Err(_) => Refusal::internal(&"a handler panicked").into_response(),
        };
        // The page of a sandbox has an origin, and so headers, of its own.
        if spot.is_none() {
            headers::add(response.headers_mut(), self.app.tls);
        }
        let status = response.status();
        span.record("status", status.as_u16());
        if closes(status.as_u16()) {
            // What is left of the request is not read.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.app.meters.answered(policy.route, &method, status.as_u16(), begun.elapsed());
        Ok(response)
    }

    /// Answers a request for a name of previews: nothing else is ever to be had there.
    async fn preview(&self, request: Request<Incoming>, spot: Spot) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        check_target(&parts.uri)?;
        let host = host(&parts.headers, &parts.uri)?.to_owned();
        let answer = preview::answer(&self.app, spot, &host, parts, Body::new(body));
        match tokio::time::timeout(self.app.limits.long_answer_time, answer).await {
            Ok(response) => Ok(response),
            Err(_) => Ok(Refusal::new(SLOW, "the answer took too long", "try again").plain()),
        }
    }

    async fn pass(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        policy: Policy,
    ) -> Result<Response, Refusal> {
        let (mut parts, body) = request.into_parts();
        check_target(&parts.uri)?;
        let host = host(&parts.headers, &parts.uri)?;
        if !self.app.hosts.know(host) {
            return Err(unknown_host());
        }
        let handshake = parts.headers.contains_key(UPGRADE);
        let reads = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        if (!reads || handshake) && is_foreign(&parts.headers, host) {
            let remedy = "use the page that this server serves, or a program";
            return Err(Refusal::new(
                FOREIGN,
                "the request was sent by another site's page",
                remedy,
            ));
        }
        let open = match policy.access {
            Access::Public => true,
            Access::Metrics => self.app.public_metrics,
            Access::Token => false,
        };
        if !open {
            let mut seen = shown(&parts.headers);
            if seen == Shown::Nothing && handshake {
                seen = shown_in_handshake(&parts.headers);
            }
            let (principal, token) =
                self.app.sessions.authenticate(self.app.store(), seen, peer).await?;
            tracing::Span::current().record("user", tracing::field::display(principal.user.id));
            parts.extensions.insert(Caller(principal, token));
        }
        let encoded = parts.headers.get(CONTENT_ENCODING);
        if !policy.relayed && encoded.is_some_and(|encoding| encoding != "identity") {
            let remedy = "send the body as it is, without Content-Encoding";
            return Err(Refusal::new(MEDIA, "compressed bodies are not taken", remedy));
        }
        let time = match policy.patience {
            Patience::Short => self.app.limits.answer_time,
            Patience::Long => self.app.limits.long_answer_time,
        };
        // The router is always ready, and never fails.
        let routed = self.router.clone().call(Request::from_parts(parts, body));
        match tokio::time::timeout(time, routed).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(never)) => match never {},
            Err(_) => {
                let remedy = "try again in a moment";
                Err(Refusal::new(SLOW, "the answer took too long", remedy).retry_after(5))
            }
        }
    }
}

fn check_target(uri: &http::Uri) -> Result<(), Refusal> {
    let length = uri.path().len() + uri.query().map_or(0, str::len);
    if length > LONGEST_TARGET {
        let detail = format!("the address is longer than {LONGEST_TARGET} bytes");
        return Err(Refusal::new(LONG_URI, detail, "send what is long in a body"));
    }
    Ok(())
}

/// The one authority that the request is for.
fn host<'a>(headers: &'a HeaderMap, uri: &'a http::Uri) -> Result<&'a str, Refusal> {
    let mut hosts = headers.get_all(HOST_HEADER).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        let detail = "the request has no Host, or several";
        return Err(Refusal::new(MALFORMED, detail, "send one Host header"));
    };
    let host = host.to_str().map_err(|_| unknown_host())?;
    match uri.authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => Err(unknown_host()),
        _ => Ok(host),
    }
}

fn unknown_host() -> Refusal {
    let remedy = "use the address that the server printed, or start it with --allow-host NAME";
    Refusal::new(HOST, "the request is for a host that this server does not know", remedy)
}

/// After these the connection is of no more use.
fn closes(status: u16) -> bool {
    matches!(status, 408 | 413 | 414 | 415 | 421)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(list: &[&str], uri: &str) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        for value in list {
            headers.append(HOST_HEADER, value.parse().unwrap());
        }
        let uri: http::Uri = uri.parse().unwrap();
        host(&headers, &uri).map(str::to_owned).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn a_request_is_for_exactly_one_host() {
        assert_eq!(asked(&["a:1"], "/x"), Ok("a:1".to_owned()));
        assert_eq!(asked(&[], "/x"), Err(400));
        assert_eq!(asked(&["a:1", "a:1"], "/x"), Err(400));
        assert_eq!(asked(&["a:1"], "http://a:1/x"), Ok("a:1".to_owned()));
        assert_eq!(asked(&["a:1"], "http://evil.example/x"), Err(421));
    }

    #[test]
    fn an_address_has_its_length() {
        let long = format!("/{}", "a".repeat(LONGEST_TARGET)).parse().unwrap();
        assert_eq!(check_target(&long).unwrap_err().status(), 414);
        assert!(check_target(&"/a?b".parse().unwrap()).is_ok());
    }
}
