//! The agent image, built without any container engine, in use: jobs on the native back end
//! have interpreters, JupyterLab and a desktop from it, and nothing of the machine's programs.

use cofferdam_testkit::{Dialect, Turn};
use serde_json::json;

use crate::agent::{Agent, bash};
use crate::cells;
use crate::container_jobs;
use crate::desktop_jobs;
use crate::eventually;
use crate::home::Home;
use crate::served::{OPTIONS, Served};

#[test]
fn python_is_the_images() {
    cells::python(Home::new().use_agent_image());
}

#[test]
fn typescript_is_the_images() {
    cells::typescript(Home::new().use_agent_image());
}

#[test]
fn a_form_is_filled_in_on_the_images_desktop() {
    desktop_jobs::form(Home::new().use_agent_image(), Dialect::Messages);
}

/// A home whose sandboxes have gVisor's kernel, where that can be had.
fn on_runsc() -> Option<Home> {
    if let Some(why) = container_jobs::no_runsc() {
        crate::tell(&format!("skipped: {why}"));
        return None;
    }
    Some(Home::new().use_agent_image().use_backend("runsc"))
}

#[test]
fn python_is_the_images_on_runsc() {
    on_runsc().into_iter().for_each(cells::python);
}

#[test]
fn a_form_is_filled_in_on_the_images_desktop_on_runsc() {
    on_runsc().into_iter().for_each(|home| desktop_jobs::form(home, Dialect::Messages));
}

#[test]
fn an_ordinary_user_can_use_an_image_too() {
    cells::python(Home::of_ordinary_user().use_agent_image());
}

#[test]
fn an_ordinary_user_has_its_desktop_too() {
    desktop_jobs::form(Home::of_ordinary_user().use_agent_image(), Dialect::Responses);
}

#[test]
fn its_programs_work_and_those_of_the_machine_are_not_there() {
    // What a page says is in the browser's answer, and what a terminal is told in a file.
    let chromium = "chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --dump-dom 'data:text/html,<p id=made></p><script>made.textContent=6*7</script>' 2>log \
        || { cat log; exit 1; }";
    let terminal = "xterm -e sh -c 'echo from a terminal > said' & \
        for n in $(seq 600); do test -s said && exec cat said; sleep 0.1; done; exit 1";
    let tools = "set -e; test ! -e /usr/bin/mmdebstrap; git --version; node -e 'console.log(6*7)'; \
        npm --version; deno --version; rg --version; ffmpeg -version | head -1; \
        printf 'int main(void) { return 42; }' > main.c; cc main.c -o main; ./main || echo $?; \
        python -c 'import tkinter, matplotlib; print(matplotlib.__version__)'; \
        fc-list | grep -c DejaVu; command -v jupyter-lab Xvnc Xvfb openbox xdotool; \
        touch /usr/x 2>&1 || echo read-only";
    let turns = vec![
        bash(tools),
        bash(chromium),
        Turn::call("computer", json!({"action": "screenshot"})),
        Turn::call("bash", json!({"command": terminal})),
    ];
    let agent = Agent::at(Home::new().use_agent_image(), Dialect::Messages, turns);
    let outputs = desktop_jobs::outputs(&agent);
    for (status, text) in &outputs {
        assert_eq!(status, "done", "{text}");
    }
    let tools = &outputs[0].1;
    for said in ["git version", "42", "deno ", "ffmpeg version", "/usr/bin/Xvnc", "read-only"] {
        assert!(tools.contains(said), "{said}: {tools}");
    }
    assert!(outputs[1].1.contains("<p id=\"made\">42</p>"), "{}", outputs[1].1);
    assert_eq!(agent.file("said"), "from a terminal\n");
}

#[test]
fn a_servers_jobs_have_jupyterlab_from_the_image() {
    let cell = Turn::call("python", json!({"code": "answer = 6 * 7"}));
    let turns = [cell, bash("touch here; until [ -e end ]; do sleep 0.1; done")];
    let home = Home::new().use_agent_image();
    let mut served = Served::at(home, OPTIONS, move |_, said| {
        turns.get(said).cloned().unwrap_or_else(|| Turn::text("done"))
    });
    let job = served.submit(&json!({"task": "calculate"}));
    served.until_file(&job, "here");
    let lab = served.ask("POST", &format!("/api/v1/jobs/{job}/lab")).expect(200);
    let url = lab["url"].as_str().unwrap();
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let entered = served.nobody("GET", &format!("/{path}")).host(host).send();
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let get = |path: &str| served.nobody("GET", path).host(host).header("Cookie", &cookie);
    assert!(get("/lab").send().text().contains("<title>JupyterLab</title>"));
    let kernels = get("/api/kernels").expect(200);
    assert_eq!(kernels[0]["name"], "python3", "{kernels}");

    // The sandbox outlives its server, and so does what is known of its image.
    served.kill_and_restart();
    let look = json!({"command": "command -v jupyter-lab"});
    eventually("a sandbox that is taken up", || {
        let exec = served.ask("POST", &format!("/api/v1/jobs/{job}/exec")).json(&look).send();
        exec.status == 200 && exec.text().contains("/usr/local/bin/jupyter-lab")
    });
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    served.stop();
}
