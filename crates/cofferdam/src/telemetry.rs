//! What the server tells of itself: a log, and, if asked, traces for a collector
//! that speaks OpenTelemetry.

use std::time::Duration;

use cofferdam_cli::ServeArguments;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// How long the collector may take for one batch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a collector's answer.
const LONGEST_ANSWER: usize = 64 << 10;

/// Tells until it is finished.
pub(crate) struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Sends what was not sent yet, as far as the collector takes it.
    pub(crate) async fn finish(self) {
        let Some(traces) = self.traces else { return };
        let flushed =
            tokio::task::spawn_blocking(move || traces.shutdown_with_timeout(PATIENCE)).await;
        if let Ok(Err(error)) = flushed {
            tracing::warn!(%error, "some traces were not sent");
        }
    }
}

/// Begins to tell.
pub(crate) fn begin(arguments: &ServeArguments) -> Result<Telemetry, String> {
    let filter = EnvFilter::try_new(&arguments.log).map_err(|error| format!("--log: {error}"))?;
    let traces = arguments.otlp.as_deref().map(provider).transpose()?;
    let registry = tracing_subscriber::registry().with(traces.as_ref().map(layer)).with(
        // The collector gets every span of ours, whatever is logged here.
        log(arguments.log_json).with_filter(filter),
    );
    registry.try_init().map_err(|error| error.to_string())?;
    Ok(Telemetry { traces })
}

/// One line an event, on stderr. Control characters in it are escaped.
fn log<S: Subscriber + Send + Sync + for<'a> LookupSpan<'a>>(
    json: bool,
) -> Box<dyn Layer<S> + Send + Sync> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    if json { Box::new(lines.json()) } else { Box::new(lines.with_ansi(false)) }
}

fn layer<S: Subscriber + Send + Sync + for<'a> LookupSpan<'a>>(
    traces: &SdkTracerProvider,
) -> Box<dyn Layer<S> + Send + Sync> {
    let ours = tracing_subscriber::filter::filter_fn(|about| {
        about.is_span() && about.target().starts_with("cofferdam")
    });
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("cofferdam"));
    Box::new(layer.with_location(false).with_threads(false).with_filter(ours))
}

fn provider(url: &str) -> Result<SdkTracerProvider, String> {
    if !url.starts_with("http://") {
        return Err(format!("--otlp: {url:?} is not an http:// address of a collector"));
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(OnRuntime { runtime: Handle::current() })
        .with_endpoint(format!("{}/v1/traces", url.trim_end_matches('/')))
        .with_timeout(PATIENCE)
        .build()
        .map_err(|error| format!("--otlp: {error}"))?;
    let resource = Resource::builder().with_service_name("cofferdam").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// Sends on the server's own run-time: batches are made on a thread without one.
#[derive(Debug)]
struct OnRuntime {
    runtime: Handle,
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = async { tokio::time::timeout(PATIENCE, send(request)).await };
        self.runtime.spawn(sending).await??
    }
}

/// Sends one batch, by a connection of its own: a collector is asked once in a few
/// seconds.
async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().ok_or("the collector's address has no host")?.clone();
    let address = (authority.host().to_owned(), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await?;
    head.headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
    head.uri =
        Uri::from(head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let answer = sender.send_request(Request::from_parts(head, Full::new(body))).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
        Ok::<_, HttpError>(Response::from_parts(head, body))
    };
    tokio::pin!(exchange);
    // The connection moves only while somebody looks at it.
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}
