"""Web servers to be looked at: a well-behaved one on port 3000, a hostile one on 3001."""

import base64
import hashlib
import http.server
import json
import os
import socket
import threading
import time

PAGE = """<!doctype html><title>app</title><body><p id="said">nothing</p>
<script src="/script.js"></script>"""

SCRIPT = """
window.socket = new WebSocket(`ws://${location.host}/socket`);
socket.onopen = () => socket.send("hello");
socket.onmessage = (event) => { document.querySelector("#said").textContent = event.data; };
"""

HOSTILE = [
    ("Set-Cookie", "theirs=1; Domain=localhost; Path=/"),
    ("Set-Cookie", "cofferdam_view=stolen; Path=/"),
    ("Strict-Transport-Security", "max-age=31536000; includeSubDomains"),
    ("Clear-Site-Data", '"*"'),
    ("Content-Security-Policy", "sandbox allow-scripts allow-same-origin"),
    ("Access-Control-Allow-Origin", "*"),
    ("Service-Worker-Allowed", "/"),
    ("X-Count", "7"),
]


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, text="", headers=()):
        body = text.encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def told(self, length=0):
        headers = {name.lower(): value for name, value in self.headers.items()}
        told = {"method": self.command, "path": self.path, "headers": headers, "length": length}
        self.say(200, json.dumps(told), [("Content-Type", "application/json")])

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/":
            self.say(200, PAGE, [("Content-Type", "text/html")])
        elif path == "/script.js":
            self.say(200, SCRIPT, [("Content-Type", "text/javascript")])
        elif path == "/redirect":
            self.say(302, "", [("Location", "http://localhost:3000/landed?x=1")])
        elif path == "/escape":
            self.say(307, "", [("Location", "../../../../../../api/v1/jobs")])
        elif path == "/away":
            self.say(307, "", [("Location", "http://" + self.headers["X-Forwarded-Host"] + "/api")])
        elif path == "/hostile":
            self.say(200, "<p>", HOSTILE)
        elif path == "/stream":
            self.stream()
        elif path == "/socket":
            self.socket()
        else:
            self.told()

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        length = left
        while left:
            left -= len(self.rfile.read(min(left, 65536)))
        self.told(length)

    do_PUT = do_POST

    def do_DELETE(self):
        self.told()

    def stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"3\r\none\r\n")
        while not os.path.exists("go"):
            time.sleep(0.02)
        self.wfile.write(b"3\r\ntwo\r\n0\r\n\r\n")

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.wfile.flush()
        # Short messages, each whole, are given back as they came.
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                break
            mask = self.rfile.read(4)
            sent = self.rfile.read(head[1] & 127)
            text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(sent))
            self.wfile.write(bytes([0x80 | head[0] & 15, len(text)]) + text)
            self.wfile.flush()
        self.close_connection = True


def hostile(connection):
    path = connection.recv(65536).split(b" ")[1].decode()
    ok = b"HTTP/1.1 200 OK\r\n"
    if path == "/endless":
        connection.sendall(ok)
        for number in range(10_000_000):
            connection.sendall(b"X-%d: %s\r\n" % (number, b"a" * 1000))
    elif path == "/many":
        connection.sendall(ok + b"".join(b"X-%d: a\r\n" % n for n in range(5000)) + b"\r\n")
    elif path == "/huge":
        connection.sendall(ok + b"Content-Length: 10737418240\r\n\r\nabc")
    elif path == "/garbage":
        connection.sendall(ok + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\nabc\r\n")
    elif path == "/inject":
        connection.sendall(ok + b"X-A: b\rSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n")
    elif path == "/switch":
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
    elif path == "/twice":
        connection.sendall(ok + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde")
    elif path == "/noise":
        connection.sendall(os.urandom(1 << 20))
    elif path == "/never":
        open("never", "w").close()
        time.sleep(3600)
    connection.close()


def listen():
    listener = socket.create_server(("127.0.0.1", 3001))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=hostile, args=(connection,), daemon=True).start()


server = http.server.ThreadingHTTPServer(("0.0.0.0", 3000), App)
threading.Thread(target=listen, daemon=True).start()
open("ready", "w").close()
server.serve_forever()
