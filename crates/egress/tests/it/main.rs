//! The proxy against real sockets: loopback servers, an injected resolver, and
//! the tools that people use.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]
#![expect(clippy::disallowed_methods, reason = "the tools under test are programs of the host")]
#![expect(clippy::print_stderr, reason = "a tool that is skipped is named in the output")]

mod harness;

mod broken;
mod hostile;
mod http;
mod limits;
mod log;
mod names;
mod rebinding;
mod socks;
mod tools;
mod tunnel;
