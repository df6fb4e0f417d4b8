# Run once in each ipykernel, before the first cell, with names of its own.
import sys


def bound(stream):
    # Output goes on after 10 ms and not 200: people watch, and the fence waits.
    stream.flush_interval = 0.01
    # What is printed waits in memory until it is sent, and a flood would fill that and
    # keep the kernel busy long after it was interrupted. So it waits for itself.
    write, held = stream.write, 0

    def bounded(text):
        nonlocal held
        held += len(text)
        if held > 1 << 20:
            held = 0
            stream.flush()
        return write(text)

    stream.write = bounded


for stream in sys.stdout, sys.stderr:
    bound(stream)
