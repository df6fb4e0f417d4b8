// What is sent to the server and what comes back. page.rs joins wire.js, words.js,
// list.js, desk.js, ports.js, job.js and app.js, in this order, into one module.

const API = "/api/v1";
const TOKEN = "cofferdam.token";
/// Nothing on a stream for this long, heartbeats included: it is cut.
const SILENCE = 45_000;
/// Milliseconds before a stream is opened again: at first, and at most.
const RETRY = { first: 2_000, most: 30_000 };
/// Characters of one event. The server's largest is far below.
const LONGEST_EVENT = 64 << 20;

/// An answer that is a failure: what failed, why, and what to do.
class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title);
    this.status = status;
    this.problem = problem;
  }
}

const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

/// Asks the server with the token, and throws what is not a success.
async function ask(path, { method = "GET", body, headers = {}, signal, as = token.get() } = {}) {
  const sent = new Headers(headers);
  if (as) sent.set("Authorization", `Bearer ${as}`);
  if (body !== undefined) sent.set("Content-Type", "application/json");
  const response = await fetch(path, {
    method,
    headers: sent,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    cache: "no-store",
    credentials: "omit",
    referrerPolicy: "no-referrer",
  });
  if (response.ok) return response;
  throw new Refused(response.status, await problemOf(response));
}

async function askJson(path, options) {
  return (await ask(path, options)).json();
}

async function problemOf(response) {
  const kind = response.headers.get("Content-Type") || "";
  try {
    if (kind.startsWith("application/problem+json")) return await response.json();
  } catch {
    // Told below as far as it is known.
  }
  return {
    title: "the server refused",
    detail: `it answered ${response.status} ${response.statusText}`,
    remedy: "try again; if it happens again, look into the server's log",
  };
}

/// Any failure in the shape of a problem.
function told(error) {
  if (error instanceof Refused) return error.problem;
  return {
    title: "the server cannot be reached",
    detail: error.message || String(error),
    remedy: "see whether it runs, then try again",
  };
}

/// A name that no other submission has. `randomUUID` is missing where the page comes
/// without TLS from another machine.
function uniqueKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/// Takes a text/event-stream apart, in whatever pieces it comes.
class EventParser {
  #rest = "";
  /// How much of it has no end of a line in it.
  #seen = 0;
  #event = { data: [] };
  retry;

  /// The events that this piece completes.
  push(text) {
    const all = this.#rest + text;
    const ends = /\r\n|\r(?!$)|\n/g;
    ends.lastIndex = this.#seen;
    const events = [];
    let begin = 0;
    for (let end = ends.exec(all); end; end = ends.exec(all)) {
      const event = this.#line(all.slice(begin, end.index));
      if (event) events.push(event);
      begin = ends.lastIndex;
    }
    this.#rest = all.slice(begin);
    if (this.#rest.length > LONGEST_EVENT) throw new Error("an event is too long");
    // The other half of a line's end may still come.
    this.#seen = this.#rest.length - (this.#rest.endsWith("\r") ? 1 : 0);
    return events;
  }

  #line(line) {
    if (line === "") {
      const { id, data } = this.#event;
      this.#event = { data: [] };
      return data.length ? { id, data: data.join("\n") } : undefined;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#event.data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#event.id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return undefined;
  }
}

/// Follows a job's events from the one after `last`, through cuts, until the job is
/// over.
///
/// `EventSource` cannot send the token, so this reads the stream itself. `heard` gets
/// the events of each piece, in order and each once; `state` gets "open", "cut" or
/// "over"; `failed` gets what asking again does not help against.
function follow(id, last, { heard, state, failed }) {
  const stop = new AbortController();
  let wait = RETRY.first;

  const readOnce = async () => {
    const cut = new AbortController();
    const signal = AbortSignal.any([stop.signal, cut.signal]);
    let timer = setTimeout(() => cut.abort(), SILENCE);
    try {
      const headers = { Accept: "text/event-stream" };
      if (last > 0) headers["Last-Event-ID"] = String(last);
      const response = await ask(`${API}/jobs/${id}/events`, { headers, signal });
      state("open");
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => cut.abort(), SILENCE);
        const records = [];
        for (const event of parser.push(value)) {
          const record = JSON.parse(event.data);
          if (record.seq <= last) continue;
          last = record.seq;
          records.push(record);
        }
        if (parser.retry !== undefined) wait = Math.min(parser.retry, RETRY.most);
        if (records.length && !stop.signal.aborted) heard(records);
      }
    } finally {
      clearTimeout(timer);
      cut.abort();
    }
  };

  const run = async () => {
    while (!stop.signal.aborted) {
      try {
        await readOnce();
        const job = await askJson(`${API}/jobs/${id}`, { signal: stop.signal });
        if (isOver(job) && job.last_event <= last) return state("over");
      } catch (error) {
        if (stop.signal.aborted) return;
        const final = error instanceof Refused && [401, 403, 404].includes(error.status);
        if (final) return failed(error);
      }
      state("cut");
      await pause(wait, stop.signal);
      wait = Math.min(wait * 2, RETRY.most);
    }
  };
  run();
  return { stop: () => stop.abort() };
}

function pause(milliseconds, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
  });
}

function isOver(job) {
  return job.status !== "pending" && job.status !== "running";
}

/// Fetches a file with the token and hands it to the browser to save.
async function download(path, fallback) {
  const response = await ask(path);
  const named = /filename="([A-Za-z0-9][A-Za-z0-9._-]{0,150})"/;
  const found = named.exec(response.headers.get("Content-Disposition") || "");
  const blob = await response.blob();
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = found ? found[1] : fallback;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return { name: link.download, bytes: blob.size };
}
