//! Images by name: a back end's sandboxes may be made of any image that this product keeps.
//!
//! A name becomes a directory where the sandbox is made, on this machine, and the image's variables
//! become those of every command. Whoever has a sandbox holds its image, so that nobody clears it away
//! meanwhile. A sandbox that outlives its maker is noted beside the images, for the same reason and
//! so that whoever takes it up knows its variables.

use std::path::{Component, Path};
use std::sync::Arc;

use cofferdam_images::{Hold, Image, ImageError, Store};
use cofferdam_sandbox::{
    Backend, Capabilities, Fact, GuestStream, Isolation, Lifetime, OpenError, Reconciled, Room,
    RoomError, Root, Snapshot, Spec, TrailMark,
};
use cofferdam_types::{AuditRecord, SandboxId, error_chain};
use futures_util::future::BoxFuture;

/// A back end that knows images by name.
pub(crate) struct WithImages {
    backend: Arc<dyn Backend>,
    store: Store,
}

impl WithImages {
    /// The back end with the images of a home.
    pub(crate) fn around(backend: Arc<dyn Backend>, home: &Path) -> Arc<dyn Backend> {
        Arc::new(Self { backend, store: Store::in_home(home) })
    }

    /// Puts the directory of an image in the place of its name. From then on it stays.
    fn resolve(&self, root: &mut Root) -> Result<Option<(Image, Hold)>, ImageError> {
        let Root::Image { directory, .. } = root else { return Ok(None) };
        let Some(name) = name(directory) else { return Ok(None) };
        let (image, hold) = self.store.take(name)?;
        directory.clone_from(&image.root);
        Ok(Some((image, hold)))
    }

    fn furnished(&self, room: Box<dyn Room>, image: Image, hold: Option<Hold>) -> Box<dyn Room> {
        // Who and where a command is, the sandbox says.
        let mut variables = image.about.env;
        variables.retain(|name, _| !["HOME", "USER", "TERM"].contains(&name.as_str()));
        let variables = variables.into_iter().collect();
        let note = (self.store.clone(), room.id().to_string());
        Box::new(Furnished { room, variables, note, hold })
    }
}

/// The name of an image; `None` for a directory.
fn name(directory: &Path) -> Option<&str> {
    let mut parts = directory.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
}

impl Backend for WithImages {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn examine(&self) -> Vec<Fact> {
        self.backend.examine()
    }

    fn open(&self, mut spec: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        Box::pin(async move {
            let used = self.resolve(&mut spec.root).map_err(|error| OpenError::Invalid {
                cause: error_chain(&error),
                remedy: error.help().unwrap_or_else(|| "see cofferdam image list".to_owned()),
            })?;
            let lingering = matches!(spec.lifetime, Lifetime::Lingering(_));
            if let Some((image, _)) = used.as_ref().filter(|_| lingering) {
                let noted = self.store.note_use(&spec.id.to_string(), &image.about.key);
                noted.map_err(|error| OpenError::Unusable {
                    cause: error_chain(&error),
                    remedy: "make room on the disk, or mend the permissions".to_owned(),
                })?;
            }
            let id = spec.id;
            match self.backend.open(spec).await {
                Ok(room) => Ok(match used {
                    Some((image, hold)) => self.furnished(room, image, Some(hold)),
                    None => room,
                }),
                Err(error) => {
                    self.store.forget_use(&id.to_string());
                    Err(error)
                }
            }
        })
    }

    fn reattach(&self, id: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        Box::pin(async move {
            let room = self.backend.reattach(id).await?;
            Ok(match self.store.used_by(&id.to_string()) {
                // The note keeps it.
                Some(image) => self.furnished(room, image, None),
                None => room,
            })
        })
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
        Box::pin(async move {
            let reconciled = self.backend.reconcile().await?;
            for id in &reconciled.removed {
                self.store.forget_use(&id.to_string());
            }
            Ok(reconciled)
        })
    }
}

/// A sandbox made of an image.
struct Furnished {
    room: Box<dyn Room>,
    variables: Vec<(String, String)>,
    note: (Store, String),
    /// Let go when the sandbox is.
    hold: Option<Hold>,
}

impl Room for Furnished {
    fn id(&self) -> SandboxId {
        self.room.id()
    }

    fn isolation(&self) -> &Isolation {
        self.room.isolation()
    }

    fn defaults(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.room.environment()
    }

    fn dial(&self) -> BoxFuture<'_, Result<GuestStream, RoomError>> {
        self.room.dial()
    }

    fn oom_kills(&self) -> BoxFuture<'_, Result<u64, RoomError>> {
        self.room.oom_kills()
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, RoomError>> {
        self.room.snapshot()
    }

    fn audit(
        &self,
        since: TrailMark,
    ) -> BoxFuture<'_, Result<(Vec<AuditRecord>, TrailMark), RoomError>> {
        self.room.audit(since)
    }

    fn end_egress(&self) -> BoxFuture<'_, ()> {
        self.room.end_egress()
    }

    fn keep(&self) -> BoxFuture<'_, Result<(), RoomError>> {
        self.room.keep()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), RoomError>> {
        let Self { room, note: (store, note), hold, .. } = *self;
        Box::pin(async move {
            let closed = room.close().await;
            store.forget_use(&note);
            drop(hold);
            closed
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use cofferdam_images::{About, Changing, Key};

    use super::*;

    /// A back end that remembers what sandboxes it was asked for.
    #[derive(Default)]
    struct Fake {
        roots: Mutex<Vec<Root>>,
        /// What it says that it has removed.
        removed: Vec<SandboxId>,
    }

    struct FakeRoom(SandboxId);

    impl Backend for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn capabilities(&self) -> Capabilities {
            unreachable!("nobody asks")
        }

        fn open(&self, spec: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
            self.roots.lock().unwrap().push(spec.root);
            Box::pin(async move { Ok(Box::new(FakeRoom(spec.id)) as Box<dyn Room>) })
        }

        fn reattach(&self, id: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
            Box::pin(async move { Ok(Box::new(FakeRoom(id)) as Box<dyn Room>) })
        }

        fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
            let removed = self.removed.clone();
            Box::pin(async { Ok(Reconciled { removed, ..Reconciled::default() }) })
        }
    }

    impl Room for FakeRoom {
        fn id(&self) -> SandboxId {
            self.0
        }

        fn isolation(&self) -> &Isolation {
            unreachable!("nobody asks")
        }

        fn dial(&self) -> BoxFuture<'_, Result<GuestStream, RoomError>> {
            unreachable!("nobody asks")
        }

        fn oom_kills(&self) -> BoxFuture<'_, Result<u64, RoomError>> {
            unreachable!("nobody asks")
        }

        fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, RoomError>> {
            unreachable!("nobody asks")
        }

        fn audit(
            &self,
            _since: TrailMark,
        ) -> BoxFuture<'_, Result<(Vec<AuditRecord>, TrailMark), RoomError>> {
            unreachable!("nobody asks")
        }

        fn end_egress(&self) -> BoxFuture<'_, ()> {
            unreachable!("nobody asks")
        }

        fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), RoomError>> {
            Box::pin(async { Ok(()) })
        }
    }

    fn changing(store: &Store) -> Changing {
        let (stop, second) = (AtomicBool::new(false), Duration::from_secs(1));
        store.change(second, &stop, &mut || {}).unwrap()
    }

    fn kept(store: &Store) -> Image {
        let changing = changing(store);
        let staging = changing.stage().unwrap();
        std::fs::create_dir(staging.root()).unwrap();
        let variables = [("PYTHONPATH", "/workspace"), ("HOME", "/root")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let about = About {
            key: Key::of(&[b"content"]),
            made_with: "test".to_owned(),
            made_at: 0,
            env: BTreeMap::from(variables),
            definition: None,
        };
        staging.keep("own", about).unwrap()
    }

    #[tokio::test]
    async fn a_sandbox_that_outlives_its_maker_keeps_its_image_and_variables() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::in_home(home.path());
        let image = kept(&store);
        let fake = Arc::new(Fake::default());
        let backend = WithImages::around(Arc::clone(&fake) as Arc<dyn Backend>, home.path());
        let root = |directory: &str| Root::Image {
            directory: PathBuf::from(directory),
            readable: vec![PathBuf::from("/aide")],
        };
        let lifetime = Lifetime::Lingering(Duration::from_secs(1));
        let spec = Spec { root: root("own"), lifetime, ..Spec::scratch() };
        let id = spec.id;
        drop(backend.open(spec).await.unwrap());
        assert_eq!(*fake.roots.lock().unwrap(), [root(image.root.to_str().unwrap())]);

        let room = backend.reattach(id).await.unwrap();
        assert_eq!(room.defaults(), [("PYTHONPATH".to_owned(), "/workspace".to_owned())]);
        assert!(store.used_by(&id.to_string()).is_some());
        room.close().await.unwrap();
        assert!(store.used_by(&id.to_string()).is_none());

        let spec = Spec { root: root("other"), ..Spec::scratch() };
        let Err(OpenError::Invalid { cause, remedy }) = backend.open(spec).await else {
            panic!("there is none")
        };
        assert!(cause.contains("other") && remedy.contains("one of: own"), "{cause} {remedy}");
    }

    #[tokio::test]
    async fn whoever_removes_a_sandbox_gives_its_image_free() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::in_home(home.path());
        kept(&store);
        let maker = WithImages::around(Arc::new(Fake::default()), home.path());
        let root = Root::Image { directory: PathBuf::from("own"), readable: Vec::new() };
        let lifetime = Lifetime::Lingering(Duration::from_secs(1));
        let spec = Spec { root, lifetime, ..Spec::scratch() };
        let id = spec.id;
        drop(maker.open(spec).await.unwrap());
        assert!(store.used_by(&id.to_string()).is_some());
        // All back ends share a home, and one of them finds what another left.
        let fake = Fake { removed: vec![id], ..Fake::default() };
        WithImages::around(Arc::new(fake), home.path()).reconcile().await.unwrap();
        assert!(store.used_by(&id.to_string()).is_none());
    }

    #[tokio::test]
    async fn an_image_stays_as_long_as_a_sandbox_of_it_does() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::in_home(home.path());
        let image = kept(&store);
        let backend = WithImages::around(Arc::new(Fake::default()), home.path());
        let root = || Root::Image { directory: PathBuf::from("own"), readable: Vec::new() };
        let closed = backend.open(Spec { root: root(), ..Spec::scratch() }).await.unwrap();
        let dropped = backend.open(Spec { root: root(), ..Spec::scratch() }).await.unwrap();
        // Another image takes the name.
        let other = Key::of(&[b"other"]);
        changing(&store).name("own", &other).unwrap();
        let prune = || changing(&store).prune(false).unwrap().images.len();
        assert_eq!((prune(), image.root.exists()), (0, true));
        closed.close().await.unwrap();
        assert_eq!((prune(), image.root.exists()), (0, true));
        drop(dropped);
        assert_eq!((prune(), image.root.exists()), (1, false));
    }

    #[test]
    fn what_has_a_slash_is_a_directory() {
        assert_eq!(name(Path::new("agent")), Some("agent"));
        for directory in ["/agent", "a/b", "..", ".", "", "/"] {
            assert_eq!(name(Path::new(directory)), None, "{directory}");
        }
    }
}
