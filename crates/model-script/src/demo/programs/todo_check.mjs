// Checks index.html with Node alone: runs its functions, compiles its page code.
//
//     node check.mjs

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import vm from "node:vm";

const page = readFileSync(new URL("index.html", import.meta.url), "utf8");

function script(id) {
  const found = page.match(new RegExp(`<script id="${id}">(.*?)</script>`, "s"));
  assert.ok(found, `index.html has no script "${id}"`);
  return found[1];
}

const Todos = vm.runInNewContext(`${script("model")}; Todos`);
new vm.Script(script("view")); // throws where the code is not valid
// Values made in another context have other prototypes; as JSON they are alike.
const same = (actual, expected) => assert.deepEqual(JSON.parse(JSON.stringify(actual)), expected);

const checks = {
  "adding trims the title and ignores an empty one"() {
    same(Todos.add([], "  Buy milk "), [{ id: 1, title: "Buy milk", done: false }]);
    same(Todos.add([], "   "), []);
  },
  "ids stay unique after a deletion"() {
    let todos = Todos.add(Todos.add([], "a"), "b");
    todos = Todos.add(Todos.remove(todos, 1), "c");
    same(todos.map((todo) => todo.id), [2, 3]);
  },
  "toggling changes one todo, twice is nothing"() {
    const todos = Todos.add(Todos.add([], "a"), "b");
    same(Todos.toggle(todos, 2).map((todo) => todo.done), [false, true]);
    same(Todos.toggle(Todos.toggle(todos, 2), 2), JSON.parse(JSON.stringify(todos)));
  },
  "filters show all, active or done todos"() {
    const todos = Todos.toggle(Todos.add(Todos.add([], "a"), "b"), 1);
    const titles = (filter) => Todos.visible(todos, filter).map((todo) => todo.title);
    same(titles("all"), ["a", "b"]);
    same(titles("active"), ["b"]);
    same(titles("done"), ["a"]);
    same(Todos.clear(todos).map((todo) => todo.title), ["b"]);
    assert.equal(Todos.left(todos), "1 thing left");
  },
  "the list survives in the storage, and a broken one is empty"() {
    const stored = new Map();
    const storage = {
      getItem: (key) => stored.get(key) ?? null,
      setItem: (key, value) => stored.set(key, value),
    };
    same(Todos.load(storage), []);
    assert.ok(Todos.save(storage, Todos.add([], "a")));
    same(Todos.load(storage), [{ id: 1, title: "a", done: false }]);
    for (const broken of ["{", "null", "7", '[{"id":"x"}]']) {
      stored.set(Todos.KEY, broken);
      same(Todos.load(storage), []);
    }
    same(Todos.load(null), []);
    assert.equal(Todos.save(null, []), false);
  },
  "every element that the code asks for is in the page"() {
    const asked = [...script("view").matchAll(/element\("([^"]+)"\)/g)].map((match) => match[1]);
    assert.ok(asked.length > 0);
    for (const id of asked) assert.ok(page.includes(`id="${id}"`), `no element "${id}"`);
  },
};

for (const [name, check] of Object.entries(checks)) {
  check();
  console.log(`ok  ${name}`);
}
console.log(`${Object.keys(checks).length} checks passed`);
