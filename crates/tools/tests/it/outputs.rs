//! Outputs that are too long to show: kept, named, and read again.

use serde_json::json;

use crate::lab::in_lab;

#[test]
fn the_rest_of_a_cut_output_is_read_by_its_handle() {
    in_lab(async |lab| {
        let answer = lab.bash("for i in {1..20000}; do echo line $i; done").await;
        assert!(answer.done().starts_with("line 1\nline 2\n"));
        assert!(answer.text.ends_with("line 20000\nexit code: 0"));
        let rest = answer.output.rest.clone().unwrap();
        assert_eq!((rest.handle.as_str(), rest.bytes), ("output:1", 208_894));
        let kept = std::fs::read(lab.outputs().join("1")).unwrap();
        assert_eq!(kept.len() as u64, rest.bytes, "byte for byte");

        let (_, offset) = answer.text.split_once("and offset ").unwrap();
        let offset: u64 = offset.split_whitespace().next().unwrap().parse().unwrap();
        let arguments = json!({"path": rest.handle, "offset": offset, "limit": 2});
        let more = lab.call("read_file", arguments).await;
        let expected =
            format!("{offset:>6}\tline {offset}\n{:>6}\tline {}\n", offset + 1, offset + 1);
        assert!(more.done().starts_with(&expected), "{}", more.text);
        assert!(more.text.contains("of 20000; go on with offset"), "{}", more.text);
    });
}

#[test]
fn no_handle_leads_to_another_file_of_the_host() {
    in_lab(async |lab| {
        assert!(
            lab.call("read_file", json!({"path": "output:99"}))
                .await
                .failed()
                .contains("no such output")
        );
        for path in ["output:../../etc/passwd", "output:/etc/passwd", "output:"] {
            let answer = lab.call("read_file", json!({ "path": path })).await;
            assert!(!answer.failed().contains("root:"), "{}", answer.text);
        }
    });
}
