// One job: what it is at, its plan, its events as they come, and what can be done
// with it.

/// Lines of events that are kept on the page: the newest.
const MOST_LINES = 2_000;
/// Milliseconds in which events gather before they are shown: to lay the log out
/// anew for each of a thousand takes too long.
const GATHER = 50;

const STEP_MARKS = { pending: "○", in_progress: "◐", completed: "●" };
const STEP_WORDS = { pending: "not begun", in_progress: "under way", completed: "done" };

/// A line of the log: when, what kind, what; and what is folded below it.
function eventLine({ at, seq, tone, mark, text, fold }) {
  const item = element("li", `event tone-${tone}`);
  item.dataset.seq = seq;
  const when = element("time", "faint", new Date(at).toLocaleTimeString("en-GB"));
  when.dateTime = new Date(at).toISOString();
  const words = element("span", "event-text", text);
  words.dir = "auto";
  let body = words;
  if (fold) {
    body = element("details");
    const summary = element("summary");
    summary.append(words);
    const whole = element("pre", "", fold);
    whole.dir = "auto";
    body.append(summary, whole);
  }
  item.append(when, element("span", "event-mark", mark), body);
  return item;
}

class JobView {
  #id;
  #job;
  #story;
  #shownPlan;
  #last = 0;
  #stream;
  #connection = "";
  #lines = 0;
  #waiting = [];
  #timer;
  #said = "";
  /// Whether the problem that is shown is that the job could not be asked for.
  #unknown = false;
  #changed;
  #refused;
  #desk;
  #ports;

  /// `changed` hears of the job whenever it is asked for; `refused` of answers 401.
  constructor({ changed, refused }) {
    this.#changed = changed;
    this.#refused = refused;
    this.#desk = new DeskView({ refused });
    this.#ports = new PortsView({ refused });
  }

  get id() {
    return this.#id;
  }

  /// Shows this job; none without an id.
  async open(id) {
    if (id === this.#id) return;
    this.close();
    this.#id = id;
    if (!id) return;
    document.body.classList.add("has-job");
    find("job").hidden = false;
    find("job-none").hidden = true;
    this.#desk.open(id);
    this.#ports.open(id);
    await this.refresh();
    if (this.#id === id && this.#job) {
      this.#follow();
      find("job-title").focus();
    }
  }

  close() {
    this.#stream?.stop();
    this.#stream = undefined;
    this.#desk.close();
    this.#ports.open();
    this.#id = undefined;
    this.#job = undefined;
    this.#story = undefined;
    this.#last = 0;
    this.#lines = 0;
    this.#waiting = [];
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#connection = "";
    this.#said = "";
    this.#unknown = false;
    find("events").replaceChildren();
    find("events-hidden").hidden = true;
    find("plan").hidden = true;
    document.body.classList.remove("has-job");
    document.title = "Cofferdam";
    find("job").hidden = true;
    find("job-none").hidden = false;
    find("job").dataset.connection = "";
    showProblem(find("job-problem"));
    for (const name of ["job-title", "job-status", "job-facts", "job-end", "job-task-text", "doing"]) {
      setText(find(name), "");
    }
    find("job-task").open = false;
    find("message").value = "";
  }

  /// Asks for the job as it is now.
  async refresh() {
    const id = this.#id;
    if (!id) return;
    try {
      const job = await askJson(`${API}/jobs/${id}`);
      if (this.#id !== id) return;
      if (this.#unknown) showProblem(find("job-problem"));
      this.#unknown = false;
      this.#take(job);
    } catch (error) {
      if (this.#id !== id) return;
      this.#fail(error);
      this.#unknown = true;
    }
  }

  /// Sends an order: cancel, pause, resume, messages.
  async order(name, body) {
    const id = this.#id;
    try {
      const job = await askJson(`${API}/jobs/${id}/${name}`, { method: "POST", body });
      if (this.#id !== id) return false;
      // What was asked for at the beginning is not in this answer.
      this.#take({ ...this.#job, ...job });
      showProblem(find("job-problem"));
      if (!this.#stream) this.#follow();
      return true;
    } catch (error) {
      if (this.#id === id) this.#fail(error);
      return false;
    }
  }

  async save(output, button) {
    const id = this.#id;
    button.disabled = true;
    announce("Downloading…");
    try {
      const kind = output.replace("output.", "");
      const { name, bytes } = await download(`${API}/jobs/${id}/${output}`, `cofferdam-${id}.${kind}`);
      if (this.#id === id) showProblem(find("job-problem"));
      announce(`Downloaded ${name}, ${bytes.toLocaleString("en")} bytes.`);
    } catch (error) {
      if (this.#id === id) this.#fail(error);
    } finally {
      button.disabled = false;
    }
  }

  async say(text) {
    if (this.#job && isOver(this.#job)) return this.order("resume", { message: text });
    return this.order("messages", { text });
  }

  #fail(error) {
    if (error instanceof Refused && error.status === 401) return this.#refused(error);
    this.#unknown = false;
    showProblem(find("job-problem"), told(error));
  }

  #take(job) {
    const began = !this.#job;
    this.#job = job;
    this.#changed(job);
    setText(find("job-title"), tame(job.title) || "(no title)");
    showStatus(find("job-status"), job);
    this.#showFacts();
    const end = find("job-end");
    setText(end, cutTo(tame(job.error || job.summary || ""), LONGEST_LINE));
    end.hidden = !end.textContent;
    end.className = job.error ? "bad" : "";
    setText(find("job-task-text"), folded(job.task || ""));
    find("job-task").hidden = !job.task || job.task.trim() === job.title;
    const over = isOver(job);
    this.#ports.end(over);
    this.#desk.take(job);
    find("cancel").hidden = over;
    find("pause").hidden = over || job.paused;
    find("resume").hidden = !over && !job.paused;
    setText(find("message-label"), over ? "Say what is still to be done" : "Say something to the job");
    setText(find("say"), over ? "Go on" : "Send");
    const said = `${statusWord(job)}: ${tame(job.title)}`;
    if (!began && said !== this.#said) announce(said);
    this.#said = said;
    document.title = `${statusWord(job)} · ${cutTo(tame(job.title), 60)} · Cofferdam`;
    // Somebody resumed it.
    if (!over && !began && this.#connection === "over") this.#follow();
  }

  #showFacts() {
    const job = this.#job;
    const story = this.#story;
    const cost = isOver(job) || !story ? Number(job.cost) : story.cost;
    const turns = isOver(job) || !story ? job.turns : story.turns;
    const tokens = isOver(job) || !story ? job.tokens : story.tokens;
    const cached = isOver(job) || !story ? shareCached(job.tokens_read, job.tokens_cached) : story.cachedShare;
    const used = `${counted(tokens, "token")}${cached}`;
    const facts = [age(job.created), job.model, counted(turns, "turn"), used, dollars(cost)];
    if (job.network && job.network !== "none") facts.push(`network ${job.network}`);
    setText(find("job-facts"), facts.filter(Boolean).map((fact) => tame(fact)).join(" · "));
    find("job-facts").title = job.id;
  }

  #follow() {
    this.#stream?.stop();
    this.#connection = "";
    this.#story ??= new Story();
    const id = this.#id;
    const mine = (act) => (...given) => { if (this.#id === id) act(...given); };
    this.#stream = follow(id, this.#last, {
      heard: mine((records) => this.#hear(records)),
      state: mine((state) => this.#connect(state)),
      failed: mine((error) => { this.#stream = undefined; this.#fail(error); }),
    });
  }

  #connect(state) {
    this.#showLines();
    this.#connection = state;
    find("job").dataset.connection = state;
    if (state === "over") {
      this.#stream = undefined;
      this.refresh();
    }
    this.#showDoing();
  }

  #showDoing() {
    const cut = this.#connection === "cut" ? "The connection was cut; it is opened again…" : "";
    setText(find("doing"), cut || (this.#story.doing ? `${tame(this.#story.doing)}…` : ""));
  }

  #hear(records) {
    this.#last = records.at(-1).seq;
    this.#ports.hear(records);
    const lines = records.flatMap((record) => this.#story.hear(record));
    this.#lines += lines.length;
    this.#waiting = this.#waiting.concat(lines).slice(-MOST_LINES);
    this.#timer ??= setTimeout(() => this.#showLines(), GATHER);
    const telling = ["taken_up", "paused", "ended", "cancel_asked"];
    if (records.some((record) => telling.includes(record.event))) this.refresh();
  }

  /// Shows what was heard since the last time.
  #showLines() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const list = find("events");
    const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    list.append(...this.#waiting.map(eventLine));
    this.#waiting = [];
    while (list.children.length > MOST_LINES) list.firstElementChild.remove();
    const earlier = this.#lines - list.children.length;
    const hidden = find("events-hidden");
    hidden.hidden = earlier === 0;
    setText(hidden, `${counted(earlier, "earlier line")} not shown.`);
    if (follows) list.scrollTop = list.scrollHeight;
    this.#showPlan();
    this.#showDoing();
    this.#showFacts();
  }

  #showPlan() {
    if (this.#shownPlan === this.#story.plan) return;
    this.#shownPlan = this.#story.plan;
    const steps = this.#story.plan.slice(0, 200);
    find("plan").hidden = steps.length === 0;
    find("plan-steps").replaceChildren(...steps.map((step) => {
      const item = element("li", `step-${step.status in STEP_MARKS ? step.status : "pending"}`);
      const mark = element("span", "step-mark", STEP_MARKS[step.status] || "○");
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", STEP_WORDS[step.status] || "");
      const words = element("span", "", cutTo(tame(step.step), LONGEST_LINE));
      words.dir = "auto";
      item.append(mark, words);
      return item;
    }));
  }
}
