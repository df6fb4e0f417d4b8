//! The audit trail: what was done, and by which call.

use std::time::Instant;

use cofferdam_types::{AuditAct, AuditRecord, CallId};

use super::lab::{DEADLINE, Failure, LOOK_AGAIN, Lab, check, fails, text};
use crate::backend::{Audit, Spec, TrailMark};
use crate::sandbox::Sandbox;

super::promises! {
    acts, Audits: "the audit trail shows each act with the call that did it";
    files, Audits: "the audit trail shows relative paths as absolute ones";
    continued, Audits: "the audit trail goes on from where it was read to, once and in full";
    attempts, Audits: "what was attempted in vain is in the audit trail too";
    silent, Audits: "without an audit there is no trail";
}

/// Waits until the trail of a call shows an act.
async fn shows(
    sandbox: &Sandbox,
    call: CallId,
    wanted: &str,
    is_it: impl Fn(&AuditAct) -> bool,
) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let trail = sandbox.audit().await?;
        if trail.iter().any(|record| record.call == Some(call) && is_it(&record.act)) {
            return Ok(());
        }
        check!(begin.elapsed() < DEADLINE, "no {wanted} by call {call} in {trail:#?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Runs a script as a call of this number.
async fn run_as(sandbox: &Sandbox, call: CallId, script: &str) -> Result<(), Failure> {
    let result = sandbox.run(call, sandbox.shell(script).timeout(Some(DEADLINE))).await?;
    check!(result.outcome.success(), "`{script}` ended as {:?}", result.outcome);
    Ok(())
}

async fn acts(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let (first, second) = (CallId(4242), CallId(4343));
    run_as(&sandbox, first, "/bin/cat /dev/null; echo x > /workspace/made").await?;
    let script = "mkdir /workspace/folder; mv /workspace/made /workspace/moved; \
                  rm /workspace/moved; bash -c ': < /dev/tcp/127.0.0.1/9' 2> /dev/null || true";
    run_as(&sandbox, second, script).await?;

    shows(
        &sandbox,
        first,
        "execution of cat",
        |act| matches!(act, AuditAct::Executed { path } if path.ends_with("/cat")),
    )
    .await?;
    shows(
        &sandbox,
        first,
        "opening of /workspace/made",
        |act| matches!(act, AuditAct::OpenedForWriting { path } if path == "/workspace/made"),
    )
    .await?;
    shows(
        &sandbox,
        second,
        "making of /workspace/folder",
        |act| matches!(act, AuditAct::Created { path } if path == "/workspace/folder"),
    )
    .await?;
    shows(&sandbox, second, "renaming of /workspace/made", |act| {
        matches!(act, AuditAct::Renamed { from, to }
            if from == "/workspace/made" && to == "/workspace/moved")
    })
    .await?;
    shows(
        &sandbox,
        second,
        "deletion of /workspace/moved",
        |act| matches!(act, AuditAct::Deleted { path } if path == "/workspace/moved"),
    )
    .await?;
    shows(
        &sandbox,
        second,
        "connection to 127.0.0.1:9",
        |act| matches!(act, AuditAct::Connected { address } if address == "127.0.0.1:9"),
    )
    .await
}

async fn files(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let call = CallId(77);
    run_as(&sandbox, call, "mkdir sub && cd sub && echo x > relative").await?;
    shows(&sandbox, call, "opening of /workspace/sub/relative", |act| {
        matches!(act, AuditAct::OpenedForWriting { path } if path == "/workspace/sub/relative")
    })
    .await
}

async fn continued(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let (mut mark, mut read) = (TrailMark::default(), Vec::new());
    for number in 0..3 {
        let call = CallId(600 + number);
        let script = format!("echo x > /workspace/made-{number}");
        run_as(&sandbox, call, &script).await?;
        let wanted = format!("/workspace/made-{number}");
        let begin = Instant::now();
        let mut fresh = Vec::new();
        let is_it =
            |act: &AuditAct| matches!(act, AuditAct::OpenedForWriting { path } if *path == wanted);
        while !fresh.iter().any(|record: &AuditRecord| is_it(&record.act)) {
            check!(begin.elapsed() < DEADLINE, "no opening of {wanted} in {fresh:#?}");
            let (more, end) = sandbox.audit_since(mark).await?;
            fresh.extend(more);
            mark = end;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let old = |record: &&AuditRecord| record.call.is_some_and(|of| of < call);
        let old: Vec<_> = fresh.iter().filter(old).filter(|one| read.contains(*one)).collect();
        check!(old.is_empty(), "read again: {old:#?}");
        read.extend(fresh);
    }
    let (last, _) = sandbox.audit_since(mark).await?;
    read.extend(last);
    let whole = sandbox.audit().await?;
    let missing: Vec<_> = read.iter().filter(|record| !whole.contains(record)).collect();
    check!(missing.is_empty(), "not in the whole trail: {missing:#?}");
    let calls = |trail: &[AuditRecord]| trail.iter().filter(|one| one.call.is_some()).count();
    check!(calls(&read) == calls(&whole), "{} of {} records", calls(&read), calls(&whole));
    Ok(())
}

async fn attempts(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    fails(&sandbox, "(: > /etc/attempt) 2> /dev/null").await?;
    let call = CallId(88);
    let script = "(: > /etc/attempt) 2> /dev/null; \
                  bash -c ': < /dev/tcp/192.0.2.7/443' 2> /dev/null; true";
    run_as(&sandbox, call, script).await?;
    shows(
        &sandbox,
        call,
        "opening of /etc/attempt",
        |act| matches!(act, AuditAct::OpenedForWriting { path } if path == "/etc/attempt"),
    )
    .await?;
    shows(
        &sandbox,
        call,
        "connection to 192.0.2.7:443",
        |act| matches!(act, AuditAct::Connected { address } if address == "192.0.2.7:443"),
    )
    .await
}

async fn silent(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.open(Spec { audit: Audit::Off, ..Spec::scratch() }).await?;
    text(&sandbox, "echo x > file; rm file").await?;
    let trail = sandbox.audit().await?;
    check!(trail.is_empty(), "the trail has {} records", trail.len());
    Ok(())
}
