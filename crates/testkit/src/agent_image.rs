//! The agent image, built once for all tests without any container engine and kept below `target`.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use cofferdam_images::{Bootstrap, BuildLimits, Definition, Image, ImageError, Store};
use cofferdam_setup::Host;

/// A home whose store has the agent image.
#[derive(Clone, Debug)]
pub struct AgentImage {
    /// The home.
    pub home: PathBuf,
    /// The image.
    pub image: Image,
}

impl AgentImage {
    /// The image, built when it is first asked for and when its definition is another: that takes
    /// two minutes and two gigabytes.
    ///
    /// # Errors
    /// When there is no mmdebstrap or no npm, or when mirrors and registries cannot be reached.
    pub fn for_tests() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
        let home = target.join("agent-image");
        let store = Store::in_home(&home);
        // Two tests at once build it once: the store's lock sees to that.
        let build = || -> Result<Image, ImageError> {
            let definition = Definition::agent()?;
            let host = Host::here(std::env::var_os("PATH").as_ref());
            let (limits, stop) = (BuildLimits::default(), AtomicBool::new(false));
            let (store, definition) = (&store, &definition);
            let now = now();
            let mut making = false;
            let bootstrap = Bootstrap { definition, store, host: &host, now, limits, stop: &stop };
            let image = bootstrap
                .build(&mut |told| making |= matches!(told, cofferdam_images::Progress::Step(_)))?;
            if making {
                // An image of another definition takes gigabytes that nobody needs.
                store.change(Duration::from_secs(60), &stop, &mut || {})?.prune(false)?;
            }
            Ok(image)
        };
        let image = build().map_err(|error| {
            let help = error.help().unwrap_or_default();
            io::Error::other(format!("{error}\nhelp: {help}"))
        })?;
        Ok(Self { home, image })
    }
}

#[expect(clippy::disallowed_methods, reason = "tests are where time comes from")]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
