//! The page for people, and the document for programs: the same bytes for
//! everybody.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::headers::PAGE;

/// `GET /`.
pub(crate) async fn index() -> Response {
    fixed("text/html; charset=utf-8", include_str!("page/index.html"))
}

/// One module, so that one answer brings it whole.
const SCRIPT: &str = concat!(
    include_str!("page/wire.js"),
    include_str!("page/words.js"),
    include_str!("page/list.js"),
    include_str!("page/desk.js"),
    include_str!("page/ports.js"),
    include_str!("page/job.js"),
    include_str!("page/app.js"),
);

/// `GET /assets/app.js`.
pub(crate) async fn script() -> Response {
    fixed("text/javascript; charset=utf-8", SCRIPT)
}

/// `GET /assets/style.css`.
pub(crate) async fn style() -> Response {
    fixed("text/css; charset=utf-8", include_str!("page/style.css"))
}

/// `GET /api/v1/openapi.json`.
pub(crate) async fn openapi() -> Response {
    fixed("application/json", include_str!("../../api/openapi.json"))
}

fn fixed(media_type: &'static str, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(Bytes::from_static(text.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_SECURITY_POLICY, PAGE);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_makes_text_and_never_html() {
        let sinks = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "createContextualFragment",
            "setHTML",
            "srcdoc",
            "eval(",
            "new Function",
            "localStorage",
        ];
        for sink in sinks {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
    }

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        let page = include_str!("page/index.html");
        for part in
            [" style=", "<style", "javascript:", "src=\"http", "href=\"http", " onclick", " onload"]
        {
            assert!(!page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("<script type=\"module\" src=\"/assets/app.js\"></script>"));
    }
}
