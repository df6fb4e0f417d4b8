//! What version control ignores is left out and told of, or is there if asked for.

use cofferdam_bundle::{Contents, Format, Wanted, archive_file, zip_file};

use crate::lab::{Lab, about, block_on, read};

#[test]
fn heavy_directories_are_left_out_where_they_are_ignored_and_only_there() {
    let lab = Lab::new();
    lab.put(".gitignore", "node_modules/\n/target\n*.log\n!kept.log\n.venv\n");
    lab.put("node_modules/a/index.js", "12345");
    lab.put("node_modules/b/index.js", "123");
    lab.put("target/debug/app", vec![0; 1000]);
    lab.put(".venv/bin/python", "x");
    lab.put("a.log", "xy");
    lab.put("kept.log", "kept");
    lab.put("sub/target/kept", "not at the top");
    lab.put("sub/.gitignore", "secret\n");
    lab.put("sub/secret", "s");
    lab.put("dist/kept", "in no ignore file");
    lab.put(".git/config", "git's own");
    let (usual, all) = (lab.path("usual.zip"), lab.path("all.zip"));
    let (summary, whole) = block_on(async {
        let sandbox = lab.open().await;
        let files = sandbox.files();
        let summary = zip_file(&files, about(), &usual).await.unwrap();
        let wanted = Wanted { format: Format::Zip, contents: Contents::Everything };
        let whole = archive_file(&files, about(), wanted, &all).await.unwrap();
        sandbox.close().await.unwrap();
        (summary, whole)
    });
    let usual = read(&usual);
    assert_eq!(
        usual.names(),
        [
            ".gitignore",
            "MANIFEST.json",
            "dist/",
            "dist/kept",
            "kept.log",
            "sub/",
            "sub/.gitignore",
            "sub/target/",
            "sub/target/kept"
        ]
    );
    let ignored = &usual.manifest["ignored"];
    assert_eq!((&ignored["files"], &ignored["counted_all"]), (&7.into(), &true.into()));
    assert_eq!(ignored["bytes"], 5 + 3 + 1000 + 1 + 2 + 1 + 9);
    let places: Vec<(&str, u64)> = ignored["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| (place["path"].as_str().unwrap(), place["files"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("target", 1),
        (".git", 1),
        ("node_modules", 2),
        ("a.log", 1),
        (".venv", 1),
        ("sub/secret", 1),
    ];
    assert_eq!(places, expected);
    assert_eq!((summary.ignored, whole.ignored), (7, 0));

    let all = read(&all);
    for name in ["target/debug/app", "node_modules/a/index.js", "_.git/config", "sub/secret"] {
        assert!(all.names().contains(&name), "{name}");
    }
    assert_eq!(all.manifest["ignored"]["files"], 0);
    all.assert_files_match();
}
