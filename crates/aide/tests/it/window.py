"""A window for tests: says where its parts are and what happens to them."""
import sys
import tkinter

root = tkinter.Tk()
root.title("A window for tests")
root.geometry("+60+50")
root.configure(background="#ff0000")


def say(*words):
    print(*words, flush=True)


field = tkinter.Frame(root, background="#12c834", width=120, height=90)
button = tkinter.Button(root, text="Press", command=lambda: say("pressed"))
entry = tkinter.Entry(root, width=40)
canvas = tkinter.Canvas(root, background="#0000ff", width=300, height=200)
for part in (field, button, entry, canvas):
    part.pack(padx=10, pady=10)


def place(name, part):
    say("at", name, part.winfo_rootx(), part.winfo_rooty(), part.winfo_width(), part.winfo_height())


def mouse(what):
    return lambda event: say(what, event.x, event.y, "state", event.state & 0xFF)


for number in (1, 2, 3, 4, 5):
    canvas.bind("<Button-%d>" % number, mouse("down%d" % number))
canvas.bind("<ButtonRelease-1>", mouse("up1"))
canvas.bind("<B1-Motion>", mouse("drag"))
canvas.bind("<Motion>", mouse("motion"))
canvas.bind("<Double-Button-1>", mouse("double"))
canvas.bind("<Triple-Button-1>", mouse("triple"))
root.bind_all("<Key>", lambda event: say("key", event.keysym, "state", event.state & 0xFF))
root.bind_all("<KeyRelease>", lambda event: say("released", event.keysym, "state", event.state & 0xFF))
entry.bind("<Return>", lambda event: say("text", ascii(entry.get())))


def change():
    root.after(int(sys.argv[1]) if len(sys.argv) > 1 else 300, lambda: field.configure(background="#c812b4"))


canvas.bind("<Button-3>", lambda event: (change(), say("down3")))


def ready(before=None):
    # Shown, and placed by the window manager with its frame around it.
    now = (root.winfo_rootx(), root.winfo_rooty(), canvas.winfo_width())
    if not root.winfo_viewable() or now[1] <= 50 or now != before:
        root.after(50, ready, now)
        return
    for name, part in (("field", field), ("button", button), ("entry", entry), ("canvas", canvas)):
        place(name, part)
    entry.focus_force()


entry.bind("<FocusIn>", lambda event: say("ready"))
root.after(50, ready)
root.mainloop()
