//! Real kernels, for tests: those that `cofferdam setup` installs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use cofferdam_testkit::SetUp;

/// What the aide's environment says of the kernels.
pub(crate) struct Kernels {
    /// The parts of the prefix, as `PATH` names directories.
    pub(crate) parts: OsString,
    /// What matplotlib knows of fonts.
    pub(crate) fonts: PathBuf,
}

/// The kernels. They are installed when they are first asked for.
pub(crate) fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let made = SetUp::for_tests().unwrap();
        let parts = std::env::join_paths(made.parts()).unwrap();
        Kernels { parts, fonts: fonts(&made) }
    })
}

/// Matplotlib looks through all fonts when it is first used; once is enough.
fn fonts(made: &SetUp) -> PathBuf {
    let home = made.prefix.parent().unwrap();
    let lock = File::create(home.join("fonts.lock")).unwrap();
    lock.lock().unwrap();
    let fonts = home.join("fonts");
    if !fonts.join("complete").exists() {
        #[expect(clippy::disallowed_methods, reason = "what was set up, in tests")]
        let mut plot = Command::new(made.python().unwrap());
        plot.args(["-c", "import matplotlib.pyplot"]).env("MPLCONFIGDIR", &fonts);
        let ran = plot.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        fs::write(fonts.join("complete"), "").unwrap();
    }
    fonts
}
