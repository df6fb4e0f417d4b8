//! How programs inside find the proxy.

/// The port on loopback, inside, where the proxy listens.
pub const PORT: u16 = 3128;

/// What starts a tool so that it asks the proxy for loopback too: the host's, if it is listed.
pub(crate) const PAST_LOOPBACK: &str = "env -u no_proxy -u NO_PROXY";

/// The variables for every command inside, so that usual tools go through the
/// proxy at this port.
///
/// `ALL_PROXY` names the HTTP side, not the SOCKS side, although both are served
/// at the same port: a Python program with `httpx` fails at its first client if
/// the variable names SOCKS and the package for it is not installed. Tools that
/// want SOCKS are given `socks5h://127.0.0.1:PORT`.
#[must_use]
pub fn environment(port: u16) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    // What runs inside is reached without the proxy, which would look outside. Also where a rule
    // names loopback: no tool could reach a server of its own any more, on any port.
    let inside = "localhost,127.0.0.1,::1";
    let mut variables = Vec::new();
    for (name, value) in [
        ("http_proxy", proxy.as_str()),
        ("https_proxy", &proxy),
        ("all_proxy", &proxy),
        ("no_proxy", inside),
    ] {
        // curl and git read the lower case, others the upper case.
        variables.push((name.to_owned(), value.to_owned()));
        variables.push((name.to_ascii_uppercase(), value.to_owned()));
    }
    // Node's own fetch and http read the variables above only if told to.
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_told_in_both_cases_and_loopback_is_left_alone() {
        let variables = environment(PORT);
        let value = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            assert_eq!(value(name), "http://127.0.0.1:3128", "{name}");
        }
        assert_eq!(value("no_proxy"), "localhost,127.0.0.1,::1");
        assert_eq!(value("NO_PROXY"), value("no_proxy"));
        assert_eq!(value("NODE_USE_ENV_PROXY"), "1");
    }
}
