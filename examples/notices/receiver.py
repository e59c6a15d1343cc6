#!/usr/bin/env python3
"""A receiver of Bookahead's webhooks: checks the signature, drops repetitions, prints each notice.

Usage: receiver.py SECRET_FILE [PORT]        (port 0: any free one, which is printed first)
"""

import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

MOST_BYTES = 65536  # a notice has less than 4 KiB
MOST_AGE = 300  # seconds; an older request is a copy that somebody has kept

secret = open(sys.argv[1], "rb").read().strip()
seen = set()  # keep it in a database: notices are repeated for up to a day


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > MOST_BYTES:
            return self.answer(413)
        body = self.rfile.read(length)
        timestamp = self.headers.get("Bookahead-Timestamp", "")
        signed = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest("sha256=" + signed, self.headers.get("Bookahead-Signature", "")):
            return self.answer(403)
        if abs(time.time() - int(timestamp)) > MOST_AGE:
            return self.answer(403)
        notice = json.loads(body)
        if notice["id"] not in seen:
            print(json.dumps(notice), flush=True)  # act on it before it counts as seen
            seen.add(notice["id"])
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8080), Receiver)
print(f"http://127.0.0.1:{server.server_port}/hooks/", flush=True)
server.serve_forever()
