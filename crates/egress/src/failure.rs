//! Why a request did not get its connection, and how each protocol says so.

use std::io;

use crate::environment::PAST_LOOPBACK;
use crate::policy::Denied;
use crate::target::Host;

/// Why a request was not served. The text says what is wrong with the request,
/// without naming the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Malformed(&'static str),
    #[error("the request's head is longer than 64 KiB or 100 headers")]
    HeadTooLong,
    #[error("the request's head did not arrive in time")]
    HeadTimedOut,
    #[error("too many connections are open")]
    Busy,
    #[error("this SOCKS command is not supported, only CONNECT is")]
    SocksCommand,
    #[error("this SOCKS address type is not known")]
    SocksAddressType,
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("the name cannot be resolved: {0}")]
    Unresolved(io::Error),
    #[error("the name was not resolved in time")]
    ResolveTimedOut,
    #[error("the host cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error("the host did not accept the connection in time")]
    ConnectTimedOut,
    #[error("the host's answer is not HTTP/1: {0}")]
    Answer(&'static str),
    #[error("the host did not answer in time")]
    AnswerTimedOut,
    #[error("the connection to the host broke: {0}")]
    Broken(io::ErrorKind),
    #[error("the proxy had to end: {0}")]
    Proxy(String),
}

impl Failure {
    /// What the log says: a word for the kind, and the reason.
    pub(crate) fn verdict(&self) -> String {
        let kind = match self {
            Self::Denied(_) => "denied",
            Self::Busy => "busy",
            Self::Malformed(_)
            | Self::HeadTooLong
            | Self::HeadTimedOut
            | Self::SocksCommand
            | Self::SocksAddressType => "malformed",
            Self::Unresolved(_)
            | Self::ResolveTimedOut
            | Self::Unreachable(_)
            | Self::ConnectTimedOut
            | Self::Answer(_)
            | Self::AnswerTimedOut
            | Self::Broken(_)
            | Self::Proxy(_) => "failed",
        };
        format!("{kind}: {self}")
    }

    /// The answer to an HTTP client: a status, and a text that a person or a
    /// model can act on.
    pub(crate) fn http(&self, host: &str, port: u16) -> Vec<u8> {
        let status = match self {
            Self::Malformed(_) | Self::SocksCommand | Self::SocksAddressType => "400 Bad Request",
            Self::Denied(Denied::Spelling) => "400 Bad Request",
            Self::Denied(_) => "403 Forbidden",
            Self::HeadTimedOut => "408 Request Timeout",
            Self::HeadTooLong => "431 Request Header Fields Too Large",
            Self::Unresolved(_) | Self::Unreachable(_) | Self::Answer(_) | Self::Broken(_) => {
                "502 Bad Gateway"
            }
            Self::Busy | Self::Proxy(_) => "503 Service Unavailable",
            Self::ResolveTimedOut | Self::ConnectTimedOut | Self::AnswerTimedOut => {
                "504 Gateway Timeout"
            }
        };
        let mut text = String::from("cofferdam: ");
        if !host.is_empty() {
            text.push_str(&format!("no connection to {host}:{port}: "));
        }
        text.push_str(&format!("{self}\n"));
        if let (Self::Denied(denied), Some(parsed)) = (self, Host::parse(host))
            && let Some(remedy) = denied.remedy(&parsed, port)
        {
            text.push_str(&format!("help: to allow it, start the sandbox with {remedy}\n"));
            if parsed.is_loopback() {
                text.push_str(&format!(
                    "help: inside, start tools with `{PAST_LOOPBACK}`, or it is the sandbox's own \
                     {parsed} that they ask\n"
                ));
            }
        }
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
            text.len(),
        )
        .into_bytes()
    }

    /// The reply code to a SOCKS5 client.
    pub(crate) fn socks(&self) -> u8 {
        match self {
            Self::Denied(_) => 2,
            Self::Unreachable(cause) => match cause.kind() {
                io::ErrorKind::ConnectionRefused => 5,
                io::ErrorKind::NetworkUnreachable => 3,
                _ => 4,
            },
            Self::Unresolved(_) | Self::ResolveTimedOut | Self::ConnectTimedOut => 4,
            Self::SocksCommand => 7,
            Self::SocksAddressType => 8,
            Self::Malformed(_)
            | Self::HeadTooLong
            | Self::HeadTimedOut
            | Self::Busy
            | Self::Answer(_)
            | Self::AnswerTimedOut
            | Self::Broken(_)
            | Self::Proxy(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_the_host_the_reason_and_the_remedy() {
        let answer = Failure::from(Denied::Host).http("a.example", 443);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert_eq!(
            body,
            "cofferdam: no connection to a.example:443: the host is not in the allow-list\n\
             help: to allow it, start the sandbox with --network allow:a.example\n"
        );
    }

    #[test]
    fn a_denied_loopback_comes_with_the_way_to_ask_for_it() {
        let text =
            |host| String::from_utf8(Failure::from(Denied::Address).http(host, 8080)).unwrap();
        for own in ["127.0.0.1", "127.1.2.3", "[::1]", "localhost", "LOCALHOST"] {
            let text = text(own);
            assert!(text.contains("\nhelp: inside, start tools with `env -u "), "{text}");
        }
        for other in ["10.0.0.1", "[2001:db8::1]", "localhost.example"] {
            assert!(!text(other).contains("inside"), "{other}");
        }
    }

    #[test]
    fn a_request_without_a_host_is_answered_without_one() {
        let answer = Failure::Malformed("this is not a request").http("", 0);
        assert!(answer.ends_with(b"\r\n\r\ncofferdam: this is not a request\n"));
    }

    #[test]
    fn socks_clients_are_told_the_kind_of_failure() {
        let refused = Failure::Unreachable(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(refused.socks(), 5);
        assert_eq!(Failure::Unreachable(io::ErrorKind::HostUnreachable.into()).socks(), 4);
        assert_eq!(Failure::from(Denied::Address).socks(), 2);
        assert_eq!(Failure::SocksCommand.socks(), 7);
        assert_eq!(Failure::SocksAddressType.socks(), 8);
    }
}
