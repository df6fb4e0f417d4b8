#!/usr/bin/env python3
"""A small web service that says how it is.

    python3 app.py [--host 127.0.0.1] [--port 5000]

    GET /health   200 {"status": "ok", "uptime_seconds": 12.3, "framework": "flask"}
    otherwise     404 {"error": "not found"}

It uses Flask where Flask is installed, and nothing but the standard library
where it is not. Either way `app` is an ordinary WSGI application, so any WSGI
server can serve it.
"""

import argparse
import json
import time
from wsgiref.simple_server import make_server

try:
    from flask import Flask, jsonify
except ImportError:
    Flask = None

STARTED = time.monotonic()


def health() -> dict:
    """What the service says of itself."""
    return {
        "status": "ok",
        "uptime_seconds": round(time.monotonic() - STARTED, 3),
        "framework": "flask" if Flask else "standard library",
    }


if Flask:
    app = Flask(__name__)

    @app.get("/health")
    def show_health():
        return jsonify(health())

    @app.errorhandler(404)
    def not_found(_error):
        return jsonify(error="not found"), 404

else:

    def app(environ, start_response):
        """The same service as a plain WSGI function."""
        known = environ["PATH_INFO"] == "/health"
        if known and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            status, answer = "200 OK", health()
        elif known:
            status, answer = "405 Method Not Allowed", {"error": "method not allowed"}
        else:
            status, answer = "404 Not Found", {"error": "not found"}
        body = json.dumps(answer).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def main() -> None:
    parser = argparse.ArgumentParser(description="A web service that says how it is.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5000, help="0 takes any free port")
    options = parser.parse_args()

    with make_server(options.host, options.port, app) as server:
        print(f"listening on http://{options.host}:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()
