//! The set-up: what is missing is made, one part after the other, and all else stays.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::SetupError;
use crate::host::Host;
use crate::parts::Work;
use crate::place;
use crate::prefix;
use crate::progress::{Progress, Step};
use crate::recipe::{Part, Recipe};

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Until another set-up has ended.
    pub lock: Duration,
    /// Fetching and unpacking packages.
    pub packages: Duration,
    /// Every other step.
    pub step: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self { lock: minutes(30), packages: minutes(25), step: minutes(3) }
    }
}

/// A set-up on this machine. Its functions wait for programs and belong on a thread that may
/// wait.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The product's own directory for what is installed. It has to be absolute.
    pub prefix: &'a Path,
    /// Where this machine's programs are.
    pub host: &'a Host,
    /// How long things may take.
    pub limits: TimeLimits,
    /// Set when somebody wants it to stop; soon after, it has.
    pub stop: &'a AtomicBool,
}

/// What would be done for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which part.
    pub part: Part,
    /// Where it goes.
    pub place: PathBuf,
    /// Whether it is there already.
    pub ready: bool,
}

/// A part that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Which part.
    pub part: Part,
    /// Where.
    pub place: PathBuf,
}

impl Setup<'_> {
    /// What would be done, without doing it.
    ///
    /// # Errors
    /// When there is no Python to make an environment of.
    pub fn plan(&self, recipes: &[Recipe]) -> Result<Vec<Planned>, SetupError> {
        recipes.iter().map(|recipe| self.planned(recipe)).collect()
    }

    fn planned(&self, recipe: &Recipe) -> Result<Planned, SetupError> {
        let part = recipe.part;
        let place = self.prefix.join(directory(recipe, self.host)?);
        let ready = place::is_ready(part, &place);
        Ok(Planned { part, place, ready })
    }

    /// Makes every part that is not there yet.
    ///
    /// # Errors
    /// When one of them cannot be made. The parts before it stay; of it, nothing does.
    pub fn install(
        &self,
        recipes: &[Recipe],
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<Installed>, SetupError> {
        // What is all there needs no lock, and no right to write.
        let mut plan = self.plan(recipes)?;
        let mut lock = None;
        if !plan.iter().all(|planned| planned.ready) {
            prefix::make(self.prefix)?;
            let mut waits = || tell(Progress::Waiting);
            lock = Some(prefix::lock(self.prefix, self.limits.lock, self.stop, &mut waits)?);
            // The one that was waited for may have made it.
            plan = self.plan(recipes)?;
        }
        let mut installed = Vec::new();
        for (recipe, Planned { part, place, ready }) in recipes.iter().zip(plan) {
            if let (false, Some(lock)) = (ready, &lock) {
                let (host, limits) = (self.host, &self.limits);
                let (stop, place) = (self.stop, place.as_path());
                let mut work = Work { recipe, place, host, limits, lock, stop, tell };
                make(&mut work)?;
                tell(Progress::Ready { part, place });
            } else {
                tell(Progress::AlreadyThere { part, place: &place });
            }
            installed.push(Installed { part, place });
        }
        Ok(installed)
    }

    /// Removes every part, whole or not, that is none of these, and says which. A sandbox that
    /// uses one of them loses it.
    ///
    /// # Errors
    /// When a set-up is under way for too long, or something cannot be removed.
    pub fn prune(&self, keep: &[Recipe]) -> Result<Vec<PathBuf>, SetupError> {
        if !self.prefix.exists() {
            return Ok(Vec::new());
        }
        prefix::make(self.prefix)?;
        let _lock = prefix::lock(self.prefix, self.limits.lock, self.stop, &mut || {})?;
        // Without a Python no environment can be used.
        let kept: Vec<String> =
            keep.iter().filter_map(|recipe| directory(recipe, self.host).ok()).collect();
        let mut removed = Vec::new();
        for (_, place) in prefix::places(self.prefix) {
            if !kept.iter().any(|name| place.ends_with(name)) {
                place::remove(&place)?;
                removed.push(place);
            }
        }
        Ok(removed)
    }
}

/// The name of a recipe's directory on this machine.
pub(crate) fn directory(recipe: &Recipe, host: &Host) -> Result<String, SetupError> {
    let interpreter = match recipe.part {
        Part::Python => {
            let python = host.python();
            Some(python.ok_or_else(|| SetupError::NoPython { looked: host.shown.clone() })?)
        }
        Part::TypeScript | Part::Viewer => None,
    };
    Ok(recipe.directory(interpreter.as_deref()))
}

/// Makes a part where nothing whole is. What cannot be made whole is removed.
fn make(work: &mut Work<'_>) -> Result<(), SetupError> {
    let (part, place) = (work.recipe.part, work.place);
    place::remove(place)?;
    let made = work.make().and_then(|()| {
        (work.tell)(Progress::Step { part, step: Step::Seal });
        place::seal(place)?;
        place::make_ready(part, place)
    });
    if made.is_err() {
        // It is not ready; the next set-up removes what stays now.
        drop(place::remove(place));
    }
    made
}
