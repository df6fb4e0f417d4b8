#!/usr/bin/env python3
"""Prints the rows of a CSV file that meet every condition.

    python3 csv_filter.py products.csv 'price<20' 'category=writing'

A condition is a column, one of = != < <= > >=, and a value. Values are compared
as numbers where both sides are numbers, and as text otherwise. The output is
CSV again, with the same header.
"""

import csv
import operator
import re
import sys
from dataclasses import dataclass

COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CONDITION = re.compile(
    r"\s*(?P<column>[^=!<>]+?)\s*(?P<comparison>!=|<=|>=|=|<|>)\s*(?P<value>.*?)\s*"
)


class Mistake(Exception):
    """Something the user can put right."""


@dataclass(frozen=True)
class Condition:
    column: str
    comparison: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "Condition":
        match = CONDITION.fullmatch(text)
        if match is None:
            raise Mistake(f"not a condition: {text!r}; write it like 'price<20'")
        return cls(**match.groupdict())

    def accepts(self, row: dict) -> bool:
        compare = COMPARISONS[self.comparison]
        return compare(row[self.column], self.value)


def select(rows: csv.DictReader, conditions: list) -> list:
    """The rows that meet every condition, in their order."""
    for condition in conditions:
        if condition.column not in (rows.fieldnames or []):
            known = ", ".join(rows.fieldnames or [])
            raise Mistake(f"no column {condition.column!r}; there are: {known}")
    return [row for row in rows if all(condition.accepts(row) for condition in conditions)]


def main(arguments: list) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return
    path, *texts = arguments
    conditions = [Condition.parse(text) for text in texts]
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        chosen = select(rows, conditions)
        output = csv.DictWriter(sys.stdout, rows.fieldnames or [], lineterminator="\n")
        output.writeheader()
        output.writerows(chosen)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Mistake, OSError) as problem:
        sys.exit(f"csv_filter: {problem}")
