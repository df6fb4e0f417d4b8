//! What a host and the supervisor of one sandbox say to each other: one message
//! a packet, with file descriptors beside it where the message says so.
//!
//! Both come from the same build (the supervisor is carried inside the host's
//! binary), except when a newer host finds a supervisor that an older one left:
//! so each packet begins with [`VERSION`], and another version is refused.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cofferdam_types::{Kept, Limits, Network};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Step};

/// The version of these messages.
pub const VERSION: u8 = 6;

/// No packet is longer than this.
const MAX_PACKET: usize = 64 << 10;

/// No packet carries more descriptors than this.
const MAX_DESCRIPTORS: usize = 8;

/// What a host says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum First {
    /// Make this sandbox. Where its first command is to write by itself to pipes of the
    /// host's, those for stdout and for stderr come after all else that comes beside the plan.
    Plan {
        /// What it is to be.
        plan: Box<Plan>,
        /// Whether the pipes are there.
        outlets: bool,
        /// What the host waits for when it ends.
        patience: Patience,
    },
    /// Have a container ready for one whose plan comes later, or never. Beside it: the lock
    /// of the directory, held.
    Warm {
        /// A directory of its own on the host, made by the host.
        state: PathBuf,
        /// How the container is asked for.
        hire: Hire,
    },
}

impl First {
    /// The sandbox to be made, if this is about one.
    pub(crate) fn commission(self, mut beside: Vec<OwnedFd>) -> Option<Commission> {
        let Self::Plan { plan, outlets, patience } = self else { return None };
        let pipes = if outlets { beside.len().saturating_sub(OUTLETS) } else { beside.len() };
        let outlets = beside.split_off(pipes);
        Some(Commission { plan: *plan, beside, outlets, patience })
    }
}

/// Pipes for the first command: stdout and stderr.
const OUTLETS: usize = 2;

/// A sandbox that a supervisor was told to make.
pub(crate) struct Commission {
    pub(crate) plan: Plan,
    /// What the plan says comes beside it.
    pub(crate) beside: Vec<OwnedFd>,
    /// What the first command is to write to, if it is not the guest's.
    pub(crate) outlets: Vec<OwnedFd>,
    /// What the host waits for when it ends.
    pub(crate) patience: Patience,
}

/// What a host waits for when its sandbox ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Patience {
    /// Until nothing is left of it.
    Enough,
    /// Until nobody in it lives any more and all that is the user's is in place: the host is
    /// about to end too.
    Little,
}

/// A sandbox to be made. Beside it: the lock of the sandbox's directory, held; then for
/// [`WorkspacePlan::Directory`] the claim on it, and for a fork what [`Report::Lent`] brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The sandbox's name.
    pub id: String,
    /// The directory of the sandbox on the host, made by the host.
    pub state: PathBuf,
    /// An empty directory where the sandbox's root is first mounted, out of the
    /// sight of all others. It is shared by all sandboxes and stays.
    pub mount_point: PathBuf,
    /// What the sandbox may use.
    pub limits: Limits,
    /// What it may reach, as it was asked for: kept for whoever attaches later and has
    /// to serve the proxy.
    pub reach: Network,
    /// What that means for its network.
    pub network: NetworkPlan,
    /// Where its files come from.
    pub workspace: WorkspacePlan,
    /// Where its programs come from.
    pub root: RootPlan,
    /// Where its first process comes from.
    pub first: FirstPlan,
    /// How long it waits for a host to attach again, in milliseconds, once it was
    /// told to be [kept](Order::Keep); `None` ends it with the host's connection.
    pub linger_ms: Option<u64>,
    /// Record what it does.
    pub audit: bool,
    /// Leave out the system-call filter: only for tests that show that their
    /// probes can fail.
    pub without_filter: bool,
}

/// What a sandbox may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkPlan {
    /// Nothing.
    None,
    /// Only the proxy, whose listener on this port of its loopback address is
    /// made inside and handed out.
    Proxy(u16),
    /// The host's network.
    Host,
}

/// Where the workspace's files come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspacePlan {
    /// Nowhere.
    Scratch,
    /// A directory of the host, and where changes to it are kept until they are
    /// applied.
    Directory(PathBuf, Kept),
    /// The layers of another sandbox, topmost first, as names in its vault.
    Fork(Vec<String>),
    /// A directory of the host, only to be looked at: changes are thrown away.
    View(PathBuf),
}

impl WorkspacePlan {
    /// Where changes are kept.
    #[must_use]
    pub fn kept(&self) -> Kept {
        match self {
            Self::Directory(_, kept) => *kept,
            Self::Scratch | Self::View(_) | Self::Fork(_) => Kept::InMemory,
        }
    }

    /// The directory of the host that lies under the sandbox's own layer.
    #[must_use]
    pub fn base(&self) -> Option<&Path> {
        match self {
            Self::Directory(path, _) | Self::View(path) => Some(path),
            Self::Scratch | Self::Fork(_) => None,
        }
    }
}

/// Where the programs come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootPlan {
    /// The host, and these directories of it besides.
    Host(Vec<PathBuf>),
    /// A root file system in this directory, and these directories of the host besides.
    Image(PathBuf, Vec<PathBuf>),
    /// As `Host`, where these directories of its programs are shown empty: somebody's homes.
    HostBut(Vec<PathBuf>, Vec<PathBuf>),
}

/// Where a sandbox's first process comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FirstPlan {
    /// The supervisor clones it into namespaces of its own.
    Cloned,
    /// A container engine starts it.
    Hired(Hire),
    /// The supervisor clones it, and it becomes a kernel that is a program, which has the
    /// guest as its own first process.
    Served(Sentry),
}

/// How gVisor's runtime is asked to serve a room: see [`sentry`](crate::sentry).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentry {
    /// The runtime's program.
    pub program: PathBuf,
    /// This program, as a file that everybody may execute.
    pub entry: PathBuf,
    /// What the runtime is told.
    pub words: Vec<String>,
    /// What is to be done, as its bundle says it.
    pub configuration: String,
}

/// How a container engine is asked for a first process, and to remove it. The
/// container has this program as its entry, [`DOOR`](crate::hire::DOOR), and the places that
/// the room is built at; everything else is put there by the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hire {
    /// The engine's name, for people.
    pub engine: String,
    /// The container's name.
    pub container: String,
    /// Starts the container and returns.
    pub start: Vec<String>,
    /// Removes what may be left of it, and says nothing where nothing is.
    pub remove: Vec<String>,
    /// The variables of both.
    pub environment: Vec<(String, String)>,
}

/// What a host asks of a running sandbox's supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// What did the sandbox get? Answer: [`Report::Ready`].
    Describe,
    /// One more connection to the guest. Answer: [`Report::Dialled`].
    Dial,
    /// How many processes were killed for lack of memory? Answer:
    /// [`Report::OomKills`].
    OomKills,
    /// What was recorded so far? Answer: [`Report::Audit`].
    Audit,
    /// Freeze the workspace's present state. Answer: [`Report::Snapshot`].
    Snapshot,
    /// Lend what a fork of snapshot N needs. Answer: [`Report::Lent`].
    Lend(u32),
    /// Hand over the proxy's listener. Answer: [`Report::Egress`].
    Egress,
    /// End the sandbox and remove it. Answer: [`Report::Closed`].
    Close,
    /// Linger from here on. Answer: [`Report::Kept`].
    Keep,
}

/// What a supervisor says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The guest runs. Beside it a connection to the guest.
    Ready(Built),
    /// To [`Order::Dial`]; beside it the connection, if there is one.
    Dialled(Result<(), Failure>),
    /// The sandbox could not be made; nothing of it is left.
    Failed(Failure),
    /// To [`Order::OomKills`].
    OomKills(u64),
    /// To [`Order::Audit`]: so many bytes of the trail's file, and then these.
    Audit(u64, Vec<u8>),
    /// To [`Order::Snapshot`].
    Snapshot(Result<u32, Failure>),
    /// To [`Order::Lend`]: the layers; beside it the user and the mount
    /// namespace.
    Lent(Result<Vec<String>, Failure>),
    /// To [`Order::Egress`]; beside it the listener, if there is one.
    Egress,
    /// To [`Order::Close`], or because the sandbox ended by itself: nothing of
    /// it is left that the host's [`Patience`] waits for, except, where changes could not be
    /// applied to the workspace's directory, those changes.
    Closed(Result<(), Failure>),
    /// To [`Order::Keep`].
    Kept,
    /// To [`First::Warm`], once the container is there. Until then its engine may go by the name of
    /// the directory.
    Warm,
}

/// What a sandbox really got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The first process, as the host numbers it.
    pub init: u32,
    /// Which control groups hold its limits.
    pub groups: GroupKind,
    /// Memory, CPU and processes are limited for the sandbox as a whole.
    pub groups_hold: [bool; 3],
    /// The workspace is a file system of limited size.
    pub sized_workspace: bool,
    /// The version of Landlock, 0 without.
    pub landlock: u32,
    /// Who its users are, outside.
    pub users: UserKind,
    /// Acts are recorded.
    pub audit: bool,
    /// The system calls of its processes are answered by a kernel of its own.
    pub own_kernel: bool,
}

/// Who the users of a sandbox are, outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserKind {
    /// A range of ids that nobody has.
    OwnRange,
    /// The one who made it, and nobody else.
    Caller,
    /// An id that nobody has, in the host's own user namespace.
    Unmapped,
}

/// Which control groups hold a sandbox's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupKind {
    /// The unified hierarchy.
    V2,
    /// One hierarchy a controller.
    V1,
    /// None: limits hold for each process.
    None,
}

/// The two ends of a socket for messages.
///
/// # Errors
/// When the kernel refuses.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Failure> {
    let kind = SocketType::SEQPACKET;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).step("make a socket pair")
}

/// Sends one message with descriptors beside it.
///
/// # Errors
/// When the peer is gone or the message too long.
pub fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let mut packet = vec![VERSION];
    packet = postcard::to_extend(message, packet).map_err(|_| rustix::io::Errno::MSGSIZE)?;
    if packet.len() > MAX_PACKET {
        return Err(rustix::io::Errno::MSGSIZE);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(rustix::io::Errno::TOOBIG);
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            done => return done.map(|_| ()),
        }
    }
}

/// Receives one message and the descriptors beside it; `None` when the peer has
/// gone.
///
/// # Errors
/// When the socket fails or the packet is no message of this version.
pub fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> Result<Option<(T, Vec<OwnedFd>)>, Failure> {
    let mut packet = Vec::new();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match take(socket.as_fd(), &mut packet, &mut ancillary) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => {
                return Err(Failure {
                    step: "receive a message".to_owned(),
                    errno: error.raw_os_error(),
                });
            }
            Ok(received) => break received,
        }
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Failure::new("a message was longer than any may be"));
    }
    match packet.get(..received.bytes).unwrap_or_default().split_first() {
        Some((&VERSION, body)) => match postcard::from_bytes(body) {
            Ok(message) => Ok(Some((message, descriptors))),
            Err(error) => Err(Failure::new(format!("a malformed message: {error}"))),
        },
        Some((other, _)) => Err(Failure::new(format!(
            "the peer speaks version {other} of the supervisor's messages, this side {VERSION}: \
             use the release that made the sandbox"
        ))),
        None => Ok(None),
    }
}

/// Takes one packet. Its length is asked for first: most are short, and room for
/// the longest costs more than asking.
fn take(
    socket: BorrowedFd<'_>,
    packet: &mut Vec<u8>,
    ancillary: &mut RecvAncillaryBuffer<'_>,
) -> rustix::io::Result<RecvMsg> {
    let (_, length) = recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::TRUNC)?;
    packet.resize(length.clamp(1, MAX_PACKET), 0);
    recvmsg(socket, &mut [IoSliceMut::new(packet)], ancillary, RecvFlags::CMSG_CLOEXEC)
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_message_and_its_descriptors_arrive_together() {
        let (here, there) = pair();
        let (lent, _other) = pair();
        send(&here, &Order::Lend(7), &[lent.as_fd()]).unwrap();
        let (order, descriptors) = receive::<Order>(&there).unwrap().unwrap();
        assert_eq!(order, Order::Lend(7));
        assert_eq!(descriptors.len(), 1);
    }

    #[test]
    fn a_peer_that_is_gone_is_no_message() {
        let (here, there) = pair();
        drop(here);
        assert_eq!(receive::<Order>(&there).unwrap().map(|(order, _)| order), None);
    }

    #[test]
    fn a_message_of_another_version_says_so() {
        let (here, there) = pair();
        rustix::io::write(&here, &[9, 0]).unwrap();
        let error = receive::<Order>(&there).unwrap_err();
        assert!(error.step.contains("speaks version 9"), "{error}");
    }
}
