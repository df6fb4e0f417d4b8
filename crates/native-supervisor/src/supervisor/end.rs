//! The end of a sandbox, in an order in which nothing is lost and nobody waits for what
//! nobody can see.

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cofferdam_types::Kept;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, pidfd_send_signal};

use super::{REMOVAL, Supervisor, hire_of};
use crate::failure::{Failure, Step, ignore};
use crate::waiting::ends_within;
use crate::wire::{self, GroupKind, Patience, Report, WorkspacePlan};
use crate::{hire, processes, remains, start, store};

/// A first process that was killed has ended by then, if nothing is amiss.
const PROMPTLY: Duration = Duration::from_secs(1);

/// So often those are killed for whom it may wait.
const MOST_ROUNDS: usize = 30;

impl Supervisor {
    /// Kills everything, keeps what belongs to the user, removes the rest, and
    /// tells the hosts. What is left then is this process, about to end. Hosts of little patience
    /// are told before the rest is removed, unless it holds what is the user's.
    pub(super) fn end(mut self, hosts: &[OwnedFd]) -> ExitCode {
        // A first process that is already dead needs no signal.
        ignore(pidfd_send_signal(&self.init_handle, Signal::KILL));
        self.auditor.take(); // nobody is asked any more; waiting calls fail
        self.groups.thaw();
        let ended = (0..MOST_ROUNDS).any(|_| {
            if ends_within(&self.init_handle, PROMPTLY) {
                return true;
            }
            // It waits in the kernel for somebody inside, who does not end before it has.
            match self.groups.kind() {
                GroupKind::None => processes::kill_below(self.built.init),
                GroupKind::V1 | GroupKind::V2 => self.groups.kill(),
            }
            false
        });
        match hire_of(&self.plan) {
            Some(_) => drop(ends_within(&self.init_handle, hire::REMOVAL)),
            None if ended => ignore(start::wait(&self.child)),
            None => {}
        }
        let has_files_of_the_users = match &self.plan.workspace {
            WorkspacePlan::Directory(..) => true,
            WorkspacePlan::Scratch | WorkspacePlan::View(_) | WorkspacePlan::Fork(_) => false,
        };
        let all_gone = ended && hire_of(&self.plan).is_none() && !has_files_of_the_users;
        let told = all_gone && self.patience == Patience::Little;
        if told {
            tell(hosts, Ok(()));
        }
        self.groups.remove(REMOVAL);
        let applied = match &self.plan.workspace {
            // Who hangs in the kernel may still write there.
            WorkspacePlan::Directory(..) if !ended && hire_of(&self.plan).is_none() => {
                Err(Failure::new(format!(
                    "a process of the sandbox does not end, though it was killed; the changes are \
                     kept in {} until it has",
                    self.plan.state.display()
                )))
            }
            // The store is out of reach for everybody else; its mounts live as
            // long as the namespaces held here.
            WorkspacePlan::Directory(_, keep) => {
                let witness = self.witness.take();
                let written = witness.map_or(Ok(()), |witness| witness.testify(&self.plan.state));
                written.and_then(|()| self.workspace.store()).and_then(|store| {
                    let claim = self.claim.as_ref();
                    remains::apply_changes(&self.plan, store.as_fd(), claim).map_err(|failure| {
                        match keep {
                            Kept::OnDisk => failure,
                            Kept::InMemory => store::save(&self.plan, store.as_fd(), failure),
                        }
                    })
                })
            }
            _ => Ok(()),
        };
        let mounts = match (&self.plan.workspace, hire_of(&self.plan)) {
            // Nobody sees them any more, and nothing waits for them: the kernel takes a
            // millisecond to let go of the last, in which the hosts may go on.
            (WorkspacePlan::Scratch | WorkspacePlan::Fork(_), None) => Some(self.workspace),
            // They hold a file of the host's, or keep a container from being removed.
            _ => {
                drop(self.workspace);
                None
            }
        };
        if let Some(hire) = hire_of(&self.plan) {
            if let Some(mut errand) = self.errand.take() {
                hire::finish(&mut errand, Instant::now() + REMOVAL);
            }
            hire::remove(hire);
        }
        let outcome = applied.and_then(|()| {
            rustix::process::chdir("/").step("leave the sandbox's directory")?;
            remains::remove_state(&self.plan.state)
        });
        // Whoever hears of the end may begin where this sandbox was. To close a directory
        // that was removed is to wait for the disk, so the lock is only let go of.
        ignore(flock(&self.lock, FlockOperation::Unlock));
        drop(self.claim);
        let code = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        if !told {
            tell(hosts, outcome);
        }
        drop(mounts);
        code
    }
}

/// Tells the hosts how the sandbox ended. Who has gone need not know.
fn tell(hosts: &[OwnedFd], outcome: Result<(), Failure>) {
    let closed = Report::Closed(outcome);
    for host in hosts {
        ignore(wire::send(host, &closed, &[]));
    }
}
