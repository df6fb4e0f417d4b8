//! Forks: a sandbox that begins as another was, and goes its own way.

use std::sync::Arc;

use super::lab::{Failure, Lab, check, read_until, start, text, until};
use crate::backend::{Snapshot, Spec, Workspace};
use crate::sandbox::Sandbox;

super::promises! {
    apart, Forks: "a fork sees what its parent had, and neither sees what the other does later";
    busy, Forks: "a fork is frozen also while its parent holds a file open and writes on";
    several, Forks: "several forks of one snapshot, and a fork of a fork, are all apart";
    over_directory, Forks: "a fork of a directory's workspace changes nothing of the directory";
}

async fn fork(lab: &Lab<'_>, snapshot: Snapshot) -> Result<Arc<Sandbox>, Failure> {
    lab.open(Spec { workspace: Workspace::Fork(snapshot), ..Spec::scratch() }).await
}

async fn apart(lab: &Lab<'_>) -> Result<(), Failure> {
    let parent = lab.scratch().await?;
    let script = "echo one > file; mkdir folder; echo deep > folder/deep; ln -s file link; \
                  echo tool > tool; chmod 755 tool; echo gone > gone; rm gone";
    text(&parent, script).await?;
    let child = fork(lab, parent.snapshot().await?).await?;
    let script = "cat file folder/deep link && test -x tool && test ! -e gone";
    let seen = text(&child, script).await?;
    check!(seen == "one\ndeep\none", "the fork sees {seen:?}");

    text(&child, "echo two > file; rm -r folder; echo x > of-child").await?;
    text(&parent, "echo three >> file; rm tool; echo x > of-parent").await?;
    let parents = text(&parent, "ls; cat file folder/deep").await?;
    check!(parents == "file\nfolder\nlink\nof-parent\none\nthree\ndeep", "parent: {parents:?}");
    let childs = text(&child, "ls; cat file").await?;
    check!(childs == "file\nlink\nof-child\ntool\ntwo", "fork: {childs:?}");
    Ok(())
}

async fn busy(lab: &Lab<'_>) -> Result<(), Failure> {
    let parent = lab.scratch().await?;
    let script = "exec 3>> log; echo ready; \
                  while :; do echo tick >&3; echo $$ > other; sleep 0.01; done";
    let mut process = start(&parent, script).await?;
    read_until(&mut process, "ready").await?;
    until(&parent, "test $(wc -l < log) -ge 5").await?;
    let child = fork(lab, parent.snapshot().await?).await?;
    let length = |text: String| text.trim().parse::<u64>().unwrap_or_default();
    let frozen = length(text(&child, "wc -c < log").await?);
    check!(frozen >= 25, "the fork's log has {frozen} bytes");

    // The writer goes on, in the parent's log and in no other.
    until(&parent, &format!("test $(wc -c < log) -gt {}", frozen + 100)).await?;
    let later = length(text(&child, "wc -c < log").await?);
    check!(later == frozen, "the fork's log grew from {frozen} to {later}");
    text(&child, "echo child > log").await?;
    let parents = length(text(&parent, "wc -c < log").await?);
    check!(parents > frozen + 100, "the parent's log has {parents} bytes");
    until(&parent, &format!("test $(wc -c < log) -gt {parents}")).await
}

async fn several(lab: &Lab<'_>) -> Result<(), Failure> {
    let parent = lab.scratch().await?;
    text(&parent, "echo base > file").await?;
    let snapshot = parent.snapshot().await?;
    text(&parent, "echo later > file").await?;
    let first = fork(lab, snapshot.clone()).await?;
    text(&first, "echo first >> file").await?;
    let second = fork(lab, snapshot).await?;
    let of_first = fork(lab, first.snapshot().await?).await?;
    text(&of_first, "echo of-first >> file").await?;
    for (sandbox, wanted) in [
        (&parent, "later"),
        (&first, "base\nfirst"),
        (&second, "base"),
        (&of_first, "base\nfirst\nof-first"),
    ] {
        let content = text(sandbox, "cat file").await?;
        check!(content == wanted, "{wanted:?} was wanted, {content:?} is there");
    }
    Ok(())
}

async fn over_directory(lab: &Lab<'_>) -> Result<(), Failure> {
    let directory = lab.directory()?;
    std::fs::write(directory.join("file"), "host\n")?;
    let parent = lab.over(&directory).await?;
    text(&parent, "echo parent >> file").await?;
    let child = fork(lab, parent.snapshot().await?).await?;
    let seen = text(&child, "cat file; echo child >> file; echo x > new").await?;
    check!(seen == "host\nparent", "the fork sees {seen:?}");
    lab.close(child).await?;
    lab.close(parent).await?;
    let content = std::fs::read_to_string(directory.join("file"))?;
    check!(content == "host\nparent\n", "the directory's file holds {content:?}");
    check!(!directory.join("new").exists(), "the fork's file was brought out");
    Ok(())
}
