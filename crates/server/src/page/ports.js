// The web servers in a job's sandbox, as its events tell of them: each is opened on an
// origin of its own, where its page can do nothing here.

/// Ports that have a button.
const MOST_PORTS = 20;

class PortsView {
  #id;
  #ports = [];
  #over = false;
  #refused;

  constructor({ refused }) {
    this.#refused = refused;
    find("lab").addEventListener("click", () => this.#visit("lab", find("lab")));
  }

  /// Shows what this job has; nothing without an id.
  open(id) {
    this.#id = id;
    this.#ports = [];
    this.#over = false;
    showProblem(find("ports-problem"));
    find("ports-link").replaceChildren();
    this.#show();
  }

  /// Takes note of events.
  hear(records) {
    const last = records.findLast((record) => record.event === "listening");
    if (!last || !Array.isArray(last.ports)) return;
    this.#ports = last.ports.filter(Number.isInteger).slice(0, MOST_PORTS);
    this.#show();
  }

  /// A job that is over has no sandbox to look into.
  end(over) {
    if (over === this.#over) return;
    this.#over = over;
    this.#show();
  }

  #show() {
    find("ports").hidden = !this.#id || this.#over;
    const buttons = this.#ports.map((port) => {
      const button = element("button", "", `Open port ${port}`);
      button.type = "button";
      button.dataset.port = port;
      button.addEventListener("click", () => this.#visit(`ports/${port}/view`, button));
      return button;
    });
    find("ports-list").replaceChildren(...buttons);
    find("ports-none").hidden = buttons.length > 0;
  }

  /// Asks for the address of a page, and opens it where it knows nothing of this one.
  async #visit(what, button) {
    const id = this.#id;
    button.disabled = true;
    find("ports-link").replaceChildren();
    announce("Opening…");
    try {
      const { url } = await askJson(`${API}/jobs/${id}/${what}`, { method: "POST" });
      if (this.#id !== id) return;
      showProblem(find("ports-problem"));
      this.#lead(url);
    } catch (error) {
      if (this.#id !== id) return;
      if (error instanceof Refused && error.status === 401) return this.#refused(error);
      showProblem(find("ports-problem"), told(error));
    } finally {
      button.disabled = false;
    }
  }

  #lead(url) {
    if (!/^https?:\/\//.test(url)) return;
    // A browser opens a window for a click, and forgets the click after some seconds.
    if (navigator.userActivation?.isActive ?? true) {
      window.open(url, "_blank", "noopener,noreferrer");
      announce("Opened in a tab of its own.");
      return;
    }
    const link = element("a", "", "It is ready: open it");
    link.href = url;
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    // The address works once.
    link.addEventListener("click", () => setTimeout(() => link.remove()));
    find("ports-link").replaceChildren(link);
    announce("It is ready.");
  }
}
