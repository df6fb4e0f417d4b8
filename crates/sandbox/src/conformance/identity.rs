//! Who runs in a sandbox, and what of the machine it can touch.

use super::lab::{Failure, Lab, check, fails, sh, start, text, unique_number};

super::promises! {
    privileges, Nothing: "commands run without root, capabilities or a way to new privileges";
    user, Nothing: "the user is called agent and has a home of its own";
    writable, Nothing: "only the workspace, /tmp and the home can be written to";
    devices, Nothing: "the usual devices work and no other is there";
    secrets, Nothing: "nobody's home and no secret of the machine can be read";
    no_mounts, Nothing: "nothing can be mounted";
    no_namespaces, Nothing: "no capability can be had in a new user namespace";
    neighbours, Nothing: "two sandboxes do not see each other's files or processes";
}

async fn privileges(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let status = text(&sandbox, "cat /proc/self/status").await?;
    let field = |name: &str| -> Result<Vec<&str>, Failure> {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|rest| rest.split_whitespace().collect())
            .ok_or_else(|| Failure::broken(format!("/proc/self/status has no {name}")))
    };
    for name in ["Uid", "Gid"] {
        let ids = field(name)?;
        check!(ids.iter().all(|id| *id != "0"), "{name} is {ids:?}");
    }
    let groups = field("Groups")?;
    check!(groups.iter().all(|id| *id != "0"), "the groups are {groups:?}");
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        // Whatever is ambient is permitted: not every kernel tells of it apart.
        let set = match field(name) {
            Err(_) if name == "CapAmb" => continue,
            set => set?,
        };
        check!(set.iter().all(|set| set.bytes().all(|digit| digit == b'0')), "{name} is {set:?}");
    }
    let no_new = match field("NoNewPrivs") {
        Ok(told) => told.concat(),
        // A kernel that does not tell is asked: PR_GET_NO_NEW_PRIVS.
        Err(_) => {
            let ask = "perl -e 'print syscall(`uname -m` =~ /x86/ ? 157 : 167, 39, 0, 0, 0, 0)'";
            text(&sandbox, ask).await?
        }
    };
    check!(no_new == "1", "NoNewPrivs is {no_new:?}");
    check!(field("Seccomp")? == ["2"], "Seccomp is {:?}", field("Seccomp")?);
    Ok(())
}

async fn user(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let name = text(&sandbox, "id -un").await?;
    check!(name == "agent", "the user is {name:?}");
    let home = text(&sandbox, "cd && pwd && echo mine > ~/file && cat ~/file").await?;
    check!(home == "/home/agent\nmine", "the home is {home:?}");
    Ok(())
}

async fn writable(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    for place in ["/workspace", "/tmp", "/home/agent"] {
        text(&sandbox, &format!("echo x > {place}/file && mkdir {place}/d && rm -r {place}/d"))
            .await?;
    }
    for place in ["/", "/etc", "/usr", "/usr/bin", "/bin", "/lib", "/var", "/opt", "/proc/sys"] {
        fails(&sandbox, &format!("(: > {place}/cofferdam-was-here) 2> /dev/null")).await?;
    }
    fails(&sandbox, "(: >> /etc/passwd) 2> /dev/null").await?;
    fails(&sandbox, "(echo 1 > /proc/sys/kernel/sysrq) 2> /dev/null").await
}

async fn devices(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let count = text(&sandbox, "echo x > /dev/null && head -c 5 /dev/urandom | wc -c").await?;
    check!(count.trim() == "5", "/dev/urandom gave {count} bytes");
    let zeros = text(&sandbox, "head -c 3 /dev/zero | od -An -tx1").await?;
    check!(zeros.trim() == "00 00 00", "/dev/zero gave {zeros:?}");
    let script = "for each in mem kmem port sda vda nvme0n1 kvm fuse loop0 kmsg; do \
                  if (: < /dev/$each) 2> /dev/null; then echo $each; fi; done";
    let found = text(&sandbox, script).await?;
    check!(found.is_empty(), "these devices can be opened: {found}");
    Ok(())
}

async fn secrets(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let homes = text(&sandbox, "ls -A /root 2> /dev/null; ls -A /home").await?;
    check!(homes == "agent", "the homes hold {homes:?}");
    fails(&sandbox, "cat /etc/shadow 2> /dev/null").await?;
    fails(&sandbox, "find /etc/ssh -name '*_key' -readable 2> /dev/null | grep .").await?;
    let sockets = "for each in /run/docker.sock /var/run/docker.sock /run/containerd/containerd.sock \
                   /run/dbus/system_bus_socket /run/systemd/private; do \
                   if [ -e $each ]; then echo $each; fi; done";
    let sockets = text(&sandbox, sockets).await?;
    check!(sockets.is_empty(), "these sockets of the machine are there: {sockets}");
    let environment = sh(&sandbox, "tr '\\0' '\\n' < /proc/1/environ").await?;
    let environment = String::from_utf8_lossy(&environment.stdout).into_owned();
    let leaked = environment.lines().filter_map(|line| line.split_once('=')).find(|(name, _)| {
        ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word))
    });
    check!(leaked.is_none(), "the first process knows {:?}", leaked.map(|(name, _)| name));
    Ok(())
}

async fn no_mounts(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    fails(&sandbox, "mkdir -p /tmp/here && mount -t tmpfs none /tmp/here 2> /dev/null").await?;
    fails(&sandbox, "mount --bind /etc /workspace 2> /dev/null").await?;
    fails(&sandbox, "umount /workspace 2> /dev/null").await
}

async fn no_namespaces(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    fails(&sandbox, "unshare --user --map-root-user true 2> /dev/null").await?;
    fails(&sandbox, "unshare -Urm mount -t tmpfs none /tmp 2> /dev/null").await
}

async fn neighbours(lab: &Lab<'_>) -> Result<(), Failure> {
    let first = lab.scratch().await?;
    let second = lab.scratch().await?;
    let number = unique_number();
    let script =
        format!("echo s > secret; echo s > /tmp/secret; echo s > ~/secret; sleep {number}");
    let process = start(&first, &script).await?;
    process.started().await?;
    super::lab::until(&first, "test -e /workspace/secret -a -e /tmp/secret -a -e ~/secret").await?;

    let files = text(&second, "ls -A /workspace /tmp ~ | grep secret || true").await?;
    check!(files.is_empty(), "the neighbour's files are there: {files}");
    let script = "for each in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $each; echo; done";
    let seen = text(&second, script).await?;
    check!(!seen.contains(&number.to_string()), "the neighbour's process is there: {seen}");
    let processes = seen.lines().filter(|line| !line.trim().is_empty()).count();
    check!(processes <= 12, "{processes} processes can be seen: {seen}");
    Ok(())
}
