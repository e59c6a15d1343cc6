#!/usr/bin/env python3
"""A stand-in for Open OnDemand, to test the app without one.

Usage: portal.py --app DIR [--port PORT] [--prefix /pun/sys/bookahead] [--set-header 'NAME: VALUE']

Prints its port, and ends at SIGTERM or when its standard input is closed. `GET /login` sets the session cookie of the
portal and redirects to the app. Without that cookie every other request is refused with 401.

It does what the parts of Open OnDemand do to a request:
- Apache: checks the session, passes all headers on, and sets X-Forwarded-*
- nginx: drops headers with an underscore, and sets X-Sendfile-Type and X-Accel-Mapping
- Passenger: sets SCRIPT_NAME, PATH_INFO (percent-encoded, as it came) and REQUEST_URI; connects to the app through a
  Unix socket; calls it for one request at a time, but sends as many requests as it announces; half-closes the socket
  after a body, or when the browser has gone
"""

import argparse
import importlib.util
import json
import os
import pwd
import secrets
import select
import signal
import socket
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Nothing is written into the folder of the app.
sys.dont_write_bytecode = True

COOKIE = "ondemand-session"
BLOCK = 64 * 1024
# Seconds for a browser to send its request.
REQUEST_TIMEOUT = 60


def advertise_sockets(name):
    """As in Passenger's loader, whose description of the socket the app changes."""
    document = {"sockets": [{"name": "main", "address": "unix:" + name, "protocol": "session", "concurrency": 1}]}
    with open(properties_file(), "w", encoding="utf-8") as file:
        json.dump(document, file)


def properties_file():
    return os.path.join(os.environ["PASSENGER_SPAWN_WORK_DIR"], "response", "properties.json")


class Process:
    """The process of the app: one thread at a time is in its code, unless it takes the socket."""

    def __init__(self, folder):
        with tempfile.TemporaryDirectory() as work:
            os.environ["PASSENGER_SPAWN_WORK_DIR"] = work
            os.mkdir(os.path.join(work, "response"))
            spec = importlib.util.spec_from_file_location("passenger_wsgi", os.path.join(folder, "passenger_wsgi.py"))
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            advertise_sockets("none")
            with open(properties_file(), encoding="utf-8") as file:
                self.concurrency = json.load(file)["sockets"][0]["concurrency"]
        self.application = module.application
        self.turn = threading.Lock()
        self.sessions = threading.Semaphore(self.concurrency or 1_000_000)

    def serve(self, environ, client):
        def hijack(do_it=False):
            if do_it:
                environ["passenger.hijacked_socket"] = client
                return client
            return None

        environ.update({
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.errors": sys.stderr, "wsgi.multithread": False,
            "wsgi.multiprocess": True, "wsgi.run_once": False, "wsgi.input": client.makefile("rb", 512),
            "passenger.hijack": hijack,
        })
        with self.turn:
            result = self.application(environ, lambda status, headers, _=None: self.begin(client, status, headers))
            if "passenger.hijacked_socket" in environ:
                return
            try:
                for piece in result:
                    client.sendall(piece)
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            finally:
                if hasattr(result, "close"):
                    result.close()
                client.close()

    @staticmethod
    def begin(client, status, headers):
        lines = [f"HTTP/1.1 {status}", "Connection: close"] + [f"{name}: {value}" for name, value in headers]
        client.sendall("\r\n".join(lines + ["", ""]).encode("latin-1"))


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = REQUEST_TIMEOUT

    def handle_any(self):
        self.close_connection = True
        path = self.path.partition("?")[0]
        if path == "/login":
            cookie = f"{COOKIE}={self.server.session}; HttpOnly; SameSite=Lax; Path=/"
            return self.say(302, "", {"Set-Cookie": cookie, "Location": self.server.prefix + "/"})
        if f"{COOKIE}={self.server.session}" not in [one.strip() for one in self.headers.get("Cookie", "").split(";")]:
            return self.say(401, "the portal does not know you; open /login\n")
        if path != self.server.prefix and not path.startswith(self.server.prefix + "/"):
            print(f"outside of the app: {self.command} {self.path}", file=sys.stderr, flush=True)
            return self.say(404, "the portal has no such page\n")
        with self.server.process.sessions:
            return self.pass_on()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any

    def say(self, status, text, headers=None):
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain", "Connection": "close", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def environ(self):
        path, _, query = self.path.partition("?")
        user = pwd.getpwuid(os.geteuid()).pw_name
        headers = [(name, value) for name, value in self.headers.items() if "_" not in name]
        ours = {
            "X-Forwarded-Proto": "http", "X-Forwarded-User": user, "X-Forwarded-Escaped-Uri": path,
            "X-Forwarded-For": self.client_address[0], "X-Forwarded-Host": self.headers.get("Host", ""),
            "X-Sendfile-Type": "X-Accel-Redirect", "X-Accel-Mapping": "/=/sendfile", **self.server.set_headers,
        }
        replaced = {name.lower() for name in ours}
        environ = {
            "REQUEST_METHOD": self.command, "REQUEST_URI": self.path, "SCRIPT_NAME": self.server.prefix,
            "PATH_INFO": path[len(self.server.prefix):] or "/", "QUERY_STRING": query, "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_NAME": "localhost", "SERVER_PORT": str(self.server.server_port), "REMOTE_ADDR": "127.0.0.1",
        }
        for name, value in [pair for pair in headers if pair[0].lower() not in replaced] + list(ours.items()):
            variable = name.upper().replace("-", "_")
            if variable not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
                variable = "HTTP_" + variable
            environ[variable] = environ[variable] + ", " + value if variable in environ else value
        return environ

    def pass_on(self):
        front, back = socket.socketpair()
        with front:
            environ = self.environ()
            threading.Thread(target=self.server.process.serve, args=(environ, back), daemon=True).start()
            del back
            try:
                left = int(self.headers.get("Content-Length") or 0)
                has_body = left > 0
                while left:
                    piece = self.rfile.read(min(BLOCK, left))
                    if not piece:
                        return
                    front.sendall(piece)
                    left -= len(piece)
                if has_body:
                    front.shutdown(socket.SHUT_WR)
                self.relay(front)
            except OSError:
                pass

    def relay(self, front):
        """Sends the answer on as it arrives."""
        poller = select.poll()
        poller.register(front, select.POLLIN)
        poller.register(self.connection, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if front.fileno() in ready:
                piece = front.recv(BLOCK)
                if not piece:
                    return
                self.connection.sendall(piece)
            elif self.connection.fileno() in ready:
                # Either the browser has gone, or it sends what this portal does not read.
                poller.unregister(self.connection)
                if not self.connection.recv(1):
                    front.shutdown(socket.SHUT_WR)

    def log_message(self, *arguments):
        pass


def arguments():
    parser = argparse.ArgumentParser(description="A stand-in for Open OnDemand.")
    parser.add_argument("--app", required=True, help="folder with passenger_wsgi.py")
    parser.add_argument("--port", type=int, default=0, help="default: any free port")
    parser.add_argument("--prefix", default="/pun/sys/bookahead")
    parser.add_argument("--set-header", action="append", default=[], metavar="'NAME: VALUE'",
                        help="header that the portal sets in each request, in place of the browser's")
    return parser.parse_args()


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Front)
    server.daemon_threads = True
    server.prefix = options.prefix
    server.session = secrets.token_hex(16)
    server.set_headers = dict((part.strip() for part in one.split(":", 1)) for one in options.set_header)
    server.process = Process(options.app)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # Ends with the process that started it.
    while sys.stdin.buffer.read(BLOCK):
        pass


if __name__ == "__main__":
    main()
