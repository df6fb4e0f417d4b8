// The list of jobs, the newest first.

const LIST_PAGE = 20;
/// Jobs that are kept in the list. Who wants more has the API.
const LONGEST_LIST = 1_000;

const find = (id) => document.getElementById(id);

/// An element with text in it: nothing that comes from a server is ever HTML.
function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/// Sets text only where it differs, so that nobody's selection is lost.
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/// Shows what failed, why, and what to do; nothing without a problem.
function showProblem(place, problem) {
  place.replaceChildren();
  if (!problem) return;
  const box = element("div", "problem");
  const title = element("p", "problem-title", tame(problem.title || "it failed"));
  if (problem.code) title.append(" ", element("code", "", tame(problem.code)));
  box.append(title);
  if (problem.detail) box.append(element("p", "", `Cause: ${tame(problem.detail)}`));
  if (problem.remedy) box.append(element("p", "", `What to do: ${tame(problem.remedy)}`));
  place.append(box);
}

function statusWord(job) {
  if (job.paused && !isOver(job)) return "paused";
  return job.status === "complete" && job.verified ? "verified" : job.status;
}

function showStatus(pill, job) {
  setText(pill, statusWord(job));
  pill.dataset.status = statusWord(job);
}

class List {
  #jobs = new Map();
  /// Those that came in pages, without a gap between them.
  #listed = new Set();
  #rows = new Map();
  #next;
  #selected;

  clear() {
    this.#jobs.clear();
    this.#listed.clear();
    this.#rows.clear();
    this.#next = undefined;
    find("jobs").replaceChildren();
    find("older").hidden = true;
    find("list-empty").hidden = true;
  }

  select(id) {
    this.#selected = id;
    for (const [key, row] of this.#rows) this.#mark(key, row);
  }

  /// Looks for what is new among the newest.
  async refresh() {
    const page = await askJson(`${API}/jobs?limit=${LIST_PAGE}`);
    const fresh = new Set(page.jobs.map((job) => job.id));
    const joined = page.jobs.some((job) => this.#listed.has(job.id));
    const lowest = page.jobs.at(-1)?.id ?? "";
    for (const id of this.#jobs.keys()) {
      // Either forgotten, or with a gap between it and what is new.
      if (!joined || ((id >= lowest || !page.next) && !fresh.has(id))) this.#jobs.delete(id);
    }
    if (!joined) this.#listed.clear();
    if (!joined || !page.next) this.#next = page.next;
    this.#add(page.jobs);
  }

  async older() {
    if (!this.#next) return;
    const cursor = encodeURIComponent(this.#next);
    const page = await askJson(`${API}/jobs?limit=${LIST_PAGE}&cursor=${cursor}`);
    this.#next = page.next;
    this.#add(page.jobs);
  }

  #add(jobs) {
    for (const job of jobs) {
      this.#jobs.set(job.id, job);
      this.#listed.add(job.id);
    }
    this.#show();
  }

  /// Takes in what is known of a job from elsewhere.
  hear(job) {
    this.#jobs.set(job.id, job);
    this.#show();
  }

  #show() {
    // Ids begin with the time they were made at.
    const newest = [...this.#jobs.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
    const shown = newest.slice(0, LONGEST_LIST);
    this.#jobs = new Map(shown.map((job) => [job.id, job]));
    for (const [id, row] of this.#rows) {
      if (this.#jobs.has(id)) continue;
      row.item.remove();
      this.#rows.delete(id);
    }
    const list = find("jobs");
    shown.forEach((job, place) => {
      const row = this.#rows.get(job.id) ?? this.#make(job.id);
      setText(row.title, tame(job.title) || "(no title)");
      showStatus(row.status, job);
      setText(row.age, age(job.created));
      row.age.dateTime = job.created;
      setText(row.cost, isOver(job) ? dollars(job.cost) : "");
      if (list.children[place] !== row.item) list.insertBefore(row.item, list.children[place] ?? null);
    });
    find("list-empty").hidden = shown.length > 0;
    find("older").hidden = !this.#next || shown.length >= LONGEST_LIST;
  }

  #make(id) {
    const row = {
      item: element("li"),
      link: element("a", "job-row"),
      title: element("span", "job-row-title"),
      status: element("span", "pill"),
      age: element("time", "faint"),
      cost: element("span", "faint"),
    };
    row.link.href = `#/jobs/${id}`;
    row.title.dir = "auto";
    row.link.append(row.title, row.status, row.age, row.cost);
    row.item.append(row.link);
    this.#rows.set(id, row);
    this.#mark(id, row);
    return row;
  }

  #mark(id, row) {
    if (id === this.#selected) row.link.setAttribute("aria-current", "page");
    else row.link.removeAttribute("aria-current");
  }
}
