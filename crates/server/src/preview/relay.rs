//! One request, carried to a program in a sandbox, and its answer back.
//!
//! Each has a connection of its own through the guest. It ends when the client goes, when
//! the sandbox is wanted back, when the token is valid no more, when nothing passes for
//! too long, and when the server stops. What the program answers is read by the rules and
//! within bounds, or the connection is cut.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use cofferdam_fleet::Visit;
use cofferdam_guest_protocol::TunnelTarget;
use cofferdam_sandbox::{CallError, Tunnel};
use cofferdam_store::TokenHash;
use futures_util::stream;
use http::header::{CONNECTION, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::copy;

use super::crowd::Seat;
use super::filter::{self, Outside};
use super::stream::{Activity, Watched};
use super::whole::{Cut, Whole};
use crate::app::{App, place};
use crate::body::Streamed;
use crate::connection::Impatient;
use crate::exec::visitor_call;
use crate::files::wanted_back;
use crate::problem::{BROKEN, Refusal, SILENT, UNAVAILABLE, UNFIT};

/// Time to be connected, inside.
const CONNECT: Duration = Duration::from_secs(15);
/// Time in which nothing may pass before the answer begins.
const ANSWER: Duration = Duration::from_secs(120);
/// Bytes of the head of an answer, and what is kept of one that is not read.
const BUFFER: usize = 64 << 10;
/// Headers of an answer.
const MOST_HEADERS: usize = 128;
/// Ports that are named where nothing listens.
const MOST_NAMED: usize = 20;

/// Whose request it is, and where it leads.
pub(crate) struct Errand {
    pub(crate) app: Arc<App>,
    pub(crate) token: TokenHash,
    pub(crate) stay: Arc<Stay>,
    pub(crate) outside: Outside,
}

/// A stay in a sandbox, with its place among others.
pub(crate) struct Stay {
    pub(crate) visit: Visit,
    pub(crate) _seat: Seat,
}

impl Errand {
    /// Carries the request for this path to the program, and its answer back.
    pub(crate) async fn run(
        &self,
        path: PathAndQuery,
        parts: Parts,
        body: Body,
    ) -> Result<Response, Refusal> {
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            let detail = format!("{} is not passed on", parts.method);
            return Err(Refusal::new(UNFIT, detail, "use another method"));
        }
        let mut parts = parts;
        let websocket = wants_websocket(&parts.headers);
        let client = websocket.then(|| parts.extensions.remove::<OnUpgrade>()).flatten();
        let headers = filter::request(&parts.headers, &self.outside);
        let mut request = Request::new(self.body(&parts.headers, body, websocket)?);
        *request.method_mut() = parts.method;
        *request.uri_mut() = Uri::from(path.clone());
        *request.headers_mut() = headers;
        let connection = if websocket { "Upgrade" } else { "close" };
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static(connection));
        if websocket {
            request.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        let (activity, cut) = (Activity::new(), Cut::default());
        let answer = tokio::select! {
            () = self.stay.visit.over() => return Err(wanted_back()),
            answer = self.send(request, &activity, &cut) => answer,
            () = activity.silence(ANSWER) => return Err(silent()),
        };
        // A job that ends takes its programs along, and says so before it does.
        let mut answer = match answer {
            Err(_) if self.stay.visit.is_over() => return Err(wanted_back()),
            answer => answer?,
        };
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(client) = client.filter(|_| is_websocket(answer.headers())) else {
                return Err(broken(&"it changed the protocol without being asked to"));
            };
            let program = hyper::upgrade::on(&mut answer);
            self.join(client, program, activity);
            filter::handshake(answer.headers_mut());
            let headers = answer.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            return Ok(answer.map(|_| Body::empty()));
        }
        match &self.outside.prefix {
            None => filter::answer_on_own_origin(answer.headers_mut(), &self.outside),
            Some(_) => {
                let path = path.as_str();
                filter::answer_on_main_origin(answer.headers_mut(), &self.outside, path);
            }
        }
        Ok(answer.map(|body| Body::new(Whole::new(body, cut))))
    }

    /// What the client sends, within the bounds of a file that is sent into a sandbox.
    fn body(&self, headers: &HeaderMap, body: Body, websocket: bool) -> Result<Body, Refusal> {
        if websocket || body.is_end_stream() {
            return Ok(Body::empty());
        }
        let limits = &self.app.limits;
        let streamed = Streamed::new(headers, body, limits.file, limits)?;
        let pieces = stream::unfold(Some(streamed), |streamed| async {
            let mut streamed = streamed?;
            match streamed.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(streamed))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Body::from_stream(pieces))
    }

    async fn send(
        &self,
        request: Request<Body>,
        activity: &Activity,
        cut: &Cut,
    ) -> Result<http::Response<hyper::body::Incoming>, Refusal> {
        let tunnel = Watched::new(self.connect().await?, activity.clone());
        let io = TokioIo::new(Impatient::new(tunnel, self.app.limits.stall));
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER)
            .max_headers(MOST_HEADERS)
            .title_case_headers(true)
            .handshake(io)
            .await
            .map_err(|error| broken(&error))?;
        let (app, token) = (Arc::clone(&self.app), self.token);
        let (stay, activity, cutting) = (Arc::clone(&self.stay), activity.clone(), cut.clone());
        self.app.tasks.spawn(async move {
            let over = async {
                over(&app, token, &stay.visit, &activity).await;
                // Before the connection is dropped, which ends the body.
                cutting.make();
            };
            tokio::select! {
                ended = connection.with_upgrades() => if let Err(error) = ended {
                    tracing::debug!(error = %error, "a program in a sandbox answered badly");
                },
                () = over => {}
            }
        });
        sender.send_request(request).await.map_err(|error| match error {
            _ if cut.is_made() => let_go(),
            error if error.is_user() => cut_short(),
            error => broken(&error),
        })
    }

    async fn connect(&self) -> Result<Tunnel, Refusal> {
        let port = self.outside.port;
        let connect = self.stay.visit.tunnel(visitor_call()?, TunnelTarget::Tcp(port));
        match tokio::time::timeout(CONNECT, connect).await {
            Ok(Ok(tunnel)) => Ok(tunnel),
            Ok(Err(CallError::Tunnel { .. })) => Err(self.nothing_there().await),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(silent()),
        }
    }

    /// Nothing listens there: what does?
    async fn nothing_there(&self) -> Refusal {
        let port = self.outside.port;
        // A page that asks for many things at once does not fill the sandbox with looks.
        let ports = match (place(&self.app.room.commands, "commands"), visitor_call()) {
            (Ok(_place), Ok(call)) => {
                cofferdam_sandbox::listening(&self.stay.visit, call).await.ok()
            }
            _ => None,
        };
        let remedy = match ports {
            Some(ports) if !ports.is_empty() => {
                let named: Vec<String> =
                    ports.iter().take(MOST_NAMED).map(ToString::to_string).collect();
                format!("these ports answer there: {}", named.join(", "))
            }
            _ => "start the program first; nothing listens in the sandbox now".to_owned(),
        };
        Refusal::new(BROKEN, format!("nothing listens on port {port} in the sandbox"), remedy)
    }

    /// Lets client and program talk, once both are ready to.
    fn join(&self, client: OnUpgrade, program: OnUpgrade, activity: Activity) {
        let (app, token) = (Arc::clone(&self.app), self.token);
        let stay = Arc::clone(&self.stay);
        self.app.tasks.spawn(async move {
            let talk = async {
                let (client, program) = tokio::try_join!(client, program)?;
                let io = |upgraded: Upgraded| TokioIo::new(upgraded);
                let ((mut heard, mut said), (mut answered, mut asked)) =
                    (tokio::io::split(io(client)), tokio::io::split(io(program)));
                // A WebSocket is over when either side is.
                tokio::select! {
                    _ = copy(&mut heard, &mut asked) => {}
                    _ = copy(&mut answered, &mut said) => {}
                }
                Ok::<_, hyper::Error>(())
            };
            tokio::select! {
                talked = talk => if let Err(error) = talked {
                    tracing::debug!(error = %error, "no WebSocket");
                },
                () = over(&app, token, &stay.visit, &activity) => {}
            }
        });
    }
}

/// Waits until a connection has to end.
async fn over(app: &App, token: TokenHash, visit: &Visit, activity: &Activity) {
    let invalid = async {
        loop {
            tokio::time::sleep(app.limits.heartbeat).await;
            if !app.sessions.is_valid(app.store(), token).await {
                return;
            }
        }
    };
    tokio::select! {
        () = invalid => {}
        () = visit.over() => {}
        () = app.stopping.cancelled() => {}
        () = activity.silence(app.limits.terminal_idle) => {}
    }
}

/// Whether a request is the handshake of a WebSocket. Other protocols are not changed to.
fn wants_websocket(headers: &HeaderMap) -> bool {
    is_websocket(headers)
        && headers.contains_key(SEC_WEBSOCKET_VERSION)
        && names(headers, &CONNECTION, "upgrade")
}

fn is_websocket(headers: &HeaderMap) -> bool {
    names(headers, &UPGRADE, "websocket")
}

fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}

fn let_go() -> Refusal {
    let detail = "the server stops, or the token is valid no more";
    Refusal::new(UNAVAILABLE, detail, "try again in a moment").retry_after(2)
}

fn cut_short() -> Refusal {
    Refusal::malformed("the body was too long or too slow, or ended before its end")
}

fn silent() -> Refusal {
    let remedy = "look at what the program does: open a terminal, or read its log";
    Refusal::new(SILENT, "the program in the sandbox does not answer", remedy)
}

fn broken(cause: &dyn std::fmt::Display) -> Refusal {
    let detail = format!("the program in the sandbox does not answer as HTTP wants: {cause}");
    Refusal::new(BROKEN, detail, "check that a web server listens on this port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_handshakes_of_websockets_are_passed_on() {
        let wants = |list: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in list {
                headers.append(*name, HeaderValue::from_static(value));
            }
            wants_websocket(&headers)
        };
        let version = ("sec-websocket-version", "13");
        assert!(wants(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket"), version]));
        assert!(!wants(&[("connection", "upgrade"), ("upgrade", "h2c"), version]));
        assert!(!wants(&[("upgrade", "websocket"), version]));
        assert!(!wants(&[("connection", "upgrade"), ("upgrade", "websocket")]));
        assert!(!wants(&[]));
    }
}
