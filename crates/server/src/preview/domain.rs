//! The names of previews: `{port}-{job}.{domain}`. Each is an origin of its own, so that
//! a browser keeps the pages of a sandbox apart from ours and from each other.

use cofferdam_types::JobId;

use crate::hosts::split;

/// The domain that browsers lead to their own machine, whatever stands before it.
const LOCALHOST: &str = "localhost";

/// Which web server, in the sandbox of which job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    pub(crate) job: JobId,
    pub(crate) port: u16,
}

/// The domain that previews are shown below.
#[derive(Debug)]
pub(crate) struct Domain {
    name: String,
    /// The port that it is reached by, where that is not the one of the main address.
    port: Option<u16>,
    /// Nobody has named one: only people on this machine come to `localhost`.
    assumed: bool,
}

impl Domain {
    /// The configured one, `NAME` or `NAME:PORT`. Fails with one that is none.
    pub(crate) fn new(configured: Option<&str>) -> Result<Self, String> {
        let Some(text) = configured else {
            return Ok(Self { name: LOCALHOST.to_owned(), port: None, assumed: true });
        };
        let outer = |name: &str| {
            // An address has no names below it.
            name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok()
        };
        match split(text) {
            Some((name, port)) if !outer(name) && !name.starts_with('.') => {
                Ok(Self { name: name.to_ascii_lowercase(), port, assumed: false })
            }
            _ => Err(text.to_owned()),
        }
    }

    /// What a request for this authority is to see; none if it is not for a preview.
    pub(crate) fn spot(&self, authority: &str) -> Option<Spot> {
        let (name, _) = split(authority)?;
        let name = name.to_ascii_lowercase();
        let label = name.strip_suffix(&self.name)?.strip_suffix('.')?;
        let (port, job) = label.split_once('-')?;
        // Each job has one origin: other spellings of its id are not known.
        let id: JobId = job.parse().ok().filter(|id: &JobId| id.to_string() == job)?;
        Some(Spot { port: parse_port(port)?, job: id })
    }

    /// The origin of a preview for somebody who reached us by this authority; none where
    /// that person's browser would not come to us.
    pub(crate) fn origin(&self, spot: Spot, authority: &str, secure: bool) -> Option<String> {
        let (name, port) = split(authority)?;
        let near = || {
            let address = name.trim_start_matches('[').trim_end_matches(']');
            let address = address.parse::<std::net::IpAddr>();
            name.eq_ignore_ascii_case(LOCALHOST) || address.is_ok_and(|one| one.is_loopback())
        };
        if self.assumed && !near() {
            return None;
        }
        let scheme = if secure { "https" } else { "http" };
        let Spot { job, port: inner } = spot;
        let port = self.port.or(port).map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{scheme}://{inner}-{job}.{}{port}", self.name))
    }
}

/// A port, written in the one way there is.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    let port: u16 = text.parse().ok()?;
    (port != 0 && port.to_string() == text).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "019a0000-0000-7000-8000-000000000000";

    fn spot(port: u16) -> Spot {
        Spot { job: JOB.parse().unwrap(), port }
    }

    #[test]
    fn a_label_names_a_port_and_a_job() {
        let domain = Domain::new(None).unwrap();
        for authority in [
            format!("3000-{JOB}.localhost:8000"),
            format!("3000-{JOB}.localhost"),
            format!("3000-{}.LocalHost:1", JOB.to_uppercase()),
        ] {
            assert_eq!(domain.spot(&authority), Some(spot(3000)), "{authority}");
        }
    }

    #[test]
    fn other_names_are_no_previews() {
        let domain = Domain::new(Some("view.example")).unwrap();
        for authority in [
            "view.example".to_owned(),
            ".view.example".to_owned(),
            format!("3000-{JOB}"),
            format!("3000-{JOB}.localhost"),
            format!("3000-{JOB}.view.example.evil.example"),
            format!("3000-{JOB}.evilview.example"),
            format!("3000-{JOB}view.example"),
            format!("3000-{JOB}.view.example."),
            format!("3000-{JOB}.view.example:x"),
            format!("x.3000-{JOB}.view.example"),
            format!("0-{JOB}.view.example"),
            format!("03000-{JOB}.view.example"),
            format!("+3000-{JOB}.view.example"),
            format!("70000-{JOB}.view.example"),
            format!("-{JOB}.view.example"),
            format!("3000-{}.view.example", JOB.replace('-', "")),
            "3000-x.view.example".to_owned(),
        ] {
            assert_eq!(domain.spot(&authority), None, "{authority}");
        }
    }

    #[test]
    fn an_origin_leads_back_to_its_spot() {
        for (configured, authority, secure, origin) in [
            (None, "127.0.0.1:8000", false, format!("http://5-{JOB}.localhost:8000")),
            (None, "localhost", false, format!("http://5-{JOB}.localhost")),
            (None, "[::1]:8000", false, format!("http://5-{JOB}.localhost:8000")),
            (Some("a.example"), "b.example", true, format!("https://5-{JOB}.a.example")),
            (Some("A.example:81"), "b.example:1", true, format!("https://5-{JOB}.a.example:81")),
            (Some("localhost"), "10.0.0.1:1", false, format!("http://5-{JOB}.localhost:1")),
        ] {
            let domain = Domain::new(configured).unwrap();
            let made = domain.origin(spot(5), authority, secure).unwrap();
            assert_eq!(made, origin);
            let (_, authority) = made.split_once("://").unwrap();
            assert_eq!(domain.spot(authority), Some(spot(5)));
        }
    }

    #[test]
    fn people_elsewhere_are_not_sent_to_their_own_machine() {
        let domain = Domain::new(None).unwrap();
        for authority in ["10.0.0.5:8000", "cofferdam.example", "localhost.example"] {
            assert_eq!(domain.origin(spot(5), authority, false), None, "{authority}");
        }
    }

    #[test]
    fn what_is_no_domain_cannot_be_configured() {
        for text in ["", "a b", ".example", "10.0.0.1", "[::1]", "http://x", "x:port"] {
            assert_eq!(Domain::new(Some(text)).err().as_deref(), Some(text));
        }
    }
}
