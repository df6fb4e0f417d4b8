//! The server's page, in a real browser.

use std::path::Path;

use cofferdam_testkit::{Browser, CTRL_ENTER, ScriptedAnswer, ScriptedServer, Turn};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::home::Home;
use crate::invocation::{Invocation, Running};
use crate::{eventually, processes};

/// What must be shown and must not happen: each way to run a script would leave a
/// mark on the window.
const BAITS: [&str; 4] = [
    "<script>window.__hit=1</script>",
    "<img src=x onerror=window.__hit=2>",
    "<svg onload=window.__hit=3>",
    "[x](javascript:window.__hit=4)",
];

/// A server with its home. It is told to stop when it is dropped, and must.
struct Server {
    running: Option<Running>,
    address: String,
    token: String,
    _models: Option<(ScriptedServer, Runtime)>,
    _home: Home,
}

impl Server {
    fn with_demo() -> Self {
        let home = Home::new();
        let invocation = serve(&home).words(["--model", "demo"]);
        Self::start(invocation, home, None)
    }

    /// With a model that says this, one turn after another, then "done".
    fn with_model(turns: impl IntoIterator<Item = Turn>) -> Self {
        let home = Home::new();
        let turns: Vec<Turn> = turns.into_iter().collect();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let script = move |_: &_, number: usize| {
            turns.get(number).cloned().unwrap_or_else(|| Turn::text("done"))
        };
        let models = runtime.block_on(ScriptedServer::with(script)).unwrap();
        let invocation = serve(&home)
            .env("MODEL", "anthropic/scripted")
            .env("ANTHROPIC_BASE_URL", models.base_url())
            .env("ANTHROPIC_API_KEY", "key-of-the-test");
        Self::start(invocation, home, Some((models, runtime)))
    }

    fn start(
        invocation: Invocation,
        home: Home,
        models: Option<(ScriptedServer, Runtime)>,
    ) -> Self {
        let running = invocation.spawn();
        let said = |words: &str| {
            let all = running.so_far();
            let line = all.split_inclusive('\n').find(|line| line.contains(words))?;
            let word = line.strip_suffix('\n')?.rsplit(' ').next()?;
            Some(word.to_owned())
        };
        eventually("a server that listens", || {
            assert!(!running.has_ended(), "the server does not start");
            said("listening on ").is_some()
        });
        let (address, token) = (said("listening on ").unwrap(), said("token").unwrap());
        Self { running: Some(running), address, token, _models: models, _home: home }
    }

    /// A browser at the page, with the token entered.
    fn visit(&self, place: &TempDir) -> Browser {
        let browser = Browser::start(place.path());
        browser.open(&self.address);
        self.enter(&browser, &self.token);
        browser.until("!document.querySelector('#room').hidden");
        browser
    }

    fn enter(&self, browser: &Browser, token: &str) {
        browser.until("!document.querySelector('#door').hidden");
        browser.type_into("#token", token);
        browser.click("#token-form button");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.signal(Signal::TERM);
        let ran = running.wait();
        if !std::thread::panicking() {
            ran.expect_code(0);
        }
    }
}

fn serve(home: &Home) -> Invocation {
    let mut invocation = home.cofferdam(["serve", "--listen", "127.0.0.1:0", "--data"]);
    invocation.command().arg(home.path()).env("HOME", home.beside("user"));
    // A job may still run when its page has been seen: nobody comes back for its sandbox.
    invocation.words(["--linger", "10s"])
}

fn place() -> TempDir {
    tempfile::Builder::new().prefix("cofferdam-page-").tempdir().unwrap()
}

fn status_is(status: &str) -> String {
    format!("document.querySelector('#job-status').textContent === '{status}'")
}

/// The numbers of the events that are shown, in their order.
const NUMBERS: &str =
    "return [...document.querySelectorAll('#events li')].map((line) => Number(line.dataset.seq))";

fn numbers(browser: &Browser) -> Vec<u64> {
    serde_json::from_value(browser.run(NUMBERS)).unwrap()
}

/// How many jobs the server has; the list may still be on its way.
fn jobs(browser: &Browser) -> u64 {
    let count = "const token = sessionStorage.getItem('cofferdam.token'); const answer = await \
                 fetch('/api/v1/jobs', { headers: { Authorization: `Bearer ${token}` } }); return \
                 (await answer.json()).jobs.length";
    browser.run(count).as_u64().unwrap()
}

/// Lines of the console that are not the browser's report of an answer that the test
/// has provoked.
fn complaints(browser: &Browser, provoked: &[&str]) -> Vec<String> {
    let mut said = browser.console();
    said.retain(|line| !provoked.iter().any(|status| line.contains(status)));
    said
}

fn zip_in(directory: &Path) -> Option<Vec<u8>> {
    let mut files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let zip = files.find(|path| path.extension().is_some_and(|end| end == "zip"))?;
    Some(std::fs::read(zip).unwrap()).filter(|bytes| !bytes.is_empty())
}

#[test]
fn a_task_is_submitted_watched_and_downloaded() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    browser.until("!document.querySelector('#list-empty').hidden");

    browser.type_into("#task", "Write a hello world script in Python");
    browser.type_into("#task", CTRL_ENTER);
    browser.until("location.hash.startsWith('#/jobs/')");
    browser.until(&status_is("complete"));
    browser.until("document.querySelector('#job').dataset.connection === 'over'");

    let events = browser.text("#events");
    for words in ["sandbox: native", "hello.py", "$", "complete"] {
        assert!(events.contains(words), "{words:?} is not in {events}");
    }
    let seen = numbers(&browser);
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(browser.run("return document.querySelector('#task').value"), "");
    assert!(browser.text("#jobs").contains("Write a hello world script in Python"));

    browser.click("[data-output='output.zip']");
    eventually("a ZIP in the downloads", || zip_in(browser.downloads()).is_some());
    assert!(zip_in(browser.downloads()).unwrap().starts_with(b"PK"));
    browser.until("document.querySelector('#announcement').textContent.startsWith('Downloaded')");

    let address = browser.run("return location.href");
    browser.reload();
    browser.until(&status_is("complete"));
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    assert_eq!(browser.run("return location.href"), address);
    assert_eq!(numbers(&browser), seen);

    // The token is in this tab alone, and goes when it is told to.
    assert_eq!(browser.run("return localStorage.length + document.cookie.length"), 0);
    browser.click("#forget");
    browser.until("!document.querySelector('#door').hidden");
    assert_eq!(browser.run("return sessionStorage.length"), 0);
    assert_eq!(browser.text("#events"), "");
    browser.reload();
    browser.until("!document.querySelector('#door').hidden");

    assert_eq!(complaints(&browser, &[]), Vec::<String>::new());
    drop(browser);
    let ours = place.path().to_str().unwrap();
    eventually("the end of the browser's helpers", || processes::with_argument(ours).is_empty());
}

#[test]
fn nothing_that_a_job_says_is_taken_for_html() {
    let bait = BAITS.join(" ");
    let file = BAITS[1];
    let print = format!("printf '%s\\n' '{bait}' && touch '{file}' && printf '\\033[31mred'");
    let server = Server::with_model([
        Turn::calls([
            ("plan", json!({ "steps": [{ "step": bait, "status": "in_progress" }] })),
            ("bash", json!({ "command": print })),
        ]),
        Turn::Answer(ScriptedAnswer {
            text: bait.clone(),
            thinking: bait.clone(),
            ..ScriptedAnswer::default()
        }),
    ]);
    let place = place();
    let browser = server.visit(&place);
    // Whatever is blocked is told, and must not even be tried.
    browser.run(
        "window.__blocked = []; document.addEventListener('securitypolicyviolation', (event) => \
         window.__blocked.push(event.violatedDirective))",
    );
    browser.type_into("#task", &bait);
    browser.click("#submit");
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    browser.until(&status_is("complete"));

    for place in ["#jobs", "#job-title", "#plan-steps", "#events", "#job-end"] {
        let text = browser.text(place);
        assert!(text.contains("<script>window.__hit=1</script>"), "{place}: {text}");
    }
    let title = browser.run("return document.title");
    assert!(title.as_str().unwrap().contains("<script>"), "{title}");
    let events = browser.text("#events");
    assert!(events.contains(&format!("{file}  (")), "the name of the file: {events}");
    assert!(events.contains("\u{241b}[31mred"), "control codes are shown: {events}");

    let fold = "[...document.querySelectorAll('details')].forEach((fold) => { fold.open = true; })";
    browser.run(fold);
    let strange = "return document.querySelectorAll('main img, main svg, main script, main \
                   iframe, main a[href]:not([href^=\"#/\"]), main [style], main [onerror]').length";
    assert_eq!(browser.run(strange), 0);

    // The address is not trusted either.
    let hash = format!("location.hash = '#/jobs/' + {}", json!(BAITS[1]));
    browser.run(&hash);
    browser.until("document.querySelector('#job').hidden");

    assert_eq!(browser.run("return window.__hit ?? null"), json!(null));
    assert_eq!(browser.run("return window.__blocked"), json!([]));
    assert_eq!(complaints(&browser, &[]), Vec::<String>::new());
}

#[test]
fn a_policy_stands_behind_the_page() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    // Were anything ever taken for HTML, its script would not run.
    drop(
        browser.run(&format!("document.body.insertAdjacentHTML('beforeend', {})", json!(BAITS[2]))),
    );
    drop(
        browser.run(&format!("document.body.insertAdjacentHTML('beforeend', {})", json!(BAITS[1]))),
    );
    let made = "const made = document.createElement('script'); made.textContent = \
                'window.__hit = 5'; document.body.append(made)";
    browser.run(made);
    let said = browser.console();
    assert!(said.iter().any(|line| line.contains("Content Security Policy")), "{said:#?}");
    assert_eq!(browser.run("return window.__hit ?? null"), json!(null));
    let elsewhere = "return fetch('http://127.0.0.2:9/').then(() => 'sent', () => 'blocked')";
    assert_eq!(browser.run(elsewhere), "blocked");
    let said = browser.console().join("\n");
    assert!(said.contains("connect-src"), "{said}");
}

#[test]
fn a_wrong_token_is_told_and_not_kept() {
    let server = Server::with_demo();
    let place = place();
    let browser = Browser::start(place.path());
    browser.open(&server.address);
    server.enter(&browser, "cof_wrong");
    browser.until("document.querySelector('#token-problem .problem')");
    let problem = browser.text("#token-problem");
    for words in ["API-002", "Cause: ", "What to do: "] {
        assert!(problem.contains(words), "{words:?} is not in {problem}");
    }
    assert_eq!(browser.run("return sessionStorage.length"), 0);
    assert_eq!(browser.run("return document.querySelector('#room').hidden"), true);

    browser.run("document.querySelector('#token').value = ''");
    server.enter(&browser, &server.token);
    browser.until("!document.querySelector('#room').hidden");
    // A token that stops working leads back to the door.
    browser.run("sessionStorage.setItem('cofferdam.token', 'cof_gone')");
    browser.until("document.querySelector('#token-problem .problem')");
    assert_eq!(complaints(&browser, &["401"]), Vec::<String>::new());
}

#[test]
fn a_submission_makes_one_job_however_often_it_is_sent() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);

    // What is refused says why.
    browser.run("document.querySelector('#submit-form details').open = true");
    browser.type_into("#task", "Write a hello world script");
    browser.type_into("#cost", "much");
    browser.click("#submit");
    browser.until("document.querySelector('#submit-problem .problem')");
    let problem = browser.text("#submit-problem");
    for words in ["API-012", "much", "What to do: "] {
        assert!(problem.contains(words), "{words:?} is not in {problem}");
    }
    browser.run("document.querySelector('#cost').value = ''");

    // The server takes the job, and its answer is lost on the way.
    let lossy = "const real = window.fetch; window.fetch = async (path, options) => { const answer \
                 = await real(path, options); if (options.method !== 'POST') return answer; \
                 window.fetch = real; throw new TypeError('the answer is lost'); }";
    browser.run(lossy);
    browser.click("#submit");
    browser.until("document.querySelector('#submit-problem')?.textContent.includes('is lost')");
    // And twice at once.
    let twice = "const form = document.querySelector('#submit-form'); form.requestSubmit(); \
                 form.requestSubmit()";
    browser.run(twice);
    browser.until("location.hash.startsWith('#/jobs/')");
    browser.until(&status_is("complete"));
    assert_eq!(jobs(&browser), 1);

    // The same words again are another job.
    browser.type_into("#task", "Write a hello world script");
    browser.click("#submit");
    browser.until("document.querySelectorAll('#jobs li').length === 2");
    browser.until(&status_is("complete"));
    assert_eq!(complaints(&browser, &["422"]), Vec::<String>::new());
}

#[test]
fn events_go_on_after_a_cut_and_none_comes_twice() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    // Each of the first streams breaks off in the middle of an event.
    let cuts = "const real = window.fetch; window.__cuts = []; window.fetch = async (path, \
                options) => { const answer = await real(path, options); if \
                (!path.endsWith('/events') || window.__cuts.length === 2) return answer; \
                window.__cuts.push(options.headers.get('Last-Event-ID')); let left = 2500; const \
                cut = new TransformStream({ transform(piece, out) { \
                out.enqueue(piece.slice(0, left)); left -= piece.length; if (left <= 0) \
                out.error(new TypeError('cut')); } }); return new \
                Response(answer.body.pipeThrough(cut), answer); }";
    browser.run(cuts);
    browser.type_into("#task", "Write a hello world script");
    browser.click("#submit");
    browser.until("document.querySelector('#job').dataset.connection === 'cut'");
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    let cut = numbers(&browser);
    let words = browser.text("#events");
    let before: Vec<Option<String>> =
        serde_json::from_value(browser.run("return window.__cuts")).unwrap();
    assert_eq!(before.len(), 2);
    assert_eq!(before[0], None);
    assert!(before[1].is_some(), "the second stream goes on where the first broke off");
    browser.reload();
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    assert_eq!((numbers(&browser), browser.text("#events")), (cut, words));
}

#[test]
fn a_job_is_paused_spoken_to_resumed_and_cancelled() {
    let wait = |name: &str| {
        Turn::call(
            "bash",
            json!({ "command": format!("until [ -e {name} ]; do sleep 0.05; done") }),
        )
    };
    let server = Server::with_model([wait("first"), wait("second")]);
    let place = place();
    let browser = server.visit(&place);
    browser.type_into("#task", "Wait");
    browser.click("#submit");
    browser.until("document.querySelector('#events').textContent.includes('until [ -e first ]')");
    browser.until(&status_is("running"));

    browser.type_into("#message", "Go on like this");
    browser.click("#say");
    browser.until("document.querySelector('#message').value === ''");
    browser.click("#pause");
    browser.until(&status_is("paused"));
    // It rests once the command has ended.
    let first = "const id = location.hash.split('/').at(-1); const token = \
                 sessionStorage.getItem('cofferdam.token'); const answer = await \
                 fetch(`/api/v1/jobs/${id}/files/content?path=first`, { method: 'PUT', body: 'x', \
                 headers: { Authorization: `Bearer ${token}` } }); return answer.status";
    assert_eq!(browser.run(first), 200);
    browser.until("document.querySelector('#events').textContent.includes('bash · ')");
    browser.click("#resume");
    browser.until("document.querySelector('#events').textContent.includes('until [ -e second ]')");
    browser.until(&status_is("running"));
    assert!(browser.text("#events").contains("Go on like this"));
    browser.click("#cancel");
    browser.until(&status_is("cancelled"));
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    assert!(browser.text("#events").contains("somebody stops it"), "{}", browser.text("#events"));
    assert_eq!(complaints(&browser, &[]), Vec::<String>::new());
}

#[test]
fn the_page_is_usable_on_a_telephone_and_by_keyboard() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    let narrow = json!({ "width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": false });
    browser.debug("Emulation.setDeviceMetricsOverride", &narrow);
    let fits = "document.documentElement.scrollWidth <= 360";
    browser.until(fits);
    let word = "x".repeat(500);
    browser.type_into("#task", &format!("Write a hello world script {word}{CTRL_ENTER}"));
    browser.until(&status_is("complete"));
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    assert_eq!(browser.run(&format!("return {fits}")), true);
    // Whoever uses the keyboard is where the job is told.
    assert_eq!(browser.run("return document.activeElement.id"), "job-title");
    let unnamed = "return [...document.querySelectorAll('input, textarea')].filter((field) => \
                   !field.labels.length).length + [...document.querySelectorAll('button')]\
                   .filter((button) => !button.textContent.trim()).length";
    assert_eq!(browser.run(unnamed), 0);
}

#[test]
fn a_long_story_keeps_its_newest_lines_in_whatever_pieces_it_comes() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    // 2,500 events with other ends of lines, cut anywhere, also within a character.
    let long = "const real = window.fetch; window.fetch = async (path, options) => { if \
                (!path.endsWith('/events')) return real(path, options); let text = ':\\r\\n'; for \
                (let seq = 1; seq <= 2500; seq++) { const data = JSON.stringify({ v: 1, seq, at: \
                0, event: 'noted', text: `é${seq}€` }); text += `id: ${seq}\\r\\nevent: \
                noted\\r\\ndata: ${data}\\r\\n\\r\\n`; } const bytes = new \
                TextEncoder().encode(text); let at = 0; return new Response(new ReadableStream({ \
                pull(out) { if (at >= bytes.length) return out.close(); out.enqueue(bytes.slice(at, \
                at + 101)); at += 101; } })); }";
    browser.run(long);
    browser.type_into("#task", "Write a hello world script");
    browser.click("#submit");
    browser.until("document.querySelector('#job').dataset.connection === 'over'");
    assert_eq!(numbers(&browser), (501..=2500).collect::<Vec<u64>>());
    assert_eq!(browser.text("#events li:first-child .event-text"), "é501€");
    assert_eq!(browser.text("#events li:last-child .event-text"), "é2500€");
    assert_eq!(browser.text("#events-hidden"), "500 earlier lines not shown.");
}

/// The events of a job whose conversation is cut, as a server would stream them.
fn cut_story() -> String {
    let tokens = json!({"input": 100, "cache_read": 300, "cache_write": 0, "output": 10});
    let answer = |text: &str| {
        let blocks = json!([{"type": "text", "text": text}]);
        json!({"blocks": blocks, "stop": "done", "tokens": tokens})
    };
    let span = json!({"of": "messages", "through": 9});
    let asked = |request: u32, role: &str| {
        json!({
            "event": "model_asked", "thread": 0, "request": request, "role": role,
            "model": "a/b", "attempt": 1,
        })
    };
    let mut summary = asked(2, "summariser");
    summary["span"] = span.clone();
    let cut = json!({"how": "summarised", "span": span, "summary": "SECRET", "by": "model"});
    let events = [
        asked(1, "orchestrator"),
        json!({"event": "model_answered", "request": 1, "answer": answer("I look"), "cost": null}),
        summary,
        json!({"event": "model_answered", "request": 2, "answer": answer("SECRET"), "cost": null}),
        json!({"event": "context_cut", "thread": 0, "cut": cut, "pinned": 9, "tokens": [9000, 3000]}),
        json!({"event": "recall_asked", "thread": 0, "words": "the parser\nSECRET"}),
        json!({"event": "offered", "thread": 0, "text": "SECRET"}),
        json!({
            "event": "ended", "ending": {"how": "complete", "summary": "", "verified": false},
            "spent": {"turns": 2, "tokens": tokens, "cost": "0.1", "unpriced": 0, "time_ms": 9},
            "changes": [],
        }),
    ];
    let mut text = String::new();
    for (seq, mut event) in (1..).zip(events) {
        event["seq"] = json!(seq);
        event["at"] = json!(0);
        text.push_str(&format!("id: {seq}\ndata: {event}\n\n"));
    }
    text
}

#[test]
fn cuts_are_told_and_a_summary_is_not_taken_for_an_answer() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    let stream = json!(cut_story());
    browser.run(&format!(
        "const real = window.fetch; window.fetch = async (path, options) => \
         path.endsWith('/events') ? new Response({stream}) : real(path, options);"
    ));
    browser.type_into("#task", "Write a hello world script");
    browser.click("#submit");
    browser.until("document.querySelector('#events').textContent.includes('complete')");
    let events = browser.text("#events");
    for words in [
        "I look",
        "older parts were summarised to save room: 9,000 → 3,000 tokens",
        "looking back for: the parser",
        "6 characters that were let go may be needed",
        "410 tokens (75% cached)",
    ] {
        assert!(events.contains(words), "{words:?} is not in {events}");
    }
    assert!(!events.contains("SECRET"), "{events}");
}

#[test]
fn older_jobs_come_when_they_are_asked_for() {
    let server = Server::with_demo();
    let place = place();
    let browser = server.visit(&place);
    let many = "const token = sessionStorage.getItem('cofferdam.token'); for (let number = 1; \
                number <= 45; number++) await fetch('/api/v1/jobs', { method: 'POST', headers: { \
                Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: \
                JSON.stringify({ task: `Write a hello world script, number ${number}.` }) })";
    browser.run(many);
    browser.reload();
    browser.until("document.querySelectorAll('#jobs li').length === 20");
    let titles = "return [...document.querySelectorAll('.job-row-title')].map((title) => \
                  title.textContent.match(/\\d+/)[0]).map(Number)";
    let newest = |count: u64| json!((46 - count..=45).rev().collect::<Vec<u64>>());
    assert_eq!(browser.run(titles), newest(20));
    browser.click("#older");
    browser.until("document.querySelectorAll('#jobs li').length === 40");
    browser.click("#older");
    browser.until("document.querySelectorAll('#jobs li').length === 45");
    assert_eq!(browser.run(titles), newest(45));
    assert_eq!(browser.run("return document.querySelector('#older').hidden"), true);
    // They are looked at again by and by, and none comes twice.
    browser.until("document.querySelector('#jobs li .pill').textContent === 'complete'");
    assert_eq!(browser.run(titles), newest(45));
    assert_eq!(complaints(&browser, &[]), Vec::<String>::new());
}
