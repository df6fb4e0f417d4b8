//! A container in the words of Docker's and Podman's command lines, which are the same but
//! for users and networks.

use crate::container::{Container, Users};
use crate::engine::Kind;

/// The words that start it and return.
pub(crate) fn start(kind: Kind, container: &Container, image: &str) -> Vec<String> {
    let limits = &container.limits;
    let agent = container.users.agent();
    let mut words: Vec<String> = ["run", "--detach", "--pull=never"].map(str::to_owned).into();
    words.extend([
        format!("--name={}", container.name),
        format!("--label={LABEL}={}", container.home),
        "--hostname=cofferdam".to_owned(),
        // Also where the engine is set up to put a program of its own in front.
        "--init=false".to_owned(),
        format!("--network={}", if container.open_network { "host" } else { "none" }),
        "--read-only".to_owned(),
        "--cap-drop=ALL".to_owned(),
        "--security-opt=no-new-privileges".to_owned(),
        "--ipc=private".to_owned(),
        "--cgroupns=private".to_owned(),
        format!("--user={agent}:{agent}"),
        format!("--memory={}", limits.memory),
        // Together: no swap.
        format!("--memory-swap={}", limits.memory),
        // Docker refuses --cpus of more than the machine has, and no quota.
        "--cpu-period=100000".to_owned(),
        format!("--cpu-quota={}", u64::from(limits.milli_cpus) * 100),
        format!("--pids-limit={}", limits.pids),
        format!("--ulimit=nofile={0}:{0}", container.open_files),
        format!("--ulimit=nproc={0}:{0}", container.processes),
        "--ulimit=core=0:0".to_owned(),
        "--oom-score-adj=500".to_owned(),
        "--log-driver=none".to_owned(),
        // The first process takes no signal; an engine that stops need not wait for it.
        "--stop-timeout=1".to_owned(),
        "--workdir=/".to_owned(),
    ]);
    match (kind, container.users) {
        (_, Users::DaemonsRange) => {}
        // Also where the daemon would map ids.
        (Kind::Docker, _) => words.push("--userns=host".to_owned()),
        (_, Users::OwnRange) => {
            words.extend(["--uidmap", "--gidmap"].map(|map| format!("{map}={RANGE}")));
        }
        (_, Users::Caller) => words.push(format!("--userns=keep-id:uid={agent},gid={agent}")),
        (_, Users::Unmapped) => {}
    }
    for (source, target) in &container.files {
        let source = field(&format!("source={}", source.display()));
        words.push(format!("--mount=type=bind,{source},target={target},readonly"));
    }
    let [program, word] = Container::command();
    words.extend([format!("--entrypoint={program}"), image.to_owned(), word.to_owned()]);
    words
}

/// One field of several with commas between, as both engines read them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The words that remove it, if it is there.
pub(crate) fn remove(name: &str) -> Vec<String> {
    ["rm", "--force", "--volumes", name].map(str::to_owned).into()
}

/// The words that list the names of all containers of a home.
pub(crate) fn list(home: &str) -> Vec<String> {
    let filter = format!("--filter=label={LABEL}={home}");
    ["ps", "--all", &filter, "--format={{.Names}}"].map(str::to_owned).into()
}

/// The label of this product's containers.
const LABEL: &str = "cofferdam.home";

/// Ids 0 to 65535 inside are the supervisor's range outside.
const RANGE: &str = "0:1900000000:65536";

#[cfg(test)]
mod tests {
    use cofferdam_native_supervisor::identity::RANGE_START;
    use cofferdam_types::Limits;

    use super::*;

    fn container(users: Users, open_network: bool) -> Container {
        Container {
            name: "cofferdam-1".to_owned(),
            home: "h".to_owned(),
            users,
            limits: Limits { milli_cpus: 1500, ..Limits::default() },
            open_files: 20_000,
            processes: 32_768,
            open_network,
            files: [("/state/door".into(), "/.door"), ("/p".into(), "/.program")],
        }
    }

    #[test]
    fn everything_is_taken_away_by_name() {
        for (kind, users) in [(Kind::Docker, Users::Unmapped), (Kind::Podman, Users::OwnRange)] {
            let words = start(kind, &container(users, false), "image");
            for wanted in [
                "--network=none",
                "--read-only",
                "--cap-drop=ALL",
                "--security-opt=no-new-privileges",
                "--cpu-quota=150000",
                "--pids-limit=512",
                "--memory-swap=2147483648",
                "--mount=type=bind,source=/state/door,target=/.door,readonly",
            ] {
                assert!(words.iter().any(|word| word == wanted), "{wanted} is not in {words:?}");
            }
            assert_eq!(words[words.len() - 2..], ["image", "enter"]);
        }
    }

    #[test]
    fn a_path_with_commas_and_quotes_is_one_field() {
        let files = [("/a, b/\"c\"/door".into(), "/.door"), ("/p".into(), "/.program")];
        let container = Container { files, ..container(Users::OwnRange, false) };
        let words = start(Kind::Podman, &container, "image");
        let wanted = r#"--mount=type=bind,"source=/a, b/""c""/door",target=/.door,readonly"#;
        assert!(words.iter().any(|word| word == wanted), "{words:?}");
    }

    #[test]
    fn users_are_never_the_hosts() {
        let words = start(Kind::Docker, &container(Users::Unmapped, true), "image");
        assert!(words.contains(&"--user=1900001000:1900001000".to_owned()));
        assert!(words.contains(&"--network=host".to_owned()));
        let words = start(Kind::Docker, &container(Users::DaemonsRange, false), "image");
        assert!(words.contains(&"--user=1000:1000".to_owned()));
        assert!(!words.contains(&"--userns=host".to_owned()));
        let words = start(Kind::Podman, &container(Users::OwnRange, false), "image");
        assert!(words.contains(&format!("--uidmap=0:{RANGE_START}:65536")));
        let words = start(Kind::Podman, &container(Users::Caller, false), "image");
        assert!(words.contains(&"--userns=keep-id:uid=1000,gid=1000".to_owned()));
    }
}
