// Run once in each Deno kernel, before the first cell.
(() => {
  // Without input these would answer as if the user had declined.
  for (const name of ["prompt", "confirm", "alert"]) {
    globalThis[name] = () => {
      throw new Error(`${name}() needs input, and a cell has none: put the value into the code`);
    };
  }

  // Deno publishes each line as a message of its own, and drops messages without a word
  // when they come faster than they are read. So lines that follow one another closely
  // go together: until the code pauses, or there are enough of them. And after each lot
  // it waits a moment: what is printed waits in memory, and a flood would fill that.
  const { core, inspectArgs } = Deno[Deno.internal];
  const soon = queueMicrotask;
  const now = performance.now.bind(performance);
  const moment = new Int32Array(new SharedArrayBuffer(4)), wait = Atomics.wait;
  let held = "", isError = false, last = -Infinity, awaited = false, depth = 0;
  const flush = () => {
    awaited = false;
    if (held === "") return;
    const text = held;
    held = "";
    last = now();
    core.print(text, isError);
    if (text.length > 32768) wait(moment, 0, 0, 1);
  };
  const put = (text, error) => {
    if (error !== isError) flush();
    isError = error;
    held += text;
    if (held.length > 32768 || now() - last > 20) {
      flush();
    } else if (!awaited) {
      awaited = true;
      soon(flush);
    }
  };
  for (const name of ["log", "info", "debug", "warn", "error"]) {
    const own = console[name], error = name === "warn" || name === "error";
    console[name] = (...args) => {
      // Only Deno itself knows how far a group is indented.
      if (depth > 0) return flush(), own(...args);
      put(inspectArgs(args, { colors: false }) + "\n", error);
    };
  }
  for (const name of Object.keys(console)) {
    if (["log", "info", "debug", "warn", "error"].includes(name)) continue;
    const own = console[name];
    if (typeof own !== "function") continue;
    console[name] = (...args) => {
      flush();
      if (name === "group" || name === "groupCollapsed") depth++;
      if (name === "groupEnd" && depth > 0) depth--;
      return own(...args);
    };
  }
  for (const name of ["display", "broadcast"]) {
    const own = Deno.jupyter[name];
    Deno.jupyter[name] = (...args) => (flush(), own(...args));
  }
})();
