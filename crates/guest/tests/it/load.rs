//! Much at once.

use cofferdam_guest_protocol::{Control, ExecEnd, FileReply, FileRequest, Match, Request};

use crate::client::{argv, shell};
use crate::guest::{Guest, at_work, wait_until};

#[test]
fn twenty_thousand_files_are_searched() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "for d in $(seq 20); do mkdir d$d; cd d$d; \
        seq -f 'file %g of many, with some text' 1000 | split -l 1 -a 3 -; cd ..; done; \
        echo needle >> d17/xabc";
    let mut exec = shell(script);
    exec.cwd = guest.workspace().into_os_string().into_encoded_bytes();
    assert_eq!(client.run(exec).end(), &ExecEnd::Exited(0));
    let request = FileRequest::Search {
        path: b".".to_vec(),
        pattern: "nee[d]le".to_owned(),
        literal: false,
        ignore_case: false,
        glob: None,
        respect_ignore: true,
        context: 0,
        limit: 10,
    };
    let began = std::time::Instant::now();
    let outcome = client.file(request);
    println!("searched 20,000 files in {:?}", began.elapsed());
    let found: Vec<Match> = outcome.records();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, b"d17/xabc");
    let listed = FileReply::Listed { records: 1, more: false, unreadable: vec![] };
    assert_eq!(outcome.file(), Ok(listed));
    let delete = |n| FileRequest::Delete { path: format!("d{n}").into_bytes(), recursive: true };
    for n in 1..=20 {
        let deleted = FileReply::Deleted { entries: 1001 };
        assert_eq!(client.file(delete(n)).file(), Ok(deleted));
    }
}

#[test]
fn commands_files_and_floods_share_the_connection() {
    let guest = Guest::start();
    let mut client = guest.connect();
    client.keeps = false;
    let content = vec![5; 4 << 20];
    guest.put("file", &content);
    let floods: Vec<u64> = (0..4).map(|_| client.exec(argv(&["cat", "/dev/zero"]))).collect();
    let mut calls = Vec::new();
    for n in 0..20 {
        let read = FileRequest::Read { path: b"file".to_vec(), offset: 0, limit: u64::MAX };
        calls.push((client.request(Request::File(read)), content.len() as u64));
        calls.push((client.exec(shell(&format!("head -c {n}00000 /dev/zero"))), n * 100_000));
    }
    for (call, bytes) in calls {
        let outcome = client.finish(call);
        assert_eq!(outcome.received[0], bytes);
    }
    for flood in &floods {
        assert!(client.outcome(*flood).received[0] > 0, "each had its share");
        client.control(*flood, Control::Kill);
    }
    for flood in floods {
        client.finish(flood);
    }
    wait_until("nothing is left", || at_work(guest.pid()).is_empty());
    assert!(guest.memory_kb("VmRSS") < 48 << 10, "{}", guest.memory_kb("VmRSS"));
}

#[test]
fn without_descriptors_calls_are_refused_and_the_guest_goes_on() {
    let guest = Guest::start_after("ulimit -n 64");
    let mut client = guest.connect();
    let calls: Vec<u64> = (0..40).map(|_| client.exec(argv(&["sleep", "1000"]))).collect();
    let list = client.request(Request::Calls);
    client.wait_done(list);
    let refused = calls.iter().filter(|call| client.outcome(**call).reply.is_some()).count();
    assert!(refused > 20, "{refused}");
    // A host can still dial.
    let mut client = guest.connect();
    for call in &calls {
        client.control(*call, Control::Kill);
    }
    wait_until("what ran is gone", || at_work(guest.pid()).is_empty());
}
