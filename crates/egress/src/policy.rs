//! The allow-list's judgement: of a name, of an address, and of what a name
//! resolved to.
//!
//! No I/O. A name is judged twice: as written, before anything is asked of the
//! DNS, and again by the addresses that the DNS gave.

use std::net::{IpAddr, SocketAddr};

use cofferdam_types::{HostPattern, HostRule};

use crate::address::forbidden;
use crate::target::Host;

/// What a sandbox may reach.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<HostRule>,
}

/// Why a connection is not allowed. Each says what is wrong with the host that
/// was asked for, without repeating it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Neither a name nor an address, as an allow-list writes them.
    #[error("it is not spelled as a host name or an address")]
    Spelling,
    /// No rule has this name.
    #[error("the host is not in the allow-list")]
    Host,
    /// A rule has this name or address, on other ports.
    #[error("the host is in the allow-list, but not with this port")]
    Port,
    /// No rule has this address.
    #[error("the address is not in the allow-list")]
    Address,
    /// The name leads to a place that is not public.
    #[error("the name leads to {}, which is {range}", address.ip())]
    Range {
        /// Where it leads.
        address: SocketAddr,
        /// What that is.
        range: &'static str,
    },
}

impl Policy {
    /// A policy that allows what these rules allow, and nothing else.
    #[must_use]
    pub fn new(rules: Vec<HostRule>) -> Self {
        Self { rules }
    }

    /// Judges a name. The answer is the name to resolve: the same one, in lower
    /// case.
    ///
    /// # Errors
    /// Says why the name is not allowed.
    pub fn decide_name(&self, name: &str, port: u16) -> Result<String, Denied> {
        match Host::parse(name) {
            Some(Host::Name(name)) => {
                self.decide(port, Denied::Host, |host| host.allows_name(&name))?;
                Ok(name)
            }
            Some(Host::Address(_)) => Err(Denied::Address),
            None => Err(Denied::Spelling),
        }
    }

    /// Judges an address that was asked for as such. Only a rule with exactly
    /// this address allows it; the addresses of an allowed name are not allowed
    /// by it.
    ///
    /// # Errors
    /// Says why the address is not allowed.
    pub fn decide_address(&self, address: IpAddr, port: u16) -> Result<SocketAddr, Denied> {
        self.decide(port, Denied::Address, |host| *host == HostPattern::Address(address))?;
        Ok(SocketAddr::new(address, port))
    }

    /// Judges what a name resolved to. One address that is not public, or is this
    /// machine's own, condemns the answer as a whole: it is how a name is rebound to
    /// a private place. Only a rule with exactly that address and port says otherwise.
    ///
    /// # Errors
    /// Names the first address that is not allowed.
    pub fn decide_resolved(
        &self,
        resolved: &[SocketAddr],
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<SocketAddr>, Denied> {
        for address in resolved {
            let own = || is_own(address.ip()).then_some("an address of this machine");
            if let Some(range) = forbidden(address.ip()).or_else(own)
                && self.decide_address(address.ip(), address.port()).is_err()
            {
                return Err(Denied::Range { address: *address, range });
            }
        }
        Ok(resolved.to_vec())
    }

    fn decide(
        &self,
        port: u16,
        otherwise: Denied,
        matches: impl Fn(&HostPattern) -> bool,
    ) -> Result<(), Denied> {
        let mut refusal = otherwise;
        for rule in self.rules.iter().filter(|rule| matches(&rule.host)) {
            if rule_has_port(rule, port) {
                return Ok(());
            }
            refusal = Denied::Port;
        }
        Err(refusal)
    }
}

impl Denied {
    /// The setting that would allow it, where one would.
    #[must_use]
    pub fn remedy(&self, host: &Host, port: u16) -> Option<String> {
        let pattern = match host {
            Host::Name(name) => HostPattern::Name(name.clone()),
            Host::Address(address) => HostPattern::Address(*address),
        };
        let rule = narrow_rule(pattern, port);
        match self {
            Self::Spelling => None,
            Self::Host | Self::Port | Self::Address => Some(format!("--network allow:{rule}")),
            Self::Range { address, .. } => {
                let place = HostRule {
                    host: HostPattern::Address(address.ip()),
                    port: Some(address.port()),
                };
                Some(format!("--network allow:{rule},{place}"))
            }
        }
    }
}

fn rule_has_port(rule: &HostRule, port: u16) -> bool {
    match rule.port {
        Some(allowed) => allowed == port,
        None => is_usual(port),
    }
}

fn narrow_rule(host: HostPattern, port: u16) -> HostRule {
    HostRule { host, port: (!is_usual(port)).then_some(port) }
}

/// The ports that a rule without a port allows.
fn is_usual(port: u16) -> bool {
    matches!(port, 80 | 443)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
