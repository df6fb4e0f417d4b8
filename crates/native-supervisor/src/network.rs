//! A sandbox's network, made beside its room.
//!
//! The kernel takes as long for a network as for all mounts of a room. So the first process is born
//! on the host's, where nothing but this program runs in it, and moves before it gives up its
//! rights; meanwhile another process makes what it moves to.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};

use crate::failure::{Failure, Step, ignore};
use crate::start;
use crate::sys::{self, Cloned};
use crate::waiting::readable_within;
use crate::wire;

/// How long it may take to make one.
const PATIENCE: Duration = Duration::from_secs(30);

const STEP: &str = "make a network of its own";

/// A network for a sandbox.
#[derive(Debug)]
pub(crate) enum Network {
    /// It is there.
    Made(OwnedFd),
    /// It is being made, by this process, and will be handed out here.
    Coming(Maker, OwnedFd),
}

/// The process that makes one. It ends with this.
#[derive(Debug)]
pub(crate) struct Maker(OwnedFd);

impl Network {
    /// Begins to make one, in the user namespace of this process.
    ///
    /// # Errors
    /// When nobody can be made to make it.
    pub(crate) fn begin(first: u32) -> Result<Self, Failure> {
        let user = start::open_namespace(first, "user")?;
        let (here, there) = wire::pair()?;
        match sys::clone_process(0, None).step(STEP)? {
            Cloned::Parent(_, maker) => Ok(Self::Coming(Maker(maker), here)),
            Cloned::Child => {
                drop(here);
                let (told, network): (Result<(), Failure>, _) = match make(&user) {
                    Ok(network) => (Ok(()), Some(network)),
                    Err(failure) => (Err(failure), None),
                };
                let beside: Vec<_> = network.iter().map(AsFd::as_fd).collect();
                ignore(wire::send(&there, &told, &beside));
                std::process::exit(0);
            }
        }
    }

    /// Waits until it is there, and hands it out; and who made it, if that is about to end only
    /// now.
    ///
    /// # Errors
    /// What kept it from being made.
    pub(crate) fn take(self) -> Result<(OwnedFd, Option<Maker>), Failure> {
        let (maker, here) = match self {
            Self::Made(network) => return Ok((network, None)),
            Self::Coming(maker, here) => (maker, here),
        };
        if !readable_within(&here, PATIENCE) {
            return Err(Failure::new(format!("{STEP} within {} s", PATIENCE.as_secs())));
        }
        let told = wire::receive::<Result<(), Failure>>(&here)?;
        let (outcome, beside) = told.ok_or_else(|| Failure::new("a helper process died"))?;
        outcome?;
        let network = beside.into_iter().next();
        Ok((network.ok_or_else(|| Failure::new("the network is missing"))?, Some(maker)))
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        ignore(pidfd_send_signal(&self.0, Signal::KILL));
        ignore(start::wait(&self.0));
    }
}

fn make(user: &OwnedFd) -> Result<OwnedFd, Failure> {
    start::enter_users(user.as_fd())?;
    // Only now: it is forgotten when rights change.
    sys::die_with_parent().step("die with the supervisor")?;
    sys::own_network().step(STEP)?;
    sys::loopback_up().step("bring up the loopback interface")?;
    start::open_namespace(std::process::id(), "net")
}
