//! What is measured, for Prometheus.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use cofferdam_fleet::Load;
use cofferdam_store::Counts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The media type of the measurements.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AtStatus {
    status: &'static str,
}

/// What is measured.
pub(crate) struct Meters {
    registry: Registry,
    requests: Family<Answered, Counter>,
    latencies: Family<Route, Histogram, fn() -> Histogram>,
    jobs: Family<AtStatus, Gauge>,
    running: Gauge,
    capacity: Gauge,
    /// Connections that are open.
    pub(crate) connections: Gauge<i64, AtomicI64>,
    /// Connections that were closed because there were too many.
    pub(crate) turned_away: Counter,
    /// Events that were sent on streams.
    pub(crate) events: Counter,
    /// Streams of events that are open.
    pub(crate) readers: Gauge,
    /// Terminals that are open.
    pub(crate) terminals: Gauge,
    /// Screens that are watched.
    pub(crate) screens: Gauge,
    memory: Gauge,
    files: Gauge,
}

fn latency() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0])
}

impl Default for Meters {
    fn default() -> Self {
        let mut meters = Self {
            registry: Registry::with_prefix("cofferdam"),
            requests: Family::default(),
            latencies: Family::new_with_constructor(latency),
            jobs: Family::default(),
            running: Gauge::default(),
            capacity: Gauge::default(),
            connections: Gauge::default(),
            turned_away: Counter::default(),
            events: Counter::default(),
            readers: Gauge::default(),
            terminals: Gauge::default(),
            screens: Gauge::default(),
            memory: Gauge::default(),
            files: Gauge::default(),
        };
        let registry = &mut meters.registry;
        registry.register("requests", "Requests that were answered", meters.requests.clone());
        registry.register(
            "request_seconds",
            "Time until an answer began",
            meters.latencies.clone(),
        );
        registry.register("jobs", "Jobs by what they are at", meters.jobs.clone());
        registry.register("jobs_running_here", "Jobs that run here", meters.running.clone());
        registry.register("jobs_capacity", "Jobs that may run here", meters.capacity.clone());
        registry.register("connections", "Open connections", meters.connections.clone());
        registry.register(
            "connections_turned_away",
            "Connections closed because there were too many",
            meters.turned_away.clone(),
        );
        registry.register("events_sent", "Events sent on streams", meters.events.clone());
        registry.register("event_readers", "Open streams of events", meters.readers.clone());
        registry.register("terminals", "Open terminals", meters.terminals.clone());
        registry.register("screens", "Screens that are watched", meters.screens.clone());
        registry.register("process_resident_bytes", "Memory in use", meters.memory.clone());
        registry.register("process_open_files", "Open files", meters.files.clone());
        meters
    }
}

impl Meters {
    /// A request was answered.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &http::Method,
        status: u16,
        took: Duration,
    ) {
        let answered = Answered { route, method: method_name(method), status };
        self.requests.get_or_create(&answered).inc();
        self.latencies.get_or_create(&Route { route }).observe(took.as_secs_f64());
    }

    /// Everything, as text.
    pub(crate) fn text(&self, counts: Counts, load: Load) -> Result<String, std::fmt::Error> {
        for (status, count) in [
            ("pending", counts.pending),
            ("running", counts.running),
            ("paused", counts.paused),
            ("complete", counts.complete),
            ("error", counts.error),
            ("cancelled", counts.cancelled),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.jobs.get_or_create(&AtStatus { status }).set(count);
        }
        self.running.set(load.running.into());
        self.capacity.set(load.capacity.into());
        self.memory.set(resident_bytes().unwrap_or(0));
        self.files.set(open_files().unwrap_or(0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The methods that there are; whatever else is sent is one of these many.
fn method_name(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

fn resident_bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

fn open_files() -> Option<i64> {
    i64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_can_be_read() {
        let meters = Meters::default();
        meters.answered("/health", &http::Method::GET, 200, Duration::from_millis(3));
        meters.answered("/health", &"BREW".parse().unwrap(), 405, Duration::ZERO);
        let counts = Counts { pending: 7, ..Counts::default() };
        let text = meters.text(counts, Load { running: 2, capacity: 9, draining: false }).unwrap();
        for line in [
            "cofferdam_requests_total{route=\"/health\",method=\"GET\",status=\"200\"} 1",
            "cofferdam_requests_total{route=\"/health\",method=\"other\",status=\"405\"} 1",
            "cofferdam_jobs{status=\"pending\"} 7",
            "cofferdam_jobs_running_here 2",
            "cofferdam_request_seconds_count{route=\"/health\"} 2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(resident_bytes().unwrap() > 100_000);
        assert!(open_files().unwrap() > 2);
    }
}
