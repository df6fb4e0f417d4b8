"""Checks index.html where there is no Node: its structure, not its behaviour.

    python3 check.py
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

WITHOUT_END = {"meta", "input", "link", "br", "img", "hr"}


class Page(HTMLParser):
    """Collects ids, filters and what is loaded from elsewhere; checks nesting."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.filters, self.problems = [], set(), set(), []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            if attributes["id"] in self.ids:
                self.problems.append(f"two elements have the id {attributes['id']!r}")
            self.ids.add(attributes["id"])
        if "data-filter" in attributes:
            self.filters.add(attributes["data-filter"])
        if "src" in attributes or tag == "link":
            self.problems.append(f"<{tag}> needs another file")
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> ends nothing")


text = Path(__file__).with_name("index.html").read_text(encoding="utf-8")
page = Page()
page.feed(text)
page.close()
problems = page.problems + [f"<{tag}> is never ended" for tag in page.open]

asked = set(re.findall(r'element\("([^"]+)"\)', text))
problems += [f"no element {name!r}" for name in sorted(asked - page.ids)]
problems += [f"no filter {name!r}" for name in ("all", "active", "done") if name not in page.filters]
for function in ("add", "toggle", "remove", "visible", "load", "save"):
    if not re.search(rf"^    {function}\(", text, re.MULTILINE):
        problems.append(f"no function Todos.{function}")
if "localStorage" not in text:
    problems.append("the list is not stored")

if problems:
    sys.exit("\n".join(problems))
print(f"ok  {len(page.ids)} ids, {len(page.filters)} filters, one file (structure only: Node is needed to run it)")
