// Events in words. Everything here makes text, never HTML.

/// Characters of a line, and of what is folded below it.
const LONGEST_LINE = 2_000;
const LONGEST_FOLD = 20_000;

/// Text as it can be shown: terminals' control codes, and characters that turn the
/// direction of what follows, become visible.
function tame(text) {
  return String(text)
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

function cutTo(text, most) {
  const all = Array.from(text.length > most ? text.slice(0, most + 1) : text);
  return all.length > most ? `${all.slice(0, most - 1).join("")}…` : text;
}

function folded(text) {
  const more = text.length - LONGEST_FOLD;
  const shown = tame(more > 0 ? text.slice(0, LONGEST_FOLD) : text).trimEnd();
  return more > 0 ? `${shown}\n… ${more} characters more; the download and the log have them` : shown;
}

function counted(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

/// `0.4 s`, `12 s`, `3 min`
function span(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function age(moment) {
  const passed = Math.max(0, Date.now() - Date.parse(moment));
  if (Number.isNaN(passed)) return "";
  if (passed < 5_000) return "now";
  if (passed < 48 * 3600_000) return `${span(Math.max(passed, 10_000))} ago`;
  return `${Math.round(passed / (24 * 3600_000))} days ago`;
}

/// ` (91% cached)`; nothing where it is not known what was cached.
function shareCached(read, cached) {
  if (!read || cached === undefined || cached === null) return "";
  return ` (${Math.floor((cached * 100) / read)}% cached)`;
}

/// Rounded up: what was spent is never shown as nothing.
function dollars(amount) {
  const value = Number(amount);
  if (!Number.isFinite(value)) return "";
  const places = value > 0 && value < 1 ? 4 : 2;
  return `$${(Math.ceil(value * 10 ** places - 1e-6) / 10 ** places).toFixed(places)}`;
}

const FAILURES = {
  rate_limited: "the model gets too many requests",
  unavailable: "the model is overloaded or out of order",
  unreachable: "the model cannot be reached",
  interrupted: "the model's answer broke off",
  stalled: "nothing came from the model for too long",
  garbled: "the model's answer made no sense",
  abandoned: "the model's answer was not waited for",
  unauthorised: "the key for the model is missing, wrong or not sufficient",
  no_such_model: "there is no such model",
  too_long: "the conversation is too long for the model",
  rejected: "the model's provider will not take the request",
};

const TOOL_STATUS = {
  done: "",
  failed: "failed",
  refused: "refused",
  unknown: "what became of it is not known",
  cancelled: "stopped",
};

function endingWords(ending) {
  switch (ending.how) {
    case "complete": return ending.verified ? "complete; the checks prove it" : "complete";
    case "unverified": return "the model says it is done, and the checks say it is not";
    case "failed": return `could not be done: ${ending.reason}`;
    case "limit_reached": return `the limit on ${ending.limit} was reached`;
    case "model_unavailable": return `no model: ${ending.reason}`;
    case "sandbox_unavailable": return `no sandbox: ${ending.reason}`;
    case "cancelled": return ending.by === "system" ? "stopped by the system" : "cancelled";
    default: return ending.how;
  }
}

function outcomeWords(outcome) {
  switch (outcome.outcome) {
    case "exited": return `exit code ${outcome.exit_code}`;
    case "signaled": return `ended by signal ${outcome.signal}`;
    case "timed_out": return "its time was up";
    case "out_of_memory": return "the sandbox's memory was used up";
    default: return `its end is not known: ${outcome.reason || ""}`;
  }
}

/// What a call is about, in one line: its command, its path, or its arguments.
function callWords(name, text) {
  let given;
  try {
    given = JSON.parse(text || "{}");
  } catch {
    return text;
  }
  if (given === null || typeof given !== "object") return text;
  for (const key of ["command", "path", "pattern", "instruction", "brief", "query", "file"]) {
    if (typeof given[key] === "string") return given[key];
  }
  return Object.keys(given).length ? JSON.stringify(given) : "";
}

function line(tone, mark, text, fold = "") {
  return { tone, mark, text: cutTo(tame(text), LONGEST_LINE), fold: folded(fold) };
}

/// Turns a job's events into lines, and keeps what later events refer to.
class Story {
  /// By conversation, the calls of its last answer; by number, those under way.
  #asked = new Map();
  #running = new Map();
  #questions = new Map();
  #resting = false;
  plan = [];
  doing = "";
  turns = 0;
  tokens = 0;
  /// Tokens that were read, those of them from a cache, and those written to one.
  read = 0;
  cached = 0;
  kept = 0;
  cost = 0;

  /// The lines of an event, each with its tone, mark, text and what is folded.
  hear(record) {
    const lines = this.#lines(record);
    return lines.map((each) => ({ ...each, at: record.at, seq: record.seq }));
  }

  #goOn() {
    this.doing = this.#resting ? "" : "working";
  }

  #pay(tokens, cost) {
    this.#use(tokens || {});
    this.cost += Number(cost || 0);
  }

  #use({ input = 0, cache_read = 0, cache_write = 0, output = 0 }) {
    this.read += input + cache_read + cache_write;
    this.cached += cache_read;
    this.kept += cache_write;
    this.tokens += input + cache_read + cache_write + output;
  }

  /// The share of what was read that came from a cache; none where nobody has said.
  get cachedShare() {
    return shareCached(this.read, this.cached || this.kept ? this.cached : undefined);
  }

  #lines(record) {
    switch (record.event) {
      case "created":
        return [line("faint", "·", `asked for, with ${record.spec.orchestrator}`)];
      case "taken_up":
        this.#resting = false;
        this.doing = record.only_delivers ? "handing over" : "making the sandbox";
        return [line("faint", "·", record.only_delivers ? "taken up to be handed over" : "taken up")];
      case "image_step":
        this.doing = "making the image";
        return [line("faint", "·", `the image: ${record.step}`)];
      case "image_ready":
        this.doing = "making the sandbox";
        return [line("faint", "·", `image: ${record.image.slice(0, 12)}`)];
      case "sandbox_opened":
        this.#goOn();
        return [line("faint", "·", `sandbox: ${record.backend}, ${record.grade}`,
          record.weaknesses.join("\n"))];
      case "prepared": {
        const read = record.instructions.map((each) => each.path);
        return read.length ? [line("faint", "·", `read ${read.join(", ")}`)] : [];
      }
      case "user_said":
        return [line("user", "you", record.text)];
      case "delegated":
        // Something long is read for a call that has begun before.
        if (record.reading) return [];
        this.#running.set(record.call, { tool: "delegate", about: record.brief });
        return [line("tool", "→", "a coder begins", record.brief)];
      case "model_asked":
        // A conversation has one question at a time.
        for (const [request, asked] of this.#questions) {
          if (asked.thread === record.thread) this.#questions.delete(request);
        }
        this.#questions.set(record.request, { thread: record.thread, summary: record.role === "summariser" });
        if (record.span) this.doing = "summarising";
        else if (!this.#questions.get(record.request).summary) this.doing = `waiting for ${record.model}`;
        return [];
      case "model_answered": return this.#answered(record);
      case "model_failed": return this.#failed(record);
      case "model_used":
        this.#pay(record.tokens, record.cost);
        return [];
      case "tool_started": return this.#started(record);
      case "tool_ended": return this.#ended(record);
      case "planned": {
        this.plan = record.steps;
        const done = record.steps.filter((step) => step.status === "completed").length;
        return [line("faint", "·", `plan: ${done} of ${counted(record.steps.length, "step")} done`)];
      }
      case "check_started":
        this.doing = "running the checks";
        return [line("faint", "·", record.attempt > 1
          ? `the checks run, for the ${record.attempt}. time` : "the checks run")];
      case "check_ended":
        this.#goOn();
        return record.results.map(({ command, outcome, output, took_ms }) => {
          const passed = outcome.outcome === "exited" && outcome.exit_code === 0;
          const how = passed ? "passed" : outcomeWords(outcome);
          return line(passed ? "good" : "bad", passed ? "✓" : "✗",
            `check ${how}: ${command} (${span(took_ms)})`, output);
        });
      case "budget_changed": return [line("faint", "·", "its limits are others from here on")];
      case "models_changed":
        return [line("faint", "·", `its models are ${record.orchestrator} and ${record.coder} from here on`)];
      case "context_cut": return this.#cut(record);
      case "recall_asked":
        this.doing = "looking back";
        return [line("faint", "·", `looking back for: ${cutTo(record.words.split("\n")[0], 200)}`)];
      case "offered":
        this.#goOn();
        return record.text ? [line("faint", "·",
          `${counted(record.text.length, "character")} that were let go may be needed: shown to the model again`)] : [];
      case "listening":
        return [line("faint", "·", record.ports.length
          ? `something listens in the sandbox on ${record.ports.length > 1 ? "ports" : "port"} ${record.ports.join(", ")}`
          : "nothing listens in the sandbox any more")];
      case "noted": return [line("warning", "!", record.text)];
      case "paused":
        this.#resting = true;
        if (!this.#running.size) this.doing = "";
        return [line("warning", "‖", "paused")];
      case "resumed":
        this.#resting = false;
        return [line("faint", "·", "going on")];
      case "cancel_asked":
        return [line("warning", "!", record.by === "system" ? "the system stops it" : "somebody stops it")];
      case "ending":
        this.doing = "handing over";
        return [];
      case "ended": return this.#over(record);
      // A newer server may tell of more.
      default: return [line("faint", "·", record.event)];
    }
  }

  #answered({ request, answer, cost }) {
    this.turns += 1;
    this.#pay(answer.tokens, cost);
    const { thread, summary } = this.#questions.get(request) ?? { thread: 0, summary: false };
    if (summary) {
      // Said to the other model, and told with the cut or with what the call brings.
      if (!this.#running.size) this.#goOn();
      return [];
    }
    const calls = answer.blocks.filter((block) => block.type === "tool_call");
    this.#asked.set(thread, new Map(calls.map((call) => [call.id, call])));
    const of = (kind) => answer.blocks.filter((block) => block.type === kind)
      .map((block) => block.text).join("\n").trim();
    const lines = [];
    if (of("thinking")) lines.push(line("faint", "…", "thought", of("thinking")));
    if (of("text")) lines.push(line("model", "model", of("text")));
    if (answer.stop === "output_limit") {
      lines.push(line("warning", "!", "the answer reached the model's output limit and is cut"));
    }
    if (answer.stop === "refused") lines.push(line("warning", "!", "the model declined to answer"));
    this.#goOn();
    return lines;
  }

  #cut({ cut, tokens: [before, after] }) {
    this.#goOn();
    const how = cut.how === "pruned" ? "long outputs were cut"
      : cut.by === "rule" ? "older parts were summarised by rule" : "older parts were summarised";
    const number = (count) => count.toLocaleString("en");
    return [line("faint", "·", `${how} to save room: ${number(before)} → ${number(after)} tokens`)];
  }

  #failed({ request, failure, tokens, cost, retry_at, at }) {
    this.#pay(tokens, cost);
    const missing = this.#questions.get(request)?.summary ? "no summary: " : "";
    const words = missing + (FAILURES[failure.kind] || failure.kind);
    const again = retry_at ? `; it is asked again in ${span(Math.max(0, retry_at - at))}` : "";
    this.#goOn();
    if (retry_at) this.doing = "waiting to ask the model again";
    return [line(retry_at ? "warning" : "bad", "!", `${words}${again}`, failure.message)];
  }

  #claim(thread, id, tool) {
    const call = this.#asked.get(thread)?.get(id);
    const name = call ? call.name : tool;
    return { tool: name, about: call ? callWords(name, call.arguments) : "" };
  }

  #started({ call, thread, id, tool }) {
    const begun = this.#claim(thread, id, tool);
    this.#running.set(call, begun);
    // Seen by their consequences: the plan, the checks, the end.
    if (tool === "plan" || tool === "finish") return [];
    const about = begun.about ? `${tool === "bash" ? "" : `${tool}  `}${begun.about}` : tool;
    this.doing = `running ${cutTo(tame(about).split("\n")[0], 60)}`;
    return [line("tool", tool === "bash" ? "$" : "→", about)];
  }

  #ended({ call, thread, id, output }) {
    const { tool, about } = this.#running.get(call) || this.#claim(thread, id, "");
    const begun = this.#running.delete(call);
    if (!this.#running.size) this.#goOn();
    if ((tool === "plan" || tool === "finish") && output.status !== "refused") return [];
    const text = output.content.map((part) => (part.type === "text" ? part.text : "[a picture]")).join("\n");
    const status = TOOL_STATUS[output.status] ?? output.status;
    const lines = text.trim() ? text.trimEnd().split("\n").length : 0;
    const parts = [begun ? tool : `${tool}  ${about}`, status, span(output.took_ms),
      lines ? counted(lines, "line") : "no output"];
    if (output.rest) parts.push(`${output.rest.bytes.toLocaleString("en")} bytes in all`);
    const tone = output.status === "done" ? "output" : "bad";
    return [line(tone, output.status === "done" ? "←" : "✗", parts.filter(Boolean).join(" · "), text)];
  }

  #over({ ending, spent, changes, delivery_problem }) {
    this.doing = "";
    this.#running.clear();
    this.turns = spent.turns;
    this.tokens = this.read = this.cached = this.kept = 0;
    this.#use(spent.tokens);
    this.cost = Number(spent.cost);
    const lines = changes.map((change) => {
      const mark = { added: "+", modified: "~", deleted: "-" }[change.kind] || "~";
      const text = change.added === null ? "" : `  (+${change.added ?? 0} -${change.removed ?? 0})`;
      return line("file", mark, `${change.path}${text}`);
    });
    if (delivery_problem) lines.push(line("bad", "!", `the result could not be handed over: ${delivery_problem}`));
    const cost = spent.unpriced ? `${dollars(spent.cost)} as far as prices are known` : dollars(spent.cost);
    const read = this.read && !this.cachedShare ? " (cached share unknown)" : this.cachedShare;
    const used = `${counted(spent.turns, "turn")} · ${counted(this.tokens, "token")}${read} · ${cost} · ${span(spent.time_ms)}`;
    const tone = ending.how === "complete" ? "good" : ending.how === "cancelled" ? "warning" : "bad";
    lines.push(line(tone, "■", `${endingWords(ending)} · ${used}`, ending.summary || ""));
    return lines;
  }
}
