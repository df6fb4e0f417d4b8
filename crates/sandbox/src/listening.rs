//! What listens inside a sandbox: the TCP ports that a tunnel can lead to.
//!
//! The system's own lists are printed by a command inside. Whatever runs there could
//! print anything in their place, so what comes is bounded, and what is no line of such
//! a list is passed over.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use cofferdam_guest_protocol::OutputMode;
use cofferdam_types::CallId;

use crate::error::CallError;
use crate::sandbox::Sandbox;

/// Prints the system's lists, in which those that listen come first, and which sockets
/// are those of Jupyter's kernels, by their connection files: nobody but a Jupyter client
/// can talk to those.
const SCRIPT: &str = r"
head -n 1000 /proc/net/tcp /proc/net/tcp6 2>/dev/null
for file in $(grep -le '/\.cofferdam/aide/[^/]*\.json' -e '/kernel-[^/]*\.json' \
    /proc/[0-9]*/cmdline 2>/dev/null); do
    ls -l ${file%cmdline}fd 2>/dev/null
done
true";

/// How long it may take, and how much of what it prints is read.
const TIME: Duration = Duration::from_secs(10);
const BYTES: u64 = 512 << 10;

/// How many are told at most.
const MOST: usize = 256;

/// `TCP_LISTEN`, as the system writes it.
const LISTENS: &str = "0A";

/// From here on ports are given out to whoever asks for any.
const ANY_PORT: u16 = 32_768;

/// The user of sockets that belong to somebody outside, where the network is shared.
const NOBODY: &str = "65534";

/// Something that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// Its port.
    pub port: u16,
    /// The address that it is bound to.
    pub address: IpAddr,
}

impl Listener {
    /// Whether a tunnel, which leads to the sandbox's loopback, reaches it.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        match self.address {
            IpAddr::V4(four) => four.is_unspecified() || four == Ipv4Addr::LOCALHOST,
            IpAddr::V6(six) => six.is_unspecified() || six == Ipv6Addr::LOCALHOST,
        }
    }
}

/// The ports that something listens on and that a tunnel reaches, in order.
///
/// # Errors
/// When the sandbox cannot be asked.
pub async fn listening(sandbox: &Sandbox, call: CallId) -> Result<Vec<u16>, CallError> {
    let listeners = listeners(sandbox, call).await?;
    let reachable = listeners.iter().filter(|listener| listener.is_reachable());
    let ports: BTreeSet<u16> = reachable.map(|listener| listener.port).collect();
    Ok(ports.into_iter().collect())
}

/// Everything that listens, by its port; Jupyter's kernels are left out.
///
/// # Errors
/// When the sandbox cannot be asked.
pub async fn listeners(sandbox: &Sandbox, call: CallId) -> Result<Vec<Listener>, CallError> {
    let command = sandbox
        .shell(SCRIPT)
        .cwd("/")
        .timeout(Some(TIME))
        .output(OutputMode::Capture { limit: BYTES })
        .keep(BYTES);
    let result = sandbox.run(call, command).await?;
    if !result.outcome.success() {
        // Nothing was seen, which is not to say that nothing listens.
        let reason = format!("the look at what listens ended otherwise: {:?}", result.outcome);
        return Err(CallError::ConnectionLost { reason });
    }
    Ok(parse(&String::from_utf8_lossy(&result.stdout)))
}

/// What listens by these lists.
fn parse(text: &str) -> Vec<Listener> {
    let kernels = sockets(text);
    // A web server that somebody runs in a kernel has a port that was chosen.
    let is_kernels = |port, inode| port >= ANY_PORT && kernels.contains(&inode);
    let found = text.lines().filter_map(listener);
    let others = found.filter(|(listener, inode)| !is_kernels(listener.port, *inode));
    let listeners: BTreeSet<Listener> = others.map(|(listener, _)| listener).collect();
    listeners.into_iter().take(MOST).collect()
}

/// A line such as `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000
/// 00000000 1000 0 4711 …`, and the socket's number in it.
fn listener(line: &str) -> Option<(Listener, u64)> {
    let mut words = line.split_ascii_whitespace();
    words.next()?.strip_suffix(':')?;
    let (address, port) = words.next()?.split_once(':')?;
    if words.nth(1)? != LISTENS || words.nth(3)? == NOBODY {
        return None;
    }
    let inode = words.nth(1)?.parse().ok()?;
    let port = u16::from_str_radix(port, 16).ok().filter(|port| *port != 0)?;
    Some((Listener { port, address: parse_address(address)? }, inode))
}

/// An address as the system writes it: each 32 bits as a number of the machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at * 8..(at + 1) * 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// The numbers of sockets in lines such as `… 9 -> socket:[4711]`.
fn sockets(text: &str) -> BTreeSet<u64> {
    let named = text.split("socket:[").skip(1);
    named.filter_map(|rest| rest.split_once(']')?.0.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kernel prints them.
    const LISTS: &str = "\
==> /proc/net/tcp <==
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 00000000:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
   3: 0200007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4 1 0 100 0 0 10 0
   4: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 5 1 0 100 0 0 10 0

==> /proc/net/tcp6 <==
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1389 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 6 1 0 100 0 0 10 0
   1: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 7 1 0 100 0 0 10 0
   2: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 8 1 0 100 0 0 10 0
";

    fn told(text: &str) -> Vec<String> {
        parse(text).iter().map(|one| format!("{} {}", one.port, one.address)).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_systems_lists_are_read() {
        let expected = [
            "80 127.0.0.2",
            "3000 0.0.0.0",
            "5001 ::",
            "8080 127.0.0.1",
            "8080 ::1",
            "8081 127.0.0.1",
        ];
        assert_eq!(told(LISTS), expected);
        let reachable: Vec<u16> = parse(LISTS)
            .iter()
            .filter(|listener| listener.is_reachable())
            .map(|listener| listener.port)
            .collect();
        assert_eq!(reachable, [3000, 5001, 8080, 8080, 8081]);
    }

    #[test]
    fn ports_of_jupyters_kernels_are_left_out() {
        let line =
            |port: u16, inode| format!("0: 0100007F:{port:04X} 0:0 0A 0:0 0:0 0 1000 0 {inode}\n");
        let lists = format!("{}{}{}", line(40_000, 7), line(40_001, 8), line(7860, 9));
        let files = "lrwx------ 1 agent agent 64 Jan 1 00:00 9 -> socket:[7]\n\
                     lrwx------ 1 agent agent 64 Jan 1 00:00 10 -> socket:[9]\n";
        // One of the three is a kernel's own; one is a web server that runs in it.
        let told = told(&format!("{lists}{files}"));
        assert_eq!(told, ["7860 127.0.0.1", "40001 127.0.0.1"]);
    }

    #[test]
    fn what_is_no_line_of_them_says_nothing() {
        for text in [
            "",
            "0: 0100007F:1F90",
            "0: 0100007F:FFFFF 0:0 0A 0:0 0:0 0 1000 0 7",
            "0: 0100007F:0000 0:0 0A 0:0 0:0 0 1000 0 7",
            "0: 0100007:1F90 0:0 0A 0:0 0:0 0 1000 0 7",
            "0: +100007F:1F90 0:0 0A 0:0 0:0 0 1000 0 7",
            "0: ééé7F:1F90 0:0 0A 0:0 0:0 0 1000 0 7",
            "0: 0100007F 0:0 0A 0:0 0:0 0 1000 0 7",
            "0: 0100007F:1F90 0:0 0A 0:0 0:0 0 1000 0 x",
            "socket:[socket:[]socket:[99999999999999999999999]socket:[1",
        ] {
            assert_eq!(told(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn not_more_are_told_than_anybody_could_want() {
        let line = |port| format!("{port}: 0100007F:{port:04X} 0:0 0A 0:0 0:0 0 1000 0 7\n");
        let many: String = (1..=60_000).map(line).collect();
        assert_eq!(parse(&many).len(), MOST);
    }
}
