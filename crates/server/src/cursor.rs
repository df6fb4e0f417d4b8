//! Where a list goes on. A cursor is opaque: what is in it may change.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cofferdam_types::JobId;

/// The cursor after this job.
pub(crate) fn after(job: JobId) -> String {
    URL_SAFE_NO_PAD.encode(format!("1:{job}"))
}

/// The job that a cursor comes after.
pub(crate) fn job(cursor: &str) -> Option<JobId> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    std::str::from_utf8(&bytes).ok()?.strip_prefix("1:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_job() {
        let id = JobId::generate();
        assert_eq!(job(&after(id)), Some(id));
    }

    #[test]
    fn what_is_no_cursor_leads_nowhere() {
        for text in ["", "x", "1:", "MTp4", "AAAA", &JobId::generate().to_string()] {
            assert_eq!(job(text), None, "{text}");
        }
    }
}
