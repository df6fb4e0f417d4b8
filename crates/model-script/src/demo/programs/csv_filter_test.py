"""Tests of csv_filter, on the sample data.

    python3 -m unittest test_csv_filter
"""

import csv
import subprocess
import sys
import unittest
from pathlib import Path

from csv_filter import Condition, Mistake, select

HERE = Path(__file__).resolve().parent
SAMPLE = HERE / "products.csv"


def names(*conditions):
    """The names of the sample products that meet the conditions."""
    with open(SAMPLE, newline="", encoding="utf-8") as file:
        rows = select(csv.DictReader(file), [Condition.parse(text) for text in conditions])
    return [row["name"] for row in rows]


class FilterTest(unittest.TestCase):
    def test_without_conditions_every_row_is_kept(self):
        self.assertEqual(len(names()), 7)

    def test_text_is_compared_as_text(self):
        self.assertEqual(names("category=paper"), ["Notebook", "Sketch pad"])

    def test_prices_are_compared_as_numbers(self):
        self.assertEqual(names("price<20"), ["Notebook", "Pencil", "Ink bottle", "Sketch pad"])

    def test_equal_numbers_may_be_written_differently(self):
        self.assertEqual(names("price=12"), ["Ink bottle"])

    def test_every_condition_must_be_met(self):
        self.assertEqual(names("category=writing", "stock != 400", "price >= 30"), ["Fountain pen"])

    def test_an_unknown_column_is_a_mistake(self):
        with self.assertRaisesRegex(Mistake, "no column 'colour'"):
            names("colour=red")

    def test_a_condition_without_a_comparison_is_a_mistake(self):
        with self.assertRaisesRegex(Mistake, "not a condition"):
            names("price")

    def test_the_command_prints_csv(self):
        command = [sys.executable, HERE / "csv_filter.py", SAMPLE, "name=Marker set, 12 colours"]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertEqual(
            result.stdout,
            'name,category,price,stock\n"Marker set, 12 colours",writing,21.50,33\n',
        )


if __name__ == "__main__":
    unittest.main()
