//! `cofferdam run` as people use it.

use std::process::Stdio;

use cofferdam_testkit::{Dialect, Fault, Turn};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::{Agent, SOON, bash, ending, of_kind, records, tree};
use crate::eventually;

#[test]
fn the_result_is_in_the_workspace_and_told() {
    let agent = Agent::new(
        Dialect::Messages,
        [
            Turn::call("write_file", json!({"path": "a.py", "content": "print('hi')\n"})),
            bash("python3 a.py"),
            Turn::call("finish", json!({"summary": "a.py greets"})),
        ],
    );
    std::fs::write(agent.workspace.join("kept.txt"), "kept").unwrap();
    let ran = agent.run(&["write a greeting"]).run().expect_code(0);
    assert_eq!(ran.text(), "a.py greets\n");
    assert!(ran.errors().contains("a.py"), "{}", ran.errors());
    let files = tree(&agent.workspace);
    assert_eq!(
        files,
        [("a.py".into(), "print('hi')\n".into()), ("kept.txt".into(), "kept".into())]
    );
}

#[test]
fn json_is_events_without_a_gap_and_one_end() {
    let agent = Agent::new(Dialect::Responses, [bash("echo hello")]);
    let ran = agent.run(&["--json", "say hello"]).run().expect_code(0);
    let shown = records(&ran.stdout);
    assert_eq!(of_kind(&shown, "ended").len(), 1);
    assert_eq!(shown.last().unwrap()["event"], "ended");
    // What is shown is what is kept, but for the first line, which is the job.
    assert_eq!(agent.transcript(), shown);
}

#[test]
fn a_check_that_fails_is_told_and_its_repair_is_verified() {
    let agent = Agent::new(
        Dialect::Chat,
        [
            bash("echo wrong > answer"),
            Turn::call("finish", json!({"summary": "done"})),
            bash("echo right > answer"),
            Turn::text("now it is right"),
        ],
    );
    let check = "grep -qx right answer && touch made-by-the-check";
    let ran = agent.run(&["--json", "--check", check, "answer"]).run().expect_code(0);
    assert_eq!(
        ending(&ran),
        json!({"how": "complete", "summary": "now it is right", "verified": true})
    );
    // The check ran in a copy.
    assert_eq!(tree(&agent.workspace), [("answer".to_owned(), "right\n".to_owned())]);
}

#[test]
fn work_that_never_passes_its_check_is_not_called_done() {
    let agent = Agent::new(Dialect::Messages, []);
    let words = ["--json", "--check", "false", "--attempts", "2", "answer"];
    let ran = agent.run(&words).run().expect_code(3);
    assert_eq!(ending(&ran)["how"], "unverified");
    assert_eq!(of_kind(&records(&ran.stdout), "check_ended").len(), 2);
}

#[test]
fn limits_end_a_job_and_a_larger_one_lets_it_go_on() {
    let agent = Agent::with(Dialect::Messages, |_, number| bash(&format!("echo {number} >> n")));
    let ran = agent.run(&["--json", "--max-turns", "3", "count"]).run().expect_code(4);
    assert_eq!(ending(&ran), json!({"how": "limit_reached", "limit": "turns"}));
    assert_eq!(agent.file("n"), "0\n1\n2\n");
    agent.run(&["--last", "--max-turns", "5"]).run().expect_code(4);
    assert_eq!(agent.file("n"), "0\n1\n2\n3\n4\n");
}

#[test]
fn time_is_up_in_the_middle_of_a_command() {
    let agent = Agent::new(Dialect::Chat, [bash("echo begun > n; sleep 1000")]);
    let ran = agent.run(&["--json", "--timeout", "2s", "wait"]).run().expect_code(4);
    assert_eq!(ending(&ran), json!({"how": "limit_reached", "limit": "time"}));
    assert_eq!(agent.file("n"), "begun\n");
    assert!(ran.elapsed < SOON);
}

#[test]
fn a_limit_on_money_needs_a_price() {
    let agent = Agent::new(Dialect::Chat, []);
    agent.run(&["--max-cost", "1", "go"]).run().expect_error(2, &["RUN-004", "[prices."]);
    assert_eq!(agent.requests().len(), 0);
    agent.configure("[prices.\"openai-compatible/scripted\"]\ninput = 1000.0\noutput = 1000.0\n");
    let ran = agent.run(&["--json", "--max-cost", "0.0001", "go"]).run().expect_code(4);
    assert_eq!(ending(&ran)["limit"], "cost");
}

#[test]
fn an_interrupt_keeps_everything_and_the_job_can_go_on() {
    // A span that no other test's command has.
    let span = format!("1000.{}", std::process::id());
    let first = bash(&format!("echo half > work; sleep {span}"));
    let agent = Agent::new(Dialect::Messages, [first, bash("echo whole >> work")]);
    let running = agent.run(&["--json", "work"]).spawn();
    eventually("the command", || running.so_far().contains("tool_started"));
    // The command itself, not only its announcement, nor the shell that is yet to write.
    let sleeping = format!("\0{span}");
    eventually("its process", || !crate::processes::with_argument(&sleeping).is_empty());
    running.signal(Signal::INT);
    let ran = running.wait().expect_code(130);
    assert_eq!(ending(&ran), json!({"how": "cancelled", "by": "user"}));
    assert_eq!(agent.file("work"), "half\n");
    agent.run(&["--last"]).run().expect_code(0);
    assert_eq!(agent.file("work"), "half\nwhole\n");
}

#[test]
fn a_polite_signal_ends_the_job_with_its_own_code() {
    let agent = Agent::new(Dialect::Messages, [bash("sleep 1000")]);
    let running = agent.run(&["--json", "work"]).spawn();
    eventually("the command", || running.so_far().contains("tool_started"));
    running.signal(Signal::TERM);
    let ran = running.wait().expect_code(143);
    assert_eq!(ending(&ran), json!({"how": "cancelled", "by": "system"}));
}

#[test]
fn two_interrupts_end_it_at_once() {
    let agent = Agent::with(Dialect::Messages, |_, _| {
        bash("trap '' TERM INT HUP; while :; do sleep 0.1; done")
    });
    let running = agent.run(&["--json", "work"]).spawn();
    eventually("the command", || running.so_far().contains("tool_started"));
    running.signal(Signal::INT);
    running.signal(Signal::INT);
    let ran = running.wait().expect_code(130);
    assert!(ran.elapsed < SOON);
}

#[test]
fn the_zip_holds_the_result() {
    let agent = Agent::new(
        Dialect::Chat,
        [Turn::call("write_file", json!({"path": "src/a.txt", "content": "a\n"}))],
    );
    let zip = agent.home.beside("out.zip");
    agent.run(&["--out", zip.to_str().unwrap(), "write"]).run().expect_code(0);
    let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                  print(sorted(z.namelist()), z.read('src/a.txt'))";
    let listed = std::process::Command::new("python3").args(["-c", script]).arg(&zip).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    assert!(listed.contains("'src/a.txt'") && listed.contains("MANIFEST.json"), "{listed}");
    assert!(listed.contains("b'a\\n'"), "{listed}");
}

#[test]
fn a_zip_that_could_not_be_written_is_found_out_before_anything_is_spent() {
    let agent = Agent::new(Dialect::Chat, [bash("echo a > a")]);
    let directory = agent.workspace.to_str().unwrap().to_owned();
    for target in ["/nowhere/out.zip", &directory] {
        agent.run(&["--out", target, "write"]).run().expect_error(2, &["RUN-010"]);
    }
    assert_eq!(agent.requests().len(), 0);
}

#[test]
fn wrong_usage_is_told_and_nothing_begins() {
    let agent = Agent::new(Dialect::Chat, []);
    agent.run(&[]).run().expect_error(2, &["no task"]);
    agent.run(&["  "]).run().expect_error(2, &["empty"]);
    agent.run(&["--last"]).run().expect_error(2, &["RUN-005"]);
    agent.run(&["--resume", "nothing"]).run().expect_error(2, &["RUN-005", "nothing"]);
    agent.run(&["--model", "nobody/x", "go"]).run().expect_error(2, &["RUN-002", "nobody"]);
    agent.run(&["--sandbox", "nothing", "go"]).run().expect_error(2, &["SBX-001"]);
    agent.run(&["--max-cost", "0", "go"]).run().expect_error(2, &["nothing"]);
    let told = agent.run(&["--json", "--bogus"]).run().expect_code(2).text();
    assert!(told.starts_with(r#"{"event":"failed""#) && told.contains("--bogus"), "{told}");
    assert!(!agent.home.path().join("history").exists());
    assert_eq!(agent.requests().len(), 0);
}

#[test]
fn a_home_directory_is_no_workspace_unless_it_is_named() {
    let agent = Agent::new(Dialect::Chat, []);
    let home = agent.workspace.clone();
    agent.run(&["go"]).env("HOME", &home).run().expect_error(2, &["RUN-001", "--workspace"]);
    let path = home.to_str().unwrap();
    agent.run(&["--workspace", path, "go"]).env("HOME", &home).run().expect_code(0);
}

#[test]
fn a_new_workspace_is_made() {
    let agent = Agent::new(Dialect::Chat, [bash("echo a > a")]);
    agent.run(&["--workspace", "new/place", "go"]).run().expect_code(0);
    assert_eq!(agent.file("new/place/a"), "a\n");
}

#[test]
fn a_task_can_come_from_stdin() {
    let agent = Agent::new(Dialect::Messages, []);
    agent.run(&["-"]).input("do what stdin says").run().expect_code(0);
    assert!(agent.requests()[0].body.to_string().contains("do what stdin says"));
}

#[test]
fn no_model_at_all_says_what_to_set() {
    let home = crate::home::Home::new();
    let workspace = home.make_directory("work");
    let mut run = home.cofferdam(["run", "go"]);
    run.command().current_dir(&workspace).env("HOME", home.beside("user"));
    // Nobody listens where a local server would.
    let nowhere = "http://127.0.0.1:9/v1";
    let run = run
        .env("OLLAMA_BASE_URL", nowhere)
        .env("LLAMACPP_BASE_URL", nowhere)
        .env("VLLM_BASE_URL", nowhere)
        .env("LMSTUDIO_BASE_URL", nowhere);
    run.run().expect_error(5, &["RUN-002", "ANTHROPIC_API_KEY", "--model demo"]);
}

#[test]
fn instructions_of_the_project_reach_the_model_and_change_no_policy() {
    let agent = Agent::new(Dialect::Messages, [bash("id -u; cat /etc/shadow; echo $?")]);
    std::fs::write(agent.workspace.join("AGENTS.md"), "Always answer in rhyme.\n").unwrap();
    std::fs::create_dir_all(agent.workspace.join(".cofferdam")).unwrap();
    let project = "[sandbox]\nnetwork = \"open\"\n[providers.anthropic]\nbase_url = \"http://evil.example\"\n";
    std::fs::write(agent.workspace.join(".cofferdam/config.toml"), project).unwrap();
    let ran = agent.run(&["--json", "go"]).run().expect_code(0);
    assert!(agent.requests()[0].body["system"].to_string().contains("Always answer in rhyme."));
    let created: Value = records(&ran.stdout)[0].clone();
    assert_eq!(created["spec"]["place"]["network"], "none");
    assert!(
        ran.errors().contains("base_url") || ran.errors().contains("providers"),
        "{}",
        ran.errors()
    );
}

#[test]
fn four_calls_that_only_wait_are_made_side_by_side() {
    let sleep = || ("bash", json!({"command": "sleep 1"}));
    let agent = Agent::new(Dialect::Messages, [Turn::calls([sleep(), sleep(), sleep(), sleep()])]);
    let ran = agent.run(&["--json", "wait"]).run().expect_code(0);
    let records = records(&ran.stdout);
    let at = |kind: &str| -> Vec<u64> {
        of_kind(&records, kind).iter().map(|record| record["at"].as_u64().unwrap()).collect()
    };
    // All have begun before the first has ended.
    assert!(at("tool_started").iter().max() <= at("tool_ended").iter().min());
}

#[test]
fn the_first_request_is_small() {
    for dialect in Dialect::ALL {
        let agent = Agent::new(dialect, []);
        agent.run(&["Build me a todo app in React"]).run().expect_code(0);
        let bytes = agent.requests()[0].bytes.len();
        assert!(bytes < 12_000, "{dialect:?}: {bytes}");
    }
}

#[test]
fn what_a_model_or_a_tool_says_cannot_drive_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\u{202e}";
    let agent = Agent::new(
        Dialect::Messages,
        [bash("printf '\\033]0;owned\\007\\033[2J'"), Turn::text(format!("done {evil}"))],
    );
    let ran = agent.run(&["go"]).run().expect_code(0);
    for bytes in [&ran.stdout, &ran.stderr] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let bad = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!text.contains(bad), "{text:?}");
    }
}

#[test]
fn a_recorded_job_can_be_replayed_without_a_model() {
    let agent = Agent::new(Dialect::Messages, [bash("echo a > a"), Turn::text("all done")]);
    let ran = agent.run(&["--json", "write"]).run().expect_code(0);
    let job = records(&ran.stdout)[0]["spec"]["job"].as_str().unwrap().to_owned();
    std::fs::remove_file(agent.workspace.join("a")).unwrap();
    let asked = agent.requests().len();
    let replay = format!("replay/{job}");
    let ran = agent.run(&["--model", &replay, "write"]).run().expect_code(0);
    assert_eq!(ran.text(), "all done\n");
    assert_eq!((agent.file("a").as_str(), agent.requests().len()), ("a\n", asked));
}

#[test]
fn the_coder_may_be_another_model() {
    let agent = Agent::with(Dialect::Messages, |request, _| {
        let said = request.body["messages"].as_array().unwrap().len();
        match (request.body["model"].as_str().unwrap(), said) {
            ("scripted", 1) => {
                Turn::call("delegate", json!({"instruction": "write a", "constraints": "in a"}))
            }
            ("writer", 1) => bash("echo a > a"),
            ("writer", _) => Turn::call("finish", json!({"summary": "a is written"})),
            _ => Turn::text("the coder has written it"),
        }
    });
    let ran = agent.run(&["--json", "--coder", "anthropic/writer", "write"]).run().expect_code(0);
    assert_eq!(agent.file("a"), "a\n");
    let records = records(&ran.stdout);
    let asked = of_kind(&records, "model_asked");
    let roles: Vec<&str> = asked.iter().map(|record| record["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["orchestrator", "coder", "coder", "orchestrator"]);
    // The coder sees its brief, and not the task.
    let brief = agent.requests()[1].body["messages"].to_string();
    assert!(brief.contains("write a") && brief.contains("in a"), "{brief}");
}

#[test]
fn a_key_follows_no_address_from_the_workspace() {
    // Somebody else's server, named by a file of the project.
    let thief = Agent::new(Dialect::Messages, []);
    let agent = Agent::new(Dialect::Messages, []);
    let dotenv = format!("ANTHROPIC_BASE_URL={}\n", thief.base_url());
    std::fs::write(agent.workspace.join(".env"), dotenv).unwrap();
    agent.run(&["go"]).run().expect_code(0);
    let mut run = agent.home.cofferdam(["run", "--model", "anthropic/scripted", "go"]);
    run.command().current_dir(&agent.workspace).env("HOME", agent.home.beside("user"));
    // With the real address nobody can be reached here, and nobody else is asked.
    let run =
        run.env("ANTHROPIC_API_KEY", "key-of-the-test").env("HTTPS_PROXY", "http://127.0.0.1:9");
    agent.configure("[model]\nretries = 0\n");
    let ran = run.run().expect_code(5);
    assert!(ran.errors().contains(".env"), "{}", ran.errors());
    assert_eq!(thief.requests().len(), 0);
}

#[test]
fn a_local_server_is_found_by_itself() {
    let agent = Agent::new(Dialect::Chat, [bash("echo a > a")]);
    let mut run = agent.home.cofferdam(["run", "--json", "go"]);
    run.command().current_dir(&agent.workspace).env("HOME", agent.home.beside("user"));
    let url = format!("{}/v1", agent.base_url());
    let ran = run.env("OLLAMA_BASE_URL", url).run().expect_code(0);
    let created = &records(&ran.stdout)[0];
    let model = created["spec"]["orchestrator"].as_str().unwrap();
    assert!(model.starts_with("ollama/"), "{model}");
    assert_eq!(agent.file("a"), "a\n");
}

#[test]
fn a_job_that_is_complete_goes_on_only_with_something_to_do() {
    let agent = Agent::with(Dialect::Chat, |_, number| match number {
        0 => Turn::text("done"),
        1 => bash("echo more > more"),
        _ => Turn::text("done with that too"),
    });
    agent.run(&["go"]).run().expect_code(0);
    agent.run(&["--last"]).run().expect_error(2, &["RUN-006"]);
    let ran = agent.run(&["--last", "now write more"]).run().expect_code(0);
    assert_eq!(ran.text(), "done with that too\n");
    assert_eq!(agent.file("more"), "more\n");
    assert!(agent.requests()[1].body.to_string().contains("now write more"));
}

#[test]
fn a_sandbox_that_cannot_be_made_has_its_own_code() {
    let agent = Agent::new(Dialect::Chat, []);
    let words = ["--json", "--sandbox", "native", "--require", "virtual", "go"];
    let ran = agent.run(&words).run().expect_code(6);
    assert_eq!(ending(&ran)["how"], "sandbox_unavailable");
    assert_eq!(agent.requests().len(), 0);
}

#[test]
fn long_output_is_cut_and_the_rest_can_be_read() {
    let agent = Agent::with(Dialect::Messages, |request, number| {
        let body = request.body.to_string();
        match number {
            0 => bash("seq 1 100000"),
            1 => {
                assert!(body.contains("output:"), "no handle");
                Turn::call("read_file", json!({"path": "output:1", "offset": 50_000, "limit": 2}))
            }
            _ => Turn::text(if body.contains("50001") { "read it" } else { "it is not there" }),
        }
    });
    let ran = agent.run(&["go"]).run().expect_code(0);
    assert_eq!(ran.text(), "read it\n");
    assert!(agent.requests()[1].bytes.len() < 40_000);
}

#[test]
fn a_reader_that_is_stuck_does_not_keep_an_interrupt_out() {
    let agent = Agent::with(Dialect::Messages, |_, number| match number {
        // More than a pipe holds.
        0 => bash("echo a > a").but(Fault::HugeText(1_000_000)),
        _ => bash("sleep 1000"),
    });
    let mut run = agent.run(&["--json", "go"]);
    let command = run.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    eventually("the second question", || agent.requests().len() >= 2);
    let pid = i32::try_from(child.id()).unwrap();
    crate::invocation::kill(pid, Signal::INT);
    assert_eq!(crate::invocation::wait(&mut child), 130);
    assert_eq!(agent.file("a"), "a\n");
}

#[test]
fn variables_reach_commands_and_checks_and_nothing_else_does() {
    let agent = Agent::new(Dialect::Chat, [bash("echo \"$GREETING-$SECRET\" > said")]);
    let run =
        agent.run(&["--env", "GREETING=hello", "--check", "test \"$GREETING\" = hello", "go"]);
    run.env("SECRET", "mine").run().expect_code(0);
    assert_eq!(agent.file("said"), "hello-\n");
}

#[test]
fn reading_the_task_can_be_interrupted() {
    let agent = Agent::new(Dialect::Chat, []);
    let running = agent.run(&["--json", "-"]).spawn();
    eventually("it to listen", || crate::processes::catches(running.pid(), Signal::INT));
    running.signal(Signal::INT);
    let told = running.wait().expect_code(130).text();
    assert!(told.contains("RUN-009"), "{told}");
}

#[test]
fn what_is_frozen_in_a_job_cannot_be_said_again() {
    let agent = Agent::new(Dialect::Chat, []);
    agent.run(&["go"]).run().expect_code(0);
    for option in [["--network", "open"], ["--env", "A=1"], ["--memory", "1G"], ["--check", "true"]]
    {
        let [name, value] = option;
        agent.run(&["--last", name, value, "more"]).run().expect_error(2, &[name]);
    }
}

#[test]
fn a_job_can_go_on_with_another_model() {
    let agent = Agent::with(Dialect::Messages, |request, _| {
        match request.body["model"].as_str().unwrap() {
            "scripted" => Turn::status(401, &[], "no"),
            _ => bash("echo a >> a").but(Fault::NoStopReason),
        }
    });
    agent.configure("[model]\nretries = 0\n");
    agent.run(&["go"]).run().expect_code(5);
    agent.run(&["--last", "--model", "anthropic/other"]).run().expect_code(5);
    let requests = agent.requests();
    assert_eq!(requests.last().unwrap().body["model"], "other");
}

#[test]
fn what_is_ignored_from_now_on_is_not_called_deleted() {
    let agent =
        Agent::new(Dialect::Chat, [bash("echo '*.txt' > .gitignore; echo b >> changed.txt")]);
    std::fs::write(agent.workspace.join("same.txt"), "a\n").unwrap();
    std::fs::write(agent.workspace.join("changed.txt"), "a\n").unwrap();
    let ran = agent.run(&["--json", "go"]).run().expect_code(0);
    let last = records(&ran.stdout).pop().unwrap();
    let changes: Vec<(String, String)> = last["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let text = |name: &str| change[name].as_str().unwrap().to_owned();
            (text("path"), text("kind"))
        })
        .collect();
    assert_eq!(
        changes,
        [(".gitignore".into(), "added".into()), ("changed.txt".into(), "modified".into())]
    );
}

#[test]
fn the_zip_of_a_job_that_was_killed_is_made_when_it_goes_on() {
    let agent = Agent::new(Dialect::Chat, [bash("echo a > a; sleep 1000"), Turn::text("done")]);
    let zip = agent.home.beside("out.zip");
    let running = agent.run(&["--json", "--out", zip.to_str().unwrap(), "go"]).spawn();
    eventually("the command", || running.so_far().contains("tool_started"));
    running.signal(Signal::KILL);
    running.wait().expect_code(-9);
    agent.run(&["--last"]).run().expect_code(0);
    assert!(zip.is_file());
}
