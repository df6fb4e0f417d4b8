//! `sandbox.image = "task"` of a server: each job has the image that the files it begins with
//! ask for.

use std::path::{Path, PathBuf};

use cofferdam_testkit::Turn;
use serde_json::json;

use crate::agent::{bash, of_kind};
use crate::eventually;
use crate::home::Home;
use crate::image_task::{keep_others_waiting, put_for};
use crate::served::{OPTIONS, Served};
use crate::server_cases::events;

/// A home whose server has jobs of such images.
fn home() -> Home {
    let home = Home::new();
    let settings = home.beside("user/.config/cofferdam");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("config.toml"), "[sandbox]\nimage = \"task\"\n").unwrap();
    home
}

/// A directory with these requirements.
fn files(home: &Home, name: &str, requirements: &str) -> PathBuf {
    let directory = home.make_directory(name);
    home.make_file(&directory.join("requirements.txt"), requirements);
    directory
}

/// Submits a job that begins with the files of a directory.
fn submit(served: &Served, files: &Path) -> String {
    let tar = std::process::Command::new("tar").arg("-C").arg(files).args(["-c", "."]).output();
    let archive = tar.unwrap().stdout;
    let upload = served.ask("POST", "/api/v1/uploads").body("application/x-tar", archive);
    let upload = upload.expect(201);
    served.submit(&json!({"task": "do it", "upload": upload["id"]}))
}

const LOOK: &str = "[ -e /usr/bin/mmdebstrap ] || echo only its own";

#[test]
fn a_servers_job_keeps_the_image_that_its_files_asked_for() {
    let home = home();
    let asked = files(&home, "asked", "six\n");
    let nothing = home.make_directory("nothing");
    let keys = [put_for(&home, &asked), put_for(&home, &nothing)];
    let script = format!(
        "echo numpy > requirements.txt; {LOOK}; : > here; until [ -e end ]; do sleep 0.1; done"
    );
    let turns = [bash(&script), bash(LOOK)];
    let mut served = Served::at(home, OPTIONS, move |_, said| {
        turns.get(said).cloned().unwrap_or_else(|| Turn::text("done"))
    });
    let job = submit(&served, &asked);
    served.until_file(&job, "here");
    let images = |served: &Served, job: &str| -> Vec<String> {
        let events = events(served, job);
        let ready = of_kind(&events, "image_ready");
        ready.iter().map(|event| event["image"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(images(&served, &job), keys[..1]);

    // Whoever takes it up goes on with it, whatever the job has written.
    served.kill_and_restart();
    let end = json!({"command": ": > end"});
    eventually("its sandbox", || {
        let exec = served.ask("POST", &format!("/api/v1/jobs/{job}/exec")).json(&end).send();
        exec.status == 200
    });
    let shown = served.until(&job, &["complete", "error"]);
    assert_eq!(shown["status"], "complete", "{shown}");
    assert_eq!(images(&served, &job), [&*keys[0], &*keys[0]]);

    // One that begins with nothing has the agent image.
    let bare = served.submit(&json!({"task": "do it"}));
    eventually("its image", || images(&served, &bare) == keys[1..]);
    served.ask("POST", &format!("/api/v1/jobs/{bare}/cancel")).expect(202);
    served.until(&bare, &["cancelled"]);
    served.stop();
}

#[test]
fn a_servers_job_whose_files_ask_for_what_nobody_may_ends_before_a_model_is_asked() {
    let home = home();
    let asked = files(&home, "asked", "six\n-r /etc/passwd\n");
    let linked = home.make_directory("linked");
    std::os::unix::fs::symlink("other.txt", linked.join("requirements.txt")).unwrap();
    let served = Served::at(home, OPTIONS, |_, _| panic!("nobody asks"));
    for (files, told) in [(asked, "requirements.txt, line 2"), (linked, "it is a link")] {
        let job = submit(&served, &files);
        let shown = served.until(&job, &["complete", "error"]);
        let error = shown["error"].to_string();
        assert!(error.contains(told), "{shown}");
        assert_eq!(of_kind(&events(&served, &job), "model_asked").len(), 0);
    }
    served.stop();
}

#[test]
fn a_servers_job_can_be_stopped_while_its_image_is_made() {
    let home = home();
    let asked = files(&home, "asked", "six\n");
    let making = keep_others_waiting(&home);
    let served = Served::at(home, OPTIONS, |_, _| panic!("nobody asks"));
    let job = submit(&served, &asked);
    eventually("a job that waits for its image", || {
        let events = events(&served, &job);
        of_kind(&events, "image_step").iter().any(|event| event.to_string().contains("wait for"))
    });
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    let shown = served.until(&job, &["cancelled", "error", "complete"]);
    assert_eq!(shown["status"], "cancelled", "{shown}");
    drop(making);
    // A server that stops leaves such a job to its next life.
    served.stop();
}
