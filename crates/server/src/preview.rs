//! Previews: the pages of web servers that run in a job's sandbox.
//!
//! - Programs ask for them below `/jobs/{id}/ports/{port}/` with a token. Nothing that is
//!   answered there can do anything on our own origin, should a browser show it.
//! - Browsers see them on an origin of its own, `{port}-{job}.{domain}`, which they enter
//!   with a ticket that works once. Requests for such a name reach a sandbox or nothing;
//!   no cookie says anything on any other name.

mod crowd;
mod domain;
mod filter;
mod lab;
mod location;
mod passes;
mod relay;
mod stream;
mod whole;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::response::Response;
use cofferdam_api::{PortList, PreviewLink, SandboxPort};
use cofferdam_sandbox::listeners;
use cofferdam_store::{JobRow, TokenHash};
use http::header::{CACHE_CONTROL, HOST, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::app::{App, place};
use crate::exec::visitor_call;
use crate::files::wanted_back;
use crate::origin::is_foreign;
use crate::problem::{FOREIGN, NO_TOKEN, Refusal, UNFIT};
use crate::request::{Caller, Id, json};

pub(crate) use domain::{Domain, Spot};
pub(crate) use lab::{open as open_lab, visit as visit_lab};

use crowd::Crowd;
use filter::Outside;
use passes::{Pass, Passes, TICKET, set_cookie, split_ticket};
use relay::{Errand, Stay};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What previews have at hand.
pub(crate) struct Previews {
    pub(crate) domain: Domain,
    passes: Passes,
    crowd: Arc<Crowd>,
    starts: lab::Starts,
}

impl Previews {
    pub(crate) fn new(domain: Domain) -> Self {
        let (passes, starts) = (Passes::default(), lab::Starts::default());
        Self { domain, passes, crowd: Arc::default(), starts }
    }
}

/// The `{port}` of the route.
pub(crate) struct Port(u16);

impl FromRequestParts<Arc<App>> for Port {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let unfit = || {
            let remedy = "name a port from 1 to 65535: GET /api/v1/jobs/{id}/ports";
            Refusal::new(UNFIT, "this is no port", remedy)
        };
        let parameters = RawPathParams::from_request_parts(parts, app).await;
        let parameters = parameters.map_err(|_| unfit())?;
        let port = parameters.iter().find(|(name, _)| *name == "port");
        let port = port.and_then(|(_, port)| domain::parse_port(port));
        port.map(Self).ok_or_else(unfit)
    }
}

/// `GET /api/v1/jobs/{id}/ports`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let _place = place(&app.room.commands, "commands")?;
    let visit = app.fleet.visit(&row).await?;
    let found = tokio::select! {
        found = listeners(&visit, visitor_call()?) => found?,
        () = visit.over() => return Err(wanted_back()),
    };
    let told = |one: &cofferdam_sandbox::Listener| SandboxPort {
        port: one.port,
        address: one.address.to_string(),
        loopback_only: one.address.is_loopback(),
    };
    let ports = found.iter().filter(|one| one.is_reachable()).map(told).collect();
    json(StatusCode::OK, &PortList { ports })
}

/// `POST /api/v1/jobs/{id}/ports/{port}/view`.
pub(crate) async fn view(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    Port(port): Port,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    // So that nobody is led to a page that only says this.
    drop(app.fleet.visit(&row).await?);
    let url = link(&app, caller.1, &headers, Spot { job: row.id, port }, "/")?;
    json(StatusCode::OK, &PreviewLink { url })
}

/// The address of a preview, with a ticket in it, for whoever sent these headers.
fn link(
    app: &App,
    token: TokenHash,
    headers: &HeaderMap,
    spot: Spot,
    path: &str,
) -> Result<String, Refusal> {
    let secure = is_secure(app, headers);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let Some(origin) = app.previews.domain.origin(spot, host, secure) else {
        let detail = "this server has no names for previews that other machines could reach";
        let remedy = "start it with --preview-domain NAME, all names below which lead to it; or \
                      ask for /jobs/{id}/ports/{port}/ with a token";
        return Err(Refusal::new(UNFIT, detail, remedy));
    };
    let pass = Pass { token, spot, secure };
    let ticket = app.previews.passes.ticket(pass, Instant::now());
    let ticket = ticket.map_err(|error| Refusal::internal(&error))?;
    Ok(format!("{origin}{path}?{TICKET}={ticket}"))
}

/// Whether a client speaks TLS: to us, or to a proxy in front of us. Whoever lies about
/// that gets an address that does not work.
fn is_secure(app: &App, headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, beginning: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| {
            value.get(..beginning.len()).is_some_and(|first| first.eq_ignore_ascii_case(beginning))
        })
    };
    app.tls || says(&ORIGIN, "https://") || says(&FORWARDED_PROTO, "https")
}

/// `/jobs/{id}/ports/{port}/…`: for programs, with a token.
pub(crate) async fn by_path(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id,
    Port(port): Port,
    request: Request,
) -> Result<Response, Refusal> {
    let row = app.job(&caller.0, &id).await?;
    let (parts, body) = request.into_parts();
    let prefix = format!("/jobs/{}/ports/{port}", row.id);
    let rest = parts.uri.path().splitn(6, '/').nth(5).unwrap_or_default();
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = PathAndQuery::try_from(format!("/{rest}{query}"));
    let path = path.map_err(|_| Refusal::malformed("the path is none"))?;
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let outside = Outside {
        authority: host.to_owned(),
        secure: is_secure(&app, &parts.headers),
        port,
        prefix: Some(prefix),
    };
    errand(&app, caller.1, &row, outside).await?.run(path, parts, body).await
}

async fn errand(
    app: &Arc<App>,
    token: TokenHash,
    row: &JobRow,
    outside: Outside,
) -> Result<Errand, Refusal> {
    let seat = app.previews.crowd.admit(row.id)?;
    let visit = app.fleet.visit(row).await?;
    let stay = Arc::new(Stay { visit, _seat: seat });
    Ok(Errand { app: Arc::clone(app), token, stay, outside })
}

/// Answers a request for a name of previews.
pub(crate) async fn answer(
    app: &Arc<App>,
    spot: Spot,
    host: &str,
    parts: Parts,
    body: Body,
) -> Response {
    match enter(app, spot, host, parts, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.plain(),
    }
}

async fn enter(
    app: &Arc<App>,
    spot: Spot,
    host: &str,
    parts: Parts,
    body: Body,
) -> Result<Response, Refusal> {
    if is_strange(&parts, host) {
        let remedy = "open the preview by itself";
        return Err(Refusal::new(FOREIGN, "another site's page asks for this", remedy));
    }
    let now = Instant::now();
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    if reads && let Some((ticket, rest)) = split_ticket(parts.uri.query().unwrap_or_default()) {
        let redeemed = app.previews.passes.redeem(ticket, spot, now);
        if let Some((pass, secret)) = redeemed.map_err(|error| Refusal::internal(&error))? {
            return led_on(parts.uri.path(), &rest, Some(&set_cookie(&pass, &secret)));
        }
        // A page that is loaded again has its cookie.
        if app.previews.passes.shown(&parts.headers, spot, now).is_some() {
            return led_on(parts.uri.path(), &rest, None);
        }
        return Err(no_way_in(spot));
    }
    let pass = app.previews.passes.shown(&parts.headers, spot, now);
    let pass = pass.ok_or_else(|| no_way_in(spot))?;
    let Some(principal) = app.sessions.principal(app.store(), pass.token).await? else {
        app.previews.passes.forget(pass.token);
        return Err(no_way_in(spot));
    };
    let row = app.job(&principal, &spot.job.to_string()).await?;
    let path = parts.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let (authority, secure) = (host.to_owned(), pass.secure);
    let outside = Outside { authority, secure, port: spot.port, prefix: None };
    errand(app, pass.token, &row, outside).await?.run(path, parts, body).await
}

/// Whether a page of another origin asks for this, other than by leading people here.
fn is_strange(parts: &Parts, host: &str) -> bool {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let is = |name: HeaderName, value: &str| parts.headers.get(name).is_some_and(|it| it == value);
    if reads && is(FETCH_MODE, "navigate") && is(FETCH_DEST, "document") {
        return false;
    }
    let changes = !reads || parts.headers.contains_key(UPGRADE);
    // Programs do not say where a page came from, nor do browsers of every request.
    let told = [FETCH_SITE, ORIGIN].iter().any(|name| parts.headers.contains_key(name));
    (changes || told) && is_foreign(&parts.headers, host)
}

/// To the same address without the ticket.
fn led_on(path: &str, query: &str, cookie: Option<&str>) -> Result<Response, Refusal> {
    // Two slashes would name another host.
    let path = format!("/{}", path.trim_start_matches(['/', '\\']));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    see_other(&format!("{path}{query}"), cookie)
}

/// To another address, which is for nobody else.
fn see_other(address: &str, cookie: Option<&str>) -> Result<Response, Refusal> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    let value = |text: &str| HeaderValue::from_str(text).map_err(|e| Refusal::internal(&e));
    headers.insert(LOCATION, value(address)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Some(cookie) = cookie {
        headers.insert(SET_COOKIE, value(cookie)?);
    }
    Ok(response)
}

fn no_way_in(Spot { job, port }: Spot) -> Refusal {
    let remedy = format!(
        "open it from the job's page, or by the address that POST \
         /api/v1/jobs/{job}/ports/{port}/view answers: it works once, for a minute"
    );
    Refusal::new(NO_TOKEN, "this preview is for those who were let in", remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST_NAME: &str = "80-x.localhost:8000";

    fn strange(method: Method, list: &[(&'static str, &'static str)]) -> bool {
        let mut request = http::Request::builder().method(method);
        for (name, value) in list {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        is_strange(&parts, HOST_NAME)
    }

    #[test]
    fn people_are_led_here_and_pages_of_others_get_nothing() {
        let site = |site| ("sec-fetch-site", site);
        let (navigate, document) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        let own = ("origin", "http://80-x.localhost:8000");
        let other = ("origin", "http://81-x.localhost:8000");
        for (method, list) in [
            (Method::GET, vec![]),
            (Method::POST, vec![]),
            (Method::GET, vec![site("cross-site"), navigate, document]),
            (Method::GET, vec![site("same-origin"), ("sec-fetch-mode", "cors"), own]),
            (Method::POST, vec![site("same-origin"), own]),
            (Method::GET, vec![("upgrade", "websocket"), own]),
        ] {
            assert!(!strange(method, &list), "{list:?}");
        }
        for (method, list) in [
            (Method::POST, vec![other]),
            (Method::POST, vec![("origin", "null")]),
            (Method::POST, vec![site("cross-site"), navigate, document]),
            (Method::GET, vec![site("same-site"), ("sec-fetch-mode", "no-cors")]),
            (Method::GET, vec![site("cross-site"), navigate, ("sec-fetch-dest", "iframe")]),
            (Method::GET, vec![("upgrade", "websocket"), other]),
            (Method::GET, vec![other]),
            (Method::OPTIONS, vec![other]),
        ] {
            assert!(strange(method, &list), "{list:?}");
        }
    }

    #[test]
    fn a_ticket_leads_to_nobody_else() {
        let led = |path| led_on(path, "", None).unwrap().headers()[LOCATION].clone();
        assert_eq!(led("/a"), "/a");
        assert_eq!(led("//evil.example/"), "/evil.example/");
        assert_eq!(led("/\\/evil.example/"), "/evil.example/");
        let led = led_on("/a", "b=c", Some("x=y")).unwrap();
        assert_eq!(led.headers()[LOCATION], "/a?b=c");
        assert_eq!(led.headers()[SET_COOKIE], "x=y");
    }
}
