//! `python`: cells whose aide is a script of the test's, which says what it is told to.

use std::path::PathBuf;
use std::time::Duration;

use cofferdam_aide_protocol::{CellEnd, CellPiece, Stream};
use cofferdam_guest_protocol::encode_record;
use cofferdam_sandbox::Spec;
use cofferdam_tools::Aide;
use cofferdam_types::{CallId, ToolStatus};
use serde_json::json;

use crate::lab::{Blind, in_equipped_lab};

/// Says what is in `first`, waits for a word through `fifo`, and says what is in `last`.
const AIDE: &str = "#!/bin/sh\ncat >/dev/null\ncat first\nread word <fifo\ncat last\n";

fn records(pieces: &[CellPiece]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        encode_record(piece, &mut bytes).unwrap();
    }
    bytes
}

#[test]
fn what_an_earlier_process_had_taken_of_a_cell_is_not_lost() {
    let aide = Aide::new(PathBuf::from("/workspace/aide"), Vec::new());
    in_equipped_lab(Spec::scratch(), Some(aide), None, async |lab| {
        let line = |number: usize| CellPiece::Text {
            stream: Stream::Stdout,
            text: format!("{:010000} {number}\n", 0),
        };
        let first: Vec<_> = (0..300).map(line).collect();
        let mut last: Vec<_> = (300..400).map(line).collect();
        last.push(CellPiece::Ended(CellEnd::Finished { count: 1 }));
        lab.put("first", records(&first)).await;
        lab.put("last", records(&last)).await;
        lab.put("aide", AIDE).await;
        lab.sh("chmod +x aide; mkfifo fifo").await;

        let call = lab.call("python", json!({"code": "print()"}));
        let abandoned = async {
            let file = lab.outputs().join("1.1");
            while std::fs::metadata(&file).map_or(0, |file| file.len()) < 2 << 20 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            lab.sandbox.reconnect().await.unwrap();
        };
        let (answer, ()) = tokio::join!(call, abandoned);
        assert_eq!(answer.status, ToolStatus::Unknown, "{}", answer.text);
        lab.sh("echo go > fifo").await;
        let taken = lab.tools.take_up(CallId(1), &Blind).await.unwrap();
        assert_eq!(taken.status, ToolStatus::Done, "{}", taken.plain_text());
        let kept = std::fs::read_to_string(lab.outputs().join("1.1")).unwrap();
        let whole: String = (0..400).map(|number| format!("{:010000} {number}\n", 0)).collect();
        assert!(kept == whole, "{} of {} bytes", kept.len(), whole.len());
        lab.tools.acknowledge(CallId(1));
        assert_eq!(std::fs::read_dir(lab.outputs()).unwrap().count(), 1);
    });
}
