// The page: a door that asks for the token, and a room with a form, the list and one
// job. The address after # says which job, so that a reload keeps it.

/// Milliseconds between looks at the list and at the job, while the page is seen.
const GLANCE = 3_000;

/// Says something to those who listen to the page.
function announce(text) {
  find("announcement").textContent = text;
}

const list = new List();
const view = new JobView({ changed: (job) => list.hear(job), refused: (error) => enterDoor(told(error)) });

// --- the door ---------------------------------------------------------------

function enterDoor(problem) {
  token.forget();
  view.close();
  list.clear();
  find("who").textContent = "";
  find("room").hidden = true;
  find("forget").hidden = true;
  find("door").hidden = false;
  showProblem(find("token-problem"), problem);
  find("token").focus();
}

async function enterRoom(me) {
  find("door").hidden = true;
  find("room").hidden = false;
  find("forget").hidden = false;
  find("who").textContent = tame(me.user.name);
  showModels();
  await route();
  await glance();
}

find("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = find("token");
  const given = field.value.trim();
  if (!given) return;
  // A header takes no other characters.
  const sendable = /^[\x21-\x7e]+$/.test(given);
  showProblem(find("token-problem"));
  try {
    if (!sendable) throw new Error("the token has characters in it that no token has");
    const me = await askJson(`${API}/me`, { as: given });
    token.set(given);
    field.value = "";
    await enterRoom(me);
  } catch (error) {
    const problem = sendable ? told(error) : { title: "no valid token", detail: error.message };
    showProblem(find("token-problem"), problem);
    field.select();
  }
});

find("forget").addEventListener("click", () => {
  enterDoor();
  announce("The token is forgotten.");
});

async function showModels() {
  try {
    const { models } = await askJson(`${API}/models`);
    const options = models.slice(0, 500).map((name) => {
      const option = element("option");
      option.value = name;
      return option;
    });
    find("models").replaceChildren(...options);
  } catch {
    // The field takes any name.
  }
}

// --- a new task ---------------------------------------------------------------

/// The submission under way: what is sent, and its key. The same content sent again
/// is the same submission until it has succeeded.
let submission = { text: "", key: "" };
let submitting = false;

find("submit-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const task = find("task").value;
  if (submitting || !task.trim()) return;
  const body = { task };
  if (find("model").value.trim()) body.model = find("model").value.trim();
  if (find("check").value.trim()) body.checks = [find("check").value];
  if (find("cost").value.trim()) body.max_cost = find("cost").value.trim();
  const text = JSON.stringify(body);
  if (text !== submission.text) submission = { text, key: uniqueKey() };
  submitting = true;
  find("submit").disabled = true;
  showProblem(find("submit-problem"));
  try {
    const headers = { "Idempotency-Key": submission.key };
    const job = await askJson(`${API}/jobs`, { method: "POST", body, headers });
    submission = { text: "", key: "" };
    find("task").value = "";
    list.hear(job);
    announce(`Submitted: ${tame(job.title)}`);
    location.hash = `#/jobs/${job.id}`;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return enterDoor(told(error));
    showProblem(find("submit-problem"), told(error));
  } finally {
    submitting = false;
    find("submit").disabled = false;
  }
});

for (const name of ["submit-form", "message-form"]) {
  find(name).addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    find(name).requestSubmit();
  });
}

// --- the list and the job -------------------------------------------------------

find("older").addEventListener("click", async () => {
  find("older").disabled = true;
  await guarded(() => list.older());
  find("older").disabled = false;
});

for (const name of ["cancel", "pause", "resume"]) {
  find(name).addEventListener("click", async () => {
    find(name).disabled = true;
    await view.order(name);
    find(name).disabled = false;
  });
}

for (const button of document.querySelectorAll("[data-output]")) {
  button.addEventListener("click", () => view.save(button.dataset.output, button));
}

find("message-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = find("message").value;
  if (find("say").disabled || !text.trim()) return;
  find("say").disabled = true;
  if (await view.say(text)) find("message").value = "";
  find("say").disabled = false;
});

/// Does something for the list; a failure is shown above it until it succeeds.
async function guarded(act) {
  try {
    await act();
    showProblem(find("list-problem"));
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return enterDoor(told(error));
    showProblem(find("list-problem"), told(error));
  }
}

async function route() {
  if (!token.get()) return;
  const found = /^#\/jobs\/([0-9a-fA-F-]{36})$/.exec(location.hash);
  const id = found ? found[1].toLowerCase() : undefined;
  list.select(id);
  await view.open(id);
}

let glancing = false;

async function glance() {
  if (glancing || !token.get() || document.visibilityState !== "visible") return;
  glancing = true;
  await Promise.all([guarded(() => list.refresh()), view.refresh()]);
  glancing = false;
}

window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", glance);
setInterval(glance, GLANCE);

async function begin() {
  if (!token.get()) return enterDoor();
  try {
    await enterRoom(await askJson(`${API}/me`));
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return enterDoor(told(error));
    find("room").hidden = false;
    showProblem(find("list-problem"), told(error));
    setTimeout(begin, GLANCE);
  }
}

begin();
