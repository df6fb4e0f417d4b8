//! Tests of a channel's queue.

use super::*;

fn receive(inbox: &mut Inbox, bytes: Bytes) -> Result<(), Broken> {
    inbox.receive(bytes.len() as u64)?;
    inbox.push(0, bytes);
    Ok(())
}

fn drain(inbox: &mut Inbox) -> Vec<Taken> {
    std::iter::from_fn(|| inbox.take()).collect()
}

#[test]
fn short_pieces_are_gathered_and_long_ones_passed_on_as_they_are() {
    let mut inbox = Inbox::default();
    let long = Bytes::from(vec![7; GATHERED]);
    for piece in [Bytes::from_static(b"a"), Bytes::from_static(b"b"), long.clone()] {
        receive(&mut inbox, piece).unwrap();
    }
    receive(&mut inbox, Bytes::from_static(b"c")).unwrap();

    let taken = drain(&mut inbox);

    assert_eq!(
        taken,
        [
            Taken::Data(Bytes::from_static(b"ab")),
            Taken::Data(long.clone()),
            Taken::Data(Bytes::from_static(b"c"))
        ]
    );
    let Some(Taken::Data(same)) = taken.get(1) else { panic!("no data") };
    assert_eq!(same.as_ptr(), long.as_ptr());
}

#[test]
fn few_small_parts_of_blocks_keep_these_alive() {
    let mut inbox = Inbox::default();
    let block = Bytes::from(vec![7; 2 * LARGE]);
    for round in 0..3 {
        // From the same place, so that where a piece lies says whether it is a copy.
        let pieces: Vec<Bytes> = (0..10).map(|_| block.slice(..GATHERED)).collect();
        for piece in pieces {
            receive(&mut inbox, piece).unwrap();
        }
        receive(&mut inbox, block.slice(..LARGE)).unwrap();
        let taken = drain(&mut inbox);
        let kept = |taken: &&Taken| matches!(taken, Taken::Data(bytes) if bytes.as_ptr() == block.as_ptr());
        assert_eq!(taken.iter().filter(kept).count(), MOST_PARTS + 1, "in round {round}");
        inbox.grant();
    }
}

#[test]
fn a_window_of_single_bytes_takes_few_pieces() {
    let mut inbox = Inbox::default();
    for _ in 0..WINDOW {
        receive(&mut inbox, Bytes::from_static(b"x")).unwrap();
    }
    assert!(inbox.queue.len() <= 2 * (WINDOW as usize / GATHERED));
    assert_eq!(receive(&mut inbox, Bytes::from_static(b"x")), Err(Broken::Overrun));
}

#[test]
fn credit_is_granted_as_bytes_are_taken_and_never_before() {
    let mut inbox = Inbox::from_offset(1000);
    let piece = Bytes::from(vec![0; WINDOW as usize / 8]);
    for _ in 0..8 {
        receive(&mut inbox, piece.clone()).unwrap();
    }
    assert_eq!(inbox.grant(), None);
    inbox.take().unwrap();
    assert_eq!(inbox.grant(), None);
    inbox.take().unwrap();
    assert_eq!(inbox.grant(), Some(1000 + WINDOW / 4));
    assert_eq!(inbox.grant(), None);
}

#[test]
fn nothing_is_granted_or_taken_in_after_the_end() {
    let mut inbox = Inbox::default();
    receive(&mut inbox, Bytes::from(vec![0; WINDOW as usize])).unwrap();
    inbox.end();
    inbox.take().unwrap();
    assert_eq!(inbox.grant(), None);
    assert_eq!(receive(&mut inbox, Bytes::from_static(b"x")), Err(Broken::AfterEnd));
}

#[test]
fn a_gap_keeps_its_place_and_gaps_without_end_are_refused() {
    let mut inbox = Inbox::default();
    receive(&mut inbox, Bytes::from_static(b"head")).unwrap();
    inbox.push_gap(1, 5).unwrap();
    inbox.push_gap(1, 2).unwrap();
    receive(&mut inbox, Bytes::from_static(b"tail")).unwrap();
    assert_eq!(
        drain(&mut inbox),
        [
            Taken::Data(Bytes::from_static(b"head")),
            Taken::Gap(7),
            Taken::Data(Bytes::from_static(b"tail"))
        ]
    );
    for _ in 0..MAX_GAPS {
        inbox.push_gap(1, 1).unwrap();
        receive(&mut inbox, Bytes::from_static(b"x")).unwrap();
    }
    assert_eq!(inbox.push_gap(1, 1), Err(Broken::Gaps));
}
