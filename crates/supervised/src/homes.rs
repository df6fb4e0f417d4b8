//! Homes that lie among the host's programs: a sandbox shows those, and nobody's home.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cofferdam_native_supervisor::root;

/// The first id of a person's, and the first beyond.
const PEOPLE: std::ops::Range<u32> = 1000..60_000;

/// Which directories of the host's programs are to be shown empty: the homes of this user, whose
/// variable `home` has, and of all people, and what this product keeps, of which `sandboxes` is
/// the place for its sandboxes.
pub(crate) fn among_programs(home: Option<OsString>, sandboxes: &Path) -> Vec<PathBuf> {
    let programs: Vec<PathBuf> = root::of_programs().collect();
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    let users = String::from_utf8_lossy(&users);
    // By its name, where it is somebody else's: to look at one may be to wait for a server.
    let among = |home: &PathBuf| programs.iter().any(|programs| home.starts_with(programs));
    let own = home.map(PathBuf::from).into_iter();
    let product = sandboxes.ancestors().take(2).map(Path::to_path_buf);
    let all = own.chain(product).chain(homes_of(&users).filter(among));
    hidden(&programs, all.filter_map(|path| std::fs::canonicalize(path).ok()))
}

/// The homes of all people, as `/etc/passwd` has them.
fn homes_of(users: &str) -> impl Iterator<Item = PathBuf> {
    users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let id: u32 = fields.nth(2)?.parse().ok()?;
        let home = fields.nth(2)?;
        PEOPLE.contains(&id).then(|| PathBuf::from(home))
    })
}

/// Those that lie below a directory of programs, each once. One that programs cannot do without
/// stays, and be it the home of a service: those often have such a one.
fn hidden(programs: &[PathBuf], paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let needed = |path: &Path| {
        let parent = path.parent().unwrap_or(path);
        programs.iter().any(|programs| programs == path)
            || [Path::new("/usr"), Path::new("/usr/local")].contains(&parent)
    };
    let among = |path: &PathBuf| {
        !needed(path) && programs.iter().any(|programs| path.starts_with(programs))
    };
    let mut found: Vec<PathBuf> = paths.filter(among).collect();
    found.sort();
    // In this order, what lies in another comes after it and before what does not.
    found.dedup_by(|later, earlier| later.starts_with(earlier));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<PathBuf> {
        paths.into_iter().map(PathBuf::from).collect()
    }

    #[test]
    fn only_what_lies_below_programs_is_hidden_and_only_once() {
        let programs = paths(["/usr", "/opt"]);
        let homes = ["/opt/b/c", "/usr/home/d", "/opt/b", "/opt/bc", "/opt/b"];
        let found = hidden(&programs, paths(homes).into_iter());
        assert_eq!(found, paths(["/opt/b", "/opt/bc", "/usr/home/d"]));
        let stay = ["/", "/opt", "/home/a", "/usr/bin", "/usr/local", "/usr/local/bin"];
        assert_eq!(hidden(&programs, paths(stay).into_iter()), paths([]));
    }

    #[test]
    fn services_have_no_home_to_hide() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\
                     daemon:x:1:1::/usr/sbin:/sbin/nologin\n\
                     ann:x:1000:1000:Ann:/opt/ann:/bin/sh\n\
                     nobody:x:65534:65534::/nonexistent:/sbin/nologin\n\
                     broken\n";
        assert_eq!(homes_of(users).collect::<Vec<_>>(), paths(["/opt/ann"]));
    }
}
