//! The sandboxes of a job: the one it works in, and those beside it.

use cofferdam_sandbox::{Audit, Changes, Grade, Isolation, Lifetime, Root, Spec, Workspace};
use cofferdam_tools::Aide;
use cofferdam_types::{Limits, Network, Place, SandboxId};

/// The sandbox that a job works in.
pub(crate) fn workplace(place: &Place, aide: Option<&Aide>, lifetime: Lifetime) -> Spec {
    let tools = aide.into_iter().flat_map(Aide::directories);
    Spec {
        id: SandboxId::generate(),
        // Commands have time-outs and output limits of their own.
        limits: Limits { wall_time: None, output: None, ..place.limits.clone() },
        network: place.network.clone(),
        workspace: Workspace::Directory(place.workspace.clone()),
        changes: Changes::OnDisk,
        root: match &place.image {
            // Kernels for it are in the image: those set up here are made of the host's programs.
            Some(image) => Root::Image {
                directory: image.clone(),
                readable: aide.and_then(Aide::own_directory).into_iter().collect(),
            },
            None => Root::Host { readable: place.readable.iter().cloned().chain(tools).collect() },
        },
        lifetime,
        audit: Audit::On,
        require: Grade::required(place.require.as_deref()),
        outlets: None,
    }
}

/// A sandbox like it, closed to the network, on another workspace.
pub(crate) fn beside(place: &Place, workspace: Workspace) -> Spec {
    Spec {
        network: Network::None,
        audit: Audit::Off,
        workspace,
        ..workplace(place, None, Lifetime::Owned)
    }
}

/// What is weaker than it could be, in words.
pub(crate) fn weaknesses(isolation: &Isolation) -> Vec<String> {
    let weak = isolation.facts.iter().filter_map(|fact| {
        fact.weakness.as_ref().map(|weakness| format!("{}: {weakness}", fact.part))
    });
    weak.collect()
}
