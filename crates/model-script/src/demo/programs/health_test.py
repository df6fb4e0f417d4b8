"""Asks the service over HTTP, on a port of its own.

    python3 -m unittest test_app
"""

import json
import threading
import unittest
import urllib.error
import urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server

from app import app

# Straight to the service, whatever proxy the environment names.
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        """Keeps the log of requests out of the test's output."""


class HealthTest(unittest.TestCase):
    def setUp(self):
        self.server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.05])
        self.thread.start()

    def tearDown(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def test_a_running_service_is_healthy(self):
        with ask(f"{self.address}/health", timeout=10) as answer:
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers.get_content_type(), "application/json")
            self.assertEqual(json.load(answer)["status"], "ok")

    def test_an_unknown_path_is_not_found(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            ask(f"{self.address}/elsewhere", timeout=10)
        self.assertEqual(refused.exception.code, 404)
        self.assertEqual(json.load(refused.exception), {"error": "not found"})
        refused.exception.close()

    def test_health_cannot_be_posted_to(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            ask(f"{self.address}/health", data=b"", timeout=10)
        self.assertEqual(refused.exception.code, 405)
        refused.exception.close()


if __name__ == "__main__":
    unittest.main()
