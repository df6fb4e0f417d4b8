//! Operations on files: records, contents, archives.

use bytes::Bytes;
use cofferdam_guest_protocol::{
    Channel, Control, Entry, EntryKind, FileError, FileReply, FileRequest, FileStat, Frame, Reply,
    Request, WriteMode, encode_record,
};
use cofferdam_sandbox::{CallError, FilesError, Range};
use tokio::io::AsyncReadExt;

use crate::fake_guest::{FakeGuest, connected, stdout};

const STAT: FileStat =
    FileStat { kind: EntryKind::File, size: 3, allocated: 0, permissions: 0o644, modified_ns: 0 };

async fn file_request(guest: &mut FakeGuest) -> (u64, FileRequest) {
    match guest.request().await {
        (call, Request::File(request)) => (call, request),
        (_, other) => panic!("no file request: {other:?}"),
    }
}

fn answer(call: u64, reply: Result<FileReply, FileError>) -> Frame {
    Frame::Done { call, reply: Reply::File(reply) }
}

#[tokio::test]
async fn the_records_of_a_listing_arrive_however_they_are_cut() {
    let (client, mut guest) = connected().await;
    let entry = |number: u32| Entry {
        path: format!("file {number}").into_bytes(),
        stat: STAT,
        link: number.is_multiple_of(2).then(|| b"target".to_vec()),
    };
    let files = client.files();
    let play = async {
        let (call, request) = file_request(&mut guest).await;
        assert_eq!(request, FileRequest::List { path: b"src".into(), depth: 2, limit: 500 });
        let mut wire = Vec::new();
        for number in 0..200 {
            encode_record(&entry(number), &mut wire).unwrap();
        }
        for piece in wire.chunks(7) {
            guest.send(stdout(call, piece.to_vec())).await;
        }
        guest.send(Frame::End { call, channel: Channel::Output }).await;
        let reply = FileReply::Listed { records: 200, more: true, unreadable: Vec::new() };
        guest.send(answer(call, Ok(reply))).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
    };
    let (listing, ()) = tokio::join!(files.list("src", 2, 500), play);
    let listing = listing.unwrap();
    assert_eq!(listing.records, (0..200).map(entry).collect::<Vec<_>>());
    assert!(listing.more);
}

#[tokio::test]
async fn a_guest_names_no_more_of_what_it_left_out_than_it_may() {
    let (client, mut guest) = connected().await;
    let files = client.files();
    let many = vec![(Vec::new(), String::new()); 5000];
    let play = async {
        let (call, _) = file_request(&mut guest).await;
        let reply = FileReply::Listed { records: 0, more: false, unreadable: many.clone() };
        guest.send(answer(call, Ok(reply))).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
        let (call, _) = file_request(&mut guest).await;
        assert_eq!(guest.frame().await, Frame::End { call, channel: Channel::Input });
        let reply = FileReply::Archived { entries: 0, bytes: 0, skipped: many.clone() };
        guest.send(answer(call, Ok(reply))).await;
    };
    let work = async {
        assert_eq!(files.list("src", 2, 500).await.unwrap().unreadable.len(), 100);
        let unpacked = files.unpack(".", &b""[..]).await;
        assert_eq!(unpacked.unwrap().skipped.len(), 100);
    };
    tokio::join!(work, play);
}

#[tokio::test]
async fn a_guest_that_lists_more_than_was_asked_for_is_not_believed() {
    let (client, mut guest) = connected().await;
    let entry = Entry { path: b"f".into(), stat: STAT, link: None };
    let mut wire = Vec::new();
    encode_record(&entry, &mut wire).unwrap();
    let files = client.files();
    let play = async {
        let (call, _) = file_request(&mut guest).await;
        guest.send_all([stdout(call, wire.clone()), stdout(call, wire.clone())]).await;
        assert_eq!(guest.frame().await, Frame::Control { call, control: Control::Kill });
    };
    let (listing, ()) = tokio::join!(files.list("", 1, 1), play);
    assert!(matches!(listing, Err(FilesError::Call(CallError::UnexpectedReply))), "{listing:?}");
}

#[tokio::test]
async fn a_file_is_read_up_to_the_limit_and_a_guest_that_sends_more_is_cut_off() {
    let (client, mut guest) = connected().await;
    let files = client.files();
    let play = async {
        let (call, _) = file_request(&mut guest).await;
        guest.send_all([stdout(call, "ab"), stdout(call, "c")]).await;
        guest.send(answer(call, Ok(FileReply::Read { stat: STAT, sha256: Some([1; 32]) }))).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
        let (call, _) = file_request(&mut guest).await;
        guest.send(stdout(call, "abcd")).await;
        assert_eq!(guest.frame().await, Frame::Control { call, control: Control::Kill });
    };
    let read = async {
        let content = files.read("f", Range::first(3)).await.unwrap();
        assert_eq!((content.bytes.as_ref(), content.sha256), (&b"abc"[..], Some([1; 32])));
        let error = files.read("f", Range::first(3)).await.unwrap_err();
        assert!(matches!(error, FilesError::TooMuch { limit: 3 }), "{error}");
    };
    let ((), ()) = tokio::join!(play, read);
}

#[tokio::test]
async fn what_is_written_ends_with_an_end_and_an_early_answer_is_heard() {
    let (client, mut guest) = connected().await;
    let files = client.files();
    let play = async {
        let (call, request) = file_request(&mut guest).await;
        let (path, mode) = (b"f".to_vec(), WriteMode::Replace);
        assert_eq!(request, FileRequest::Write { path, mode, permissions: 0o600 });
        let channel = Channel::Input;
        assert_eq!(guest.frame().await, Frame::Data { call, channel, bytes: "new".into() });
        assert_eq!(guest.frame().await, Frame::End { call, channel });
        let reply = FileReply::Written { size: 3, sha256: None, replaced: 0 };
        guest.send(answer(call, Ok(reply))).await;
        assert_eq!(guest.frame().await, Frame::Ack { call });
        let (call, _) = file_request(&mut guest).await;
        guest.send(answer(call, Err(FileError::Outside))).await;
    };
    let write = async {
        let mode = WriteMode::Replace;
        assert_eq!(files.write("f", "new".into(), mode, 0o600).await.unwrap().size, 3);
        let endless = Bytes::from(vec![0; 8 << 20]);
        let error = files.write("../f", endless, WriteMode::Replace, 0o600).await.unwrap_err();
        assert!(matches!(error, FilesError::File(FileError::Outside)), "{error}");
    };
    let ((), ()) = tokio::join!(play, write);
}

#[tokio::test]
async fn a_write_that_is_dropped_halfway_is_killed_and_never_ended() {
    let (client, mut guest) = connected().await;
    let files = client.files();
    let mut write = Box::pin(files.write("f", vec![0; 2 << 20].into(), WriteMode::Create, 0o600));
    tokio::select! {
        _ = &mut write => panic!("more than a window was sent"),
        (call, _) = file_request(&mut guest) => assert!(call > 0),
    }
    drop(write);
    loop {
        match guest.frame().await {
            Frame::Data { .. } => {}
            Frame::Control { control: Control::Kill, .. } => break,
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_archive_streams_both_ways_and_one_that_breaks_off_is_an_error() {
    let (client, mut guest) = connected().await;
    let files = client.files();
    let archived = FileReply::Archived { entries: 1, bytes: 2, skipped: Vec::new() };
    let play = async {
        for reply in [Ok(archived.clone()), Err(FileError::Denied)] {
            let (call, _) = file_request(&mut guest).await;
            guest.send_all([stdout(call, "tar"), answer(call, reply)]).await;
            assert_eq!(guest.frame().await, Frame::Ack { call });
        }
        let (call, _) = file_request(&mut guest).await;
        let channel = Channel::Input;
        assert_eq!(guest.frame().await, Frame::Data { call, channel, bytes: "tarball".into() });
        assert_eq!(guest.frame().await, Frame::End { call, channel });
        guest.send(answer(call, Ok(archived.clone()))).await;
    };
    let work = async {
        let mut bytes = Vec::new();
        let mut pack = files.pack(".", cofferdam_sandbox::Ignored::Include).await.unwrap();
        pack.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"tar");
        assert_eq!(pack.archived().await.unwrap().entries, 1);
        let mut pack = files.pack(".", cofferdam_sandbox::Ignored::Include).await.unwrap();
        assert!(pack.read_to_end(&mut bytes).await.is_err());
        drop(pack);
        assert_eq!(files.unpack("in", &b"tarball"[..]).await.unwrap().bytes, 2);
    };
    let ((), ()) = tokio::join!(play, work);
}
