// The desktop of a job: its live screen, and mouse and keys for whoever takes over.
// noVNC draws it; `cofferdam setup` installs that beside the server.

const VIEWER = "/assets/novnc/core/rfb.js";
const SCREEN_PROTOCOL = "cofferdam.screen.v1";

const HANDS_WORDS = {
  yours: "You have mouse and keys; the job waits.",
  job: "You watch; the job has mouse and keys.",
  other: "You watch; another person has mouse and keys.",
};

/// A WebSocket as noVNC takes it: bytes are the screen's, text is ours.
class ScreenChannel {
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;
  binaryType = "arraybuffer";
  #socket;

  /// `heard` gets what the server says besides bytes, `closed` that it is over.
  constructor(path, heard, closed) {
    const url = new URL(path, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url, [SCREEN_PROTOCOL, `bearer.${token.get()}`]);
    socket.binaryType = "arraybuffer";
    socket.onopen = (event) => this.onopen?.(event);
    socket.onerror = (event) => this.onerror?.(event);
    socket.onmessage = (event) => {
      if (typeof event.data === "string") heard(JSON.parse(event.data));
      else this.onmessage?.(event);
    };
    socket.onclose = (event) => {
      this.onclose?.(event);
      closed(event);
    };
    this.#socket = socket;
  }

  get protocol() {
    return this.#socket.protocol;
  }

  get readyState() {
    return this.#socket.readyState;
  }

  send(data) {
    this.#socket.send(data);
  }

  say(control) {
    if (this.readyState === WebSocket.OPEN) this.send(JSON.stringify(control));
  }

  close() {
    this.#socket.close();
  }
}

class DeskView {
  #id;
  #channel;
  #viewer;
  #hands = "job";
  /// Why the connection ended, if the server said so.
  #last = "";
  #refused;

  /// `refused` hears of answers 401.
  constructor({ refused }) {
    this.#refused = refused;
    find("desk-watch").addEventListener("click", () => this.watch());
    find("desk-leave").addEventListener("click", () => this.#stop("Not watched."));
    find("desk-hands").addEventListener("click", () => this.#changeHands());
  }

  /// Shows the desktop of this job once somebody wants to watch it.
  open(id) {
    this.#id = id;
    this.#stop("");
  }

  close() {
    this.#id = undefined;
    this.#stop("");
  }

  /// Hears of the job as it is now.
  take(job) {
    find("desk").hidden = isOver(job);
    if (isOver(job)) this.#stop("");
  }

  /// Starts the desktop if it does not run, and shows its screen.
  async watch() {
    const id = this.#id;
    this.#stop("Starting…");
    this.#mark("connecting");
    find("desk-watch").disabled = true;
    try {
      const Viewer = await viewerModule();
      const desktop = await askJson(`${API}/jobs/${id}/desktop`, { method: "POST" });
      if (this.#id !== id) return;
      this.#connect(Viewer, desktop);
    } catch (error) {
      if (this.#id !== id) return;
      if (error instanceof Refused && error.status === 401) return this.#refused(error);
      this.#stop("");
      showProblem(find("desk-problem"), told(error));
    } finally {
      find("desk-watch").disabled = false;
    }
  }

  #connect(Viewer, desktop) {
    const mine = (act) => (...given) => { if (this.#channel === channel) act(...given); };
    const heard = mine((report) => this.#hear(report));
    const closed = mine(() => this.#stop(this.#last ? `Ended: ${this.#last}.` : "The connection has ended."));
    const channel = new ScreenChannel(`${API}/jobs/${this.#id}/desktop/screen`, heard, closed);
    this.#channel = channel;
    const place = find("desk-screen");
    place.style.aspectRatio = `${Number(desktop.width) || 16} / ${Number(desktop.height) || 10}`;
    place.hidden = false;
    const viewer = new Viewer(place, channel, { shared: true });
    viewer.viewOnly = true;
    viewer.scaleViewport = true;
    viewer.showDotCursor = true;
    viewer.addEventListener("connect", mine(() => this.#show()));
    this.#viewer = viewer;
    find("desk-leave").hidden = false;
  }

  #hear(report) {
    if (typeof report.hands === "string") {
      this.#hands = report.hands in HANDS_WORDS ? report.hands : "other";
      this.#show();
    }
    if (typeof report.told === "string") {
      const told = cutTo(tame(report.told), LONGEST_LINE);
      setText(find("desk-state"), `${HANDS_WORDS[this.#hands]} (${told})`);
      find("desk-hands").disabled = this.#hands === "other";
    }
    if (typeof report.closed === "string") this.#last = cutTo(tame(report.closed), LONGEST_LINE);
  }

  /// Shows who has the hands.
  #show() {
    if (!this.#viewer) return;
    const yours = this.#hands === "yours";
    this.#viewer.viewOnly = !yours;
    if (yours) this.#viewer.focus();
    this.#mark(yours ? "acting" : "watching");
    setText(find("desk-state"), HANDS_WORDS[this.#hands]);
    const button = find("desk-hands");
    button.hidden = false;
    button.disabled = this.#hands === "other";
    setText(button, yours ? "Give back" : "Take over");
  }

  #changeHands() {
    if (!this.#channel) return;
    find("desk-hands").disabled = true;
    if (this.#hands === "yours") {
      this.#viewer.viewOnly = true;
      this.#channel.say({ give_back: {} });
    } else {
      setText(find("desk-state"), "Waiting for what the job does just now…");
      this.#channel.say({ take_over: {} });
    }
  }

  #mark(state) {
    find("desk").dataset.state = state;
  }

  #stop(words) {
    const [channel, viewer] = [this.#channel, this.#viewer];
    this.#channel = undefined;
    this.#viewer = undefined;
    this.#hands = "job";
    this.#last = "";
    // A viewer whose connection is closed has stopped by itself.
    if (channel && channel.readyState !== WebSocket.CLOSED) viewer?.disconnect();
    channel?.close();
    this.#mark("off");
    find("desk-screen").hidden = true;
    find("desk-screen").replaceChildren();
    find("desk-hands").hidden = true;
    find("desk-leave").hidden = true;
    setText(find("desk-state"), words);
    showProblem(find("desk-problem"));
  }
}

/// noVNC, or why it cannot be had.
async function viewerModule() {
  // An import that fails does not say why.
  await ask(VIEWER);
  return (await import(VIEWER)).default;
}
