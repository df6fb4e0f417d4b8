#!/usr/bin/env python3
"""Says hello: to the world, or to whoever is named.

    python3 hello.py
    python3 hello.py Ada
"""

import sys


def greeting(name: str = "world") -> str:
    """The words to greet somebody with."""
    return f"Hello, {name}!"


if __name__ == "__main__":
    print(greeting(*sys.argv[1:2]))
