//! Every route: where it is, who may use it, how long it may take, and what
//! handles it.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, any, delete, get, post};

use crate::app::App;
use crate::problem::{METHOD, MISSING, Refusal};
use crate::{
    about, desktop, events, exec, files, jobs, notebooks, orders, outputs, page, preview,
    recording, screen, simple, terminal, uploads, users, viewer,
};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Public,
    /// Whoever has a token.
    Token,
    /// The same, unless measurements are public.
    Metrics,
}

/// How long an answer may take to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as a question to the store, or to a sandbox.
    Short,
    /// As long as a command, or an archive that comes in.
    Long,
}

/// What holds for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Its template, for measurements.
    pub(crate) route: &'static str,
    pub(crate) access: Access,
    pub(crate) patience: Patience,
    /// Whether the body is for somebody else, who may take what we do not.
    pub(crate) relayed: bool,
}

/// What holds where there is nothing.
const NOWHERE: Policy =
    Policy { route: "none", access: Access::Token, patience: Patience::Short, relayed: false };

/// What holds for the names of previews, where other rules say who may.
pub(crate) const PREVIEW: Policy =
    Policy { route: "preview", access: Access::Token, patience: Patience::Long, relayed: true };

/// What holds for which path.
pub(crate) struct Table {
    policies: matchit::Router<Policy>,
}

impl Table {
    /// What holds for this path.
    pub(crate) fn policy(&self, path: &str) -> Policy {
        self.policies.at(path).map_or(NOWHERE, |found| *found.value)
    }
}

struct Row {
    policy: Policy,
    handler: MethodRouter<Arc<App>>,
}

fn row(route: &'static str, handler: MethodRouter<Arc<App>>) -> Row {
    let (access, patience) = (Access::Token, Patience::Short);
    Row { policy: Policy { route, access, patience, relayed: false }, handler }
}

impl Row {
    fn access(mut self, access: Access) -> Self {
        self.policy.access = access;
        self
    }

    fn relayed(mut self) -> Self {
        self.policy.relayed = true;
        self.long()
    }

    fn long(mut self) -> Self {
        self.policy.patience = Patience::Long;
        self
    }
}

fn rows() -> Vec<Row> {
    let public = |route, handler| row(route, handler).access(Access::Public);
    vec![
        public("/", get(page::index)),
        public("/assets/app.js", get(page::script)),
        public("/assets/style.css", get(page::style)),
        public("/assets/novnc/{*path}", get(viewer::module)),
        public("/health", get(about::health)),
        public("/ready", get(about::ready)),
        row("/schedule", post(simple::schedule)),
        row("/submit", post(simple::schedule)),
        row("/status/{id}", get(simple::status)),
        row("/jobs/{id}/output.zip", get(outputs::zip)),
        row("/jobs/{id}/lab", get(preview::visit_lab)).long(),
        row("/jobs/{id}/ports/{port}", any(preview::by_path)).relayed(),
        row("/jobs/{id}/ports/{port}/", any(preview::by_path)).relayed(),
        row("/jobs/{id}/ports/{port}/{*path}", any(preview::by_path)).relayed(),
        row("/api/v1/jobs", get(jobs::list).post(jobs::create)),
        row("/api/v1/jobs/{id}", get(jobs::show).delete(jobs::forget)),
        row("/api/v1/jobs/{id}/events", get(events::read)),
        row("/api/v1/jobs/{id}/messages", post(orders::say)),
        row("/api/v1/jobs/{id}/cancel", post(orders::cancel)),
        row("/api/v1/jobs/{id}/pause", post(orders::pause)),
        row("/api/v1/jobs/{id}/resume", post(orders::resume)),
        row("/api/v1/jobs/{id}/files", get(files::list)),
        row(
            "/api/v1/jobs/{id}/files/content",
            get(files::read).put(files::write).delete(files::remove),
        )
        .long(),
        row("/api/v1/jobs/{id}/files/move", post(files::rename)),
        row("/api/v1/jobs/{id}/exec", post(exec::run)).long(),
        row("/api/v1/jobs/{id}/terminal", get(terminal::open)),
        row("/api/v1/jobs/{id}/desktop", get(desktop::show).post(desktop::start)),
        row("/api/v1/jobs/{id}/desktop/screen", get(screen::open)),
        row(
            "/api/v1/jobs/{id}/desktop/recording",
            get(recording::read).post(recording::start).delete(recording::stop),
        )
        .long(),
        row("/api/v1/jobs/{id}/ports", get(preview::list)),
        row("/api/v1/jobs/{id}/ports/{port}/view", post(preview::view)),
        row("/api/v1/jobs/{id}/lab", post(preview::open_lab)).long(),
        row("/api/v1/jobs/{id}/audit", get(outputs::audit)),
        row("/api/v1/jobs/{id}/artifacts", get(outputs::artifacts)),
        row("/api/v1/jobs/{id}/output.zip", get(outputs::zip)),
        row("/api/v1/jobs/{id}/output.tar.zst", get(outputs::tar)),
        row("/api/v1/jobs/{id}/output.patch", get(outputs::patch)),
        row("/api/v1/jobs/{id}/notebook.ipynb", get(notebooks::notebook)).long(),
        row("/api/v1/uploads", post(uploads::take_in)).long(),
        row("/api/v1/models", get(about::models)),
        row("/api/v1/me", get(users::me)),
        row("/api/v1/users", get(users::list).post(users::create)),
        row("/api/v1/users/{id}", delete(users::remove)),
        row("/api/v1/users/{id}/tokens", get(users::tokens).post(users::create_token)),
        row("/api/v1/tokens/{id}", delete(users::remove_token)),
        public("/api/v1/health", get(about::health)),
        row("/api/v1/ready", get(about::ready)),
        row("/api/v1/version", get(about::version)),
        row("/api/v1/metrics", get(about::metrics)).access(Access::Metrics),
        public("/api/v1/openapi.json", get(page::openapi)),
    ]
}

/// Everything that can be asked, and what holds for it.
pub(crate) fn all(app: &Arc<App>) -> (Router, Table) {
    let mut policies = matchit::Router::new();
    let mut router = Router::new();
    for Row { policy, handler } in rows() {
        // A path that is there twice is closed the second time; a test finds it.
        drop(policies.insert(policy.route, policy));
        router = router.route(policy.route, handler);
    }
    let router = router
        .fallback(|| async {
            let remedy = "see /api/v1/openapi.json for what there is";
            Refusal::new(MISSING, "there is nothing at this address", remedy)
        })
        .method_not_allowed_fallback(|| async {
            let remedy = "see the header Allow for what can be";
            Refusal::new(METHOD, "this method is not for this address", remedy)
        });
    (router.with_state(Arc::clone(app)), Table { policies })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What people and machines open that is no part of the API.
    const BESIDE: [&str; 10] = [
        "/assets/app.js",
        "/assets/style.css",
        "/assets/novnc/{*path}",
        "/ready",
        "/jobs/{id}/ports/{port}",
        "/jobs/{id}/ports/{port}/",
        "/jobs/{id}/ports/{port}/{*path}",
        "/api/v1/health",
        "/api/v1/jobs/{id}/terminal",
        "/api/v1/jobs/{id}/desktop/screen",
    ];

    #[test]
    fn the_routes_are_those_of_the_document() {
        let document = serde_json::to_value(cofferdam_api::document()).unwrap();
        let mut documented: Vec<String> =
            document["paths"].as_object().unwrap().keys().cloned().collect();
        let mut routed: Vec<String> = rows()
            .iter()
            .map(|row| row.policy.route.to_owned())
            .filter(|route| !BESIDE.contains(&route.as_str()))
            .collect();
        documented.sort();
        routed.sort();
        assert_eq!(routed, documented);
    }

    #[test]
    fn what_is_open_to_everybody_is_named_here() {
        let public: Vec<&str> = rows()
            .iter()
            .filter(|row| row.policy.access == Access::Public)
            .map(|row| row.policy.route)
            .collect();
        assert_eq!(
            public,
            [
                "/",
                "/assets/app.js",
                "/assets/style.css",
                "/assets/novnc/{*path}",
                "/health",
                "/ready",
                "/api/v1/health",
                "/api/v1/openapi.json"
            ]
        );
    }

    #[test]
    fn every_path_finds_its_policy_and_others_need_a_token() {
        let mut policies = matchit::Router::new();
        for row in rows() {
            policies.insert(row.policy.route, row.policy).unwrap();
        }
        let table = Table { policies };
        let upload = table.policy("/api/v1/uploads");
        assert_eq!((upload.access, upload.patience), (Access::Token, Patience::Long));
        assert_eq!(table.policy("/api/v1/jobs/x/events").route, "/api/v1/jobs/{id}/events");
        assert_eq!(table.policy("/health").access, Access::Public);
        for path in ["/health/", "//health", "/nothing", "/api/v1/jobs/x/y/z", ""] {
            assert_eq!(table.policy(path), NOWHERE, "{path}");
        }
    }
}
