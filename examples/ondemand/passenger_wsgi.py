"""The Bookahead page inside Open OnDemand: a reverse proxy that adds the token of the user.

Runs as the user, in the user's own nginx (PUN), below a prefix such as /pun/sys/bookahead. Relies on the portal to
authenticate the browser, and on the service to check the token. It passes on only the paths and headers that the page
needs, keeps nothing between requests, and never sees other users.

Passenger calls `application` for one request at a time, and Open OnDemand starts one process per user and app. A stream
of events would block every other request. Therefore each request takes its socket (`passenger.hijack`) and is answered
in a thread, and `announce_threads` tells Passenger that it may send several requests at once.
"""

import base64
import html
import http.client
import json
import os
import pwd
import re
import select
import socket
import ssl
import stat
import sys
import threading
import time
from urllib.parse import quote, unquote, urlsplit

HERE = os.path.dirname(os.path.abspath(__file__))
# The first one that exists is read. A file below /etc survives updates of the app.
CONFIG_FILES = ("/etc/ood/config/apps/bookahead/bookahead.conf", os.path.join(HERE, "bookahead.conf"))

DEFAULTS = {
    "BOOKAHEAD_URL": "",
    "BOOKAHEAD_CA": "",
    "BOOKAHEAD_TOKEN_FILE": "~/.config/bookahead/token",
    "BOOKAHEAD_TOKEN_HEADER": "",
    "BOOKAHEAD_CONNECT_TIMEOUT": "5",
    # Longer than the page waits (70 s), so that a slow batch system is not taken for a service that is down.
    "BOOKAHEAD_ANSWER_TIMEOUT": "75",
    # Four times the default limit of the service, which has the last word.
    "BOOKAHEAD_MOST_BODY": "4194304",
    "BOOKAHEAD_EVENTS": "auto",
}

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
READING = ("GET", "HEAD")

# Other headers of the browser stay here: its cookies belong to the portal, and names such as Bookahead-User are not
# for browsers to set.
REQUEST_HEADERS = (
    "Accept", "Accept-Encoding", "Accept-Language", "Bookahead-Clock-Speed", "Idempotency-Key", "If-Match",
    "If-Modified-Since", "If-None-Match", "Last-Event-ID", "Range", "Traceparent", "User-Agent", "X-Bookahead-Page",
)

# Other headers of the service stay here: cookies, hop-by-hop headers, CORS permissions for the portal's origin, and
# X-Accel-Redirect, with which the nginx of the user would send any file of the user.
RESPONSE_HEADERS = frozenset((
    "accept-ranges", "allow", "cache-control", "content-disposition", "content-encoding", "content-language",
    "content-length", "content-range", "content-security-policy", "content-type", "etag", "last-modified",
    "referrer-policy", "retry-after", "vary", "x-accel-buffering", "x-content-type-options",
))

# For answers that bring no policy of their own, such as the output of a job opened in a tab of its own: on the
# portal's origin a script could act as the user everywhere in the portal.
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

BLOCK = 64 * 1024
# The service accepts tokens of up to 8192 characters.
MOST_TOKEN = 8192
# Clocks may differ by that much, as at the service.
CLOCK_SKEW = 30
# A page makes fewer than ten requests at once. More threads than this help no one.
MOST_THREADS = 64
# Seconds for which a browser may accept no data before it counts as gone.
WRITE_TIMEOUT = 60
# Seconds between checks of a watcher whether its stream has ended.
WATCH_INTERVAL = 1
# Seconds without data after which the system checks the connection of a stream. The service sends every 15 s.
KEEPALIVE_AFTER = 60
# Bytes of a refused body that are read and dropped. Unread data would make the socket lose the answer.
MOST_DROPPED = 16 * 1024 * 1024
# Seconds without any of that data. The nginx of the user has the whole body before it calls.
DROP_TIMEOUT = 5


class Fault(Exception):
    """An answer of the proxy itself: what happened, and what to do about it."""

    def __init__(self, status, code, title, cause, hint):
        super().__init__(f"{title}: {cause}")
        self.status, self.code, self.title, self.cause, self.hint = status, code, title, cause, hint


def misconfigured(cause, hint="The operator of the portal should correct the settings; see README.md of the app."):
    return Fault("500 Internal Server Error", "internal", "Bookahead is not configured", cause, hint)


# --- settings ---------------------------------------------------------------------------------------------------------


class Settings:
    """Environment variables, then the configuration file, then defaults."""

    def __init__(self, environment=os.environ, files=CONFIG_FILES):
        values = dict(DEFAULTS)
        values.update(read_config(files))
        values.update({name: environment[name] for name in DEFAULTS if environment.get(name)})
        if not values["BOOKAHEAD_URL"]:
            raise misconfigured("BOOKAHEAD_URL is not set", f"Set it to the address of the service, in {files[0]}.")
        self.upstream = Upstream(values)
        self.token_file = values["BOOKAHEAD_TOKEN_FILE"]
        self.token_header = values["BOOKAHEAD_TOKEN_HEADER"]
        if not re.fullmatch(r"[A-Za-z0-9-]*", self.token_header):
            raise misconfigured(
                f"BOOKAHEAD_TOKEN_HEADER is {self.token_header!r}: nginx drops headers with other characters than "
                "letters, digits and hyphens")
        self.most_body = number(values, "BOOKAHEAD_MOST_BODY", int)
        self.events = values["BOOKAHEAD_EVENTS"]
        if self.events not in ("auto", "on", "off"):
            raise misconfigured(f"BOOKAHEAD_EVENTS is {self.events!r}; use auto, on or off")


def read_config(files):
    for path in files:
        try:
            with open(path, encoding="utf-8") as file:
                return dict(parse_config(path, file))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise misconfigured(f"{path} cannot be read: {error}") from error
    return {}


def parse_config(path, lines):
    for count, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise misconfigured(f"{path}, line {count}: expected NAME=VALUE")
        if name not in DEFAULTS:
            raise misconfigured(f"{path}, line {count}: unknown setting '{name}'; known are {', '.join(DEFAULTS)}")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if value:
            yield name, value


def number(values, name, kind):
    try:
        value = kind(values[name])
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise misconfigured(f"{name} is {values[name]!r}; it must be a number above 0")
    return value


# --- the service ------------------------------------------------------------------------------------------------------


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Upstream:
    """The address of the service and how to connect to it."""

    def __init__(self, values):
        self.url = values["BOOKAHEAD_URL"].rstrip("/")
        self.connect_timeout = number(values, "BOOKAHEAD_CONNECT_TIMEOUT", float)
        self.answer_timeout = number(values, "BOOKAHEAD_ANSWER_TIMEOUT", float)
        self.is_unix = self.url.startswith("unix:")
        self.prefix = ""
        self.context = None
        if not self.is_unix:
            self.parse(values["BOOKAHEAD_CA"])

    def parse(self, authority):
        try:
            parts = urlsplit(self.url)
            self.host, self.port, self.prefix = parts.hostname, parts.port, parts.path
        except ValueError as error:
            raise misconfigured(f"BOOKAHEAD_URL is {self.url!r}: {error}") from error
        if parts.scheme not in ("https", "http") or not self.host or parts.query or parts.fragment or parts.username:
            raise misconfigured(
                f"BOOKAHEAD_URL is {self.url!r}; use https://HOST, http://127.0.0.1:PORT or unix:/PATH")
        if parts.scheme == "https":
            self.context = tls_context(authority)
        elif self.host not in ("localhost", "127.0.0.1", "::1"):
            raise misconfigured(
                f"BOOKAHEAD_URL is {self.url!r}: tokens would travel without encryption; use https beyond this machine")

    def connect(self):
        if self.is_unix:
            connection = UnixConnection(self.url[len("unix:"):], self.connect_timeout)
        elif self.context:
            connection = http.client.HTTPSConnection(
                self.host, self.port, timeout=self.connect_timeout, context=self.context)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=self.connect_timeout)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            cause = f"the certificate of {self.url} is not accepted: {error.verify_message.rstrip('.')}"
            hint = "The operator of the portal should check BOOKAHEAD_CA and the name in BOOKAHEAD_URL."
            raise unreachable(cause, hint) from error
        except OSError as error:
            raise unreachable(f"{self.url} cannot be reached: {error.strerror or error}") from error
        connection.sock.settimeout(self.answer_timeout)
        return connection


def tls_context(authority):
    try:
        # With a file, only the authorities in it are trusted.
        context = ssl.create_default_context(cafile=authority or None)
    except OSError as error:
        raise misconfigured(f"BOOKAHEAD_CA, {authority}, cannot be used: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def unreachable(cause, hint="Try again in a minute. If it stays so, tell the operator of the portal."):
    return Fault("502 Bad Gateway", "unavailable", "The Bookahead service cannot be reached", cause, hint)


# --- the token --------------------------------------------------------------------------------------------------------


def credential(settings, environ):
    """The header that identifies the user."""
    if settings.token_header:
        variable = "HTTP_" + settings.token_header.upper().replace("-", "_")
        token = environ.get(variable, "").strip()
        if token.lower().startswith("bearer "):
            token = token[len("bearer "):].strip()
        # Apache sends this text for a variable that is not set.
        if token in ("", "(null)"):
            raise no_token(
                f"the portal sent no token in the header {settings.token_header}",
                "Sign out of the portal and in again. If that does not help, tell the operator of the portal.")
        where = f"the header {settings.token_header}"
    else:
        where = token_path(settings.token_file)
        token = read_token(where, optional=settings.upstream.is_unix)
        if token is None:
            # On a Unix socket the service sees the account. A caller may name itself, which makes the page show it.
            return "Bookahead-User", quote(account())
    if len(token) > MOST_TOKEN or not re.fullmatch(r"[!-~]+", token):
        raise no_token(f"{where} does not contain a token", "A token is one word of printable characters. Renew it.")
    check_expiry(token, where)
    return "Authorization", f"Bearer {token}"


def no_token(cause, hint):
    return Fault("403 Forbidden", "forbidden", "No valid Bookahead token", cause, hint)


def account():
    return pwd.getpwuid(os.geteuid()).pw_name


def token_path(template):
    return os.path.expanduser(template.replace("{user}", account()) if "{user}" in template else template)


def read_token(path, optional):
    """Reads the file for each request, so that a renewed token is used at once."""
    try:
        # Not blocked by a pipe in place of the file. The checks are about the file that was opened.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if optional:
            return None
        hint = f"Save your token there, readable by you only: chmod 600 {path}"
        raise no_token(f"there is no file {path}", hint) from None
    except OSError as error:
        raise no_token(f"{path} cannot be read: {error.strerror}", "Check the file and its folder.") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise no_token(f"{path} is not a file", "Save your token there.")
        if status.st_uid != os.geteuid():
            raise no_token(f"{path} belongs to another account", "Remove it, and save your own token there.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):03o}"
            raise no_token(
                f"others have access to {path} (mode {mode})",
                f"Run: chmod 600 {path}. If others may have read the token, get a new one.")
        return file.read(MOST_TOKEN + 2).decode("latin-1").strip()


def check_expiry(token, where):
    """The service checks tokens. This only explains the usual case, in which the page would ask for another token."""
    try:
        payload = token.split(".")[1]
        expires = float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return
    if expires + CLOCK_SKEW < time.time():
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(expires))
        raise no_token(f"the token in {where} expired at {when}", "Renew the token, then reload this page.")


# --- requests ---------------------------------------------------------------------------------------------------------


class Target:
    """Path and query of a request, percent-encoded, without the prefix of the app."""

    def __init__(self, environ):
        self.base = environ.get("SCRIPT_NAME", "").rstrip("/")
        uri, _, query = environ.get("REQUEST_URI", "").partition("?")
        if uri == self.base or uri.startswith(self.base + "/"):
            self.path, self.query = uri[len(self.base):], query
        else:
            self.path = quote(environ.get("PATH_INFO", "").encode("latin-1"), safe="/:@!$&'()*+,;=~-._")
            self.query = environ.get("QUERY_STRING", "")
        # Links to an app have no slash at the end. The files of the page are relative to it.
        self.needs_slash = not self.path

    def check(self):
        plain = re.fullmatch(r"[!-~]*", self.path + self.query)
        decoded = unquote(self.path, encoding="latin-1")
        tricky = re.search(r"[\x00-\x1f\x7f\\]|//|/\.{1,2}(/|$)", decoded) or decoded.count("/") != self.path.count("/")
        known = self.path in ("/", "/docs", "/openapi.json") or self.path.startswith(("/dashboard/", "/v1/"))
        if not plain or tricky or not known:
            cause = f"there is no page {self.path[:200]} in this app"
            raise Fault("404 Not Found", "not-found", "Not found", cause, f"The page of Bookahead is {self.base}/")

    @property
    def whole(self):
        return self.path + ("?" + self.query if self.query else "")


def check_request(environ, target):
    method = environ["REQUEST_METHOD"]
    if method not in METHODS:
        raise Fault("405 Method Not Allowed", "method-not-allowed", "Method not allowed",
                    f"{method} is not passed on", f"Use one of {', '.join(METHODS)}.")
    target.check()
    if method in READING:
        return
    if "HTTP_X_BOOKAHEAD_PAGE" not in environ:
        # The proxy adds the credential itself, and the cookie of the portal may come with a request that another
        # site's page has made. Such a page cannot set this header: the browser asks first, with OPTIONS.
        raise Fault("403 Forbidden", "forbidden", "Refused",
                    "a request that changes something needs the header X-Bookahead-Page",
                    "Use the page of Bookahead, or the command line with your token.")
    if target.path.rstrip("/") == "/v1/session":
        raise Fault("403 Forbidden", "forbidden", "The portal signs you in",
                    "signing in and out is not possible here: the portal identifies you",
                    "Sign out of the portal instead. If Bookahead does not know you, renew your token and reload.")


def body_length(environ, settings):
    """The announced length, None without a body. Bodies of unknown length are refused: servers differ in whether they
    pass on the bytes or the chunks, and the page always announces the length."""
    length = environ.get("CONTENT_LENGTH", "")
    if "HTTP_TRANSFER_ENCODING" in environ:
        raise Fault("411 Length Required", "bad-request", "Length required",
                    "the request has a body without Content-Length", "Send the length of the body.")
    if not length:
        return None
    if not re.fullmatch(r"[0-9]{1,15}", length):
        raise Fault("400 Bad Request", "bad-request", "Bad request", "Content-Length is not a number",
                    "Send the length of the body in bytes.")
    if int(length) > settings.most_body:
        raise Fault("413 Content Too Large", "too-large", "Too large",
                    f"the body has {length} bytes, and at most {settings.most_body} are passed on",
                    "Send less at once.")
    return int(length)


def blocks(source, length):
    while length:
        block = source.read(min(BLOCK, length))
        if not block:
            raise Fault("400 Bad Request", "bad-request", "Bad request", "the body is shorter than announced",
                        "Repeat the request.")
        length -= len(block)
        yield block


def send(connection, prefix, environ, target, length, identity):
    """Sends the request and returns the answer, whose body is still to be read."""
    connection.putrequest(environ["REQUEST_METHOD"], prefix + target.whole, skip_accept_encoding=True)
    for name in REQUEST_HEADERS:
        value = environ.get("HTTP_" + name.upper().replace("-", "_"))
        if value is not None:
            connection.putheader(name, value.encode("latin-1"))
    if length is not None:
        connection.putheader("Content-Length", str(length))
    if environ.get("CONTENT_TYPE"):
        connection.putheader("Content-Type", environ["CONTENT_TYPE"].encode("latin-1"))
    connection.putheader(*identity)
    connection.putheader("Connection", "close")
    connection.endheaders()
    try:
        for block in blocks(environ["wsgi.input"], length or 0):
            connection.send(block)
    except (BrokenPipeError, ConnectionResetError):
        # The service refused before it had read everything, and has said why.
        pass
    return connection.getresponse()


def answer_headers(response, target, upstream):
    headers = []
    for name, value in response.getheaders():
        low = name.lower()
        if low in RESPONSE_HEADERS or low.startswith("bookahead-"):
            headers.append((name, value))
        elif low == "location":
            headers += [("Location", moved) for moved in relocated(value, target, upstream)]
    if response.status == 304:
        # The browser would add headers to the copy that it has.
        return headers
    present = {name.lower() for name, _ in headers}
    for name, value in (("Content-Security-Policy", SANDBOX), ("X-Content-Type-Options", "nosniff")):
        if name.lower() not in present:
            headers.append((name, value))
    return headers


def relocated(location, target, upstream):
    """The location below the prefix of the app; none if it is elsewhere."""
    whole = upstream.url + "/"
    if not upstream.is_unix and location.startswith(whole):
        return [target.base + "/" + location[len(whole):]]
    if location.startswith(upstream.prefix + "/") and not location.startswith("//"):
        return [target.base + location[len(upstream.prefix):]]
    return []


# --- answers ----------------------------------------------------------------------------------------------------------


class Answer:
    """Status, headers and body. An answer of the service has the open response and its socket."""

    def __init__(self, status, headers, body=(), response=None, upstream=None):
        self.status, self.headers, self.body = status, headers, body
        self.response, self.upstream = response, upstream

    def __iter__(self):
        return iter(self.body)

    @property
    def is_stream(self):
        return self.response is not None and is_event_stream(self.response)

    def close(self):
        if self.response:
            self.response.close()

    def cut(self):
        """Ends a read that another thread waits in. Not through the TLS layer, which that thread is using."""
        try:
            socket.socket.shutdown(self.upstream, socket.SHUT_RDWR)
        except OSError:
            pass


def is_event_stream(response):
    return response.getheader("Content-Type", "").startswith("text/event-stream")


def respond(environ, concurrent):
    """The answer to a request. `concurrent`: whether other requests are served meanwhile."""
    target = Target(environ)
    try:
        if isinstance(SETTINGS, Fault):
            fault = SETTINGS
        elif target.needs_slash and environ["REQUEST_METHOD"] in READING:
            query = "?" + target.query if target.query else ""
            return Answer("302 Found", [("Location", target.base + "/" + query), ("Content-Length", "0")])
        else:
            check_request(environ, target)
            check_stream(target, concurrent)
            return forward(environ, target, SETTINGS)
    except Fault as caught:
        fault = caught
    except Exception as error:
        fault = Fault("500 Internal Server Error", "internal", "Internal error", f"{type(error).__name__}: {error}",
                      "This is a fault of the app. Tell the operator of the portal.")
    if fault.status[:3] in ("500", "502", "504"):
        print(f'event="bookahead_proxy_failed" {fault}', file=sys.stderr, flush=True)
    return explained(fault, environ, target)


def check_stream(target, concurrent):
    if target.path.endswith("/events") and not (concurrent and SETTINGS.events != "off"):
        raise Fault("503 Service Unavailable", "unavailable", "No live events",
                    "this portal serves one request of an app at a time, and a stream would block all others",
                    "The page refreshes itself every 30 s. For operators: see 'Events' in README.md of the app.")


def forward(environ, target, settings):
    length = body_length(environ, settings)
    identity = credential(settings, environ)
    connection = settings.upstream.connect()
    # The response keeps it open: with `Connection: close` the connection gives it away.
    upstream = connection.sock
    try:
        response = send(connection, settings.upstream.prefix, environ, target, length, identity)
    except socket.timeout:
        connection.close()
        raise Fault("504 Gateway Timeout", "late", "The Bookahead service is slow",
                    f"no answer within {settings.upstream.answer_timeout:g} s",
                    "Look at your bookings before you try again: the request may have been carried out.") from None
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        why = str(error) or type(error).__name__
        raise unreachable(f"the connection to {settings.upstream.url} broke: {why}") from error
    except BaseException:
        connection.close()
        raise
    if is_event_stream(response):
        # Idle streams are normal. The system notices a dead connection, `cut_when_gone` a browser that has gone.
        upstream.settimeout(None)
        if upstream.family != socket.AF_UNIX:
            upstream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_AFTER)
    headers = answer_headers(response, target, settings.upstream)
    return Answer(f"{response.status} {response.reason}", headers, pieces(response), response, upstream)


def pieces(response):
    """The body as it arrives, without waiting for full blocks."""
    try:
        while True:
            piece = response.read1(BLOCK)
            if not piece:
                return
            yield piece
    except (OSError, ValueError, http.client.HTTPException) as error:
        # The status was sent already: the browser sees an answer that is too short. Streams end like that.
        if not is_event_stream(response):
            print(f'event="bookahead_answer_cut" {error!r}', file=sys.stderr, flush=True)


def explained(fault, environ, target):
    wants_page = "text/html" in environ.get("HTTP_ACCEPT", "") or target.path in ("/", "/docs", "")
    if wants_page:
        kind = "text/html; charset=utf-8"
        title, cause, hint = (html.escape(text) for text in (fault.title, fault.cause, fault.hint))
        text = (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
                f"<body><h1>{title}</h1><p>{cause}</p><p>{hint}</p></body></html>\n")
    else:
        # The form in which the service refuses, which the page shows.
        kind = "application/problem+json"
        text = json.dumps({"title": fault.title, "status": int(fault.status[:3]), "code": fault.code,
                           "detail": f"{fault.cause}. {fault.hint}"})
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"),
               ("Content-Security-Policy", SANDBOX), ("X-Content-Type-Options", "nosniff")]
    return Answer(fault.status, headers, () if environ["REQUEST_METHOD"] == "HEAD" else (body,))


# --- servers ----------------------------------------------------------------------------------------------------------


def application(environ, start_response):
    hijack = environ.get("passenger.hijack")
    if hijack:
        client = hijack(True)
        if THREADS.acquire(blocking=False):
            threading.Thread(target=answer_in_thread, args=(environ, client), daemon=True).start()
        else:
            too_many = Fault("503 Service Unavailable", "busy", "Busy", f"{MOST_THREADS} requests are in progress",
                             "Close some tabs of this app, and try again.")
            write_out(client, environ, explained(too_many, environ, Target(environ)))
        return ()
    answer = respond(environ, environ.get("wsgi.multithread", False))
    start_response(answer.status, answer.headers)
    return answer


def answer_in_thread(environ, client):
    try:
        client.settimeout(WRITE_TIMEOUT)
        write_out(client, environ, respond(environ, ANNOUNCED or getattr(SETTINGS, "events", "") == "on"))
    finally:
        THREADS.release()


def write_out(client, environ, answer):
    """Writes an answer to a socket of Passenger, and closes both sides."""
    done = threading.Event()
    if answer.is_stream:
        threading.Thread(target=cut_when_gone, args=(client, answer, done), daemon=True).start()
    try:
        lines = [f"HTTP/1.1 {answer.status}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        client.sendall("\r\n".join(lines + ["", ""]).encode("latin-1"))
        for piece in answer:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        if environ.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in environ:
            drop_rest(client)
    except OSError:
        # The browser has gone.
        pass
    finally:
        done.set()
        answer.close()
        environ["wsgi.input"].close()
        client.close()


def drop_rest(client):
    client.settimeout(DROP_TIMEOUT)
    left = MOST_DROPPED
    while left > 0:
        dropped = len(client.recv(BLOCK))
        left -= dropped or left


def cut_when_gone(client, answer, done):
    """Ends a stream when its browser has gone. An idle stream would notice that only at its next event."""
    poller = select.poll()
    try:
        poller.register(client, select.POLLIN)
    except ValueError:
        # The stream has ended already.
        return
    while not done.is_set():
        if not poller.poll(WATCH_INTERVAL * 1000):
            continue
        try:
            is_gone = not client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        except OSError:
            is_gone = True
        if is_gone:
            answer.cut()
        return


def announce_threads():
    """Has Passenger's loader announce that this process serves any number of requests at once, instead of one: it
    changes the file in which the loader describes its socket. With another loader, `ANNOUNCED` stays False."""
    loader = sys.modules.get("__main__")
    folder = os.environ.get("PASSENGER_SPAWN_WORK_DIR")
    original = getattr(loader, "advertise_sockets", None)
    if not folder or original is None:
        return

    def advertise_sockets(*arguments):
        global ANNOUNCED
        original(*arguments)
        path = os.path.join(folder, "response", "properties.json")
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            for described in document["sockets"]:
                described["concurrency"] = 0
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file)
            ANNOUNCED = True
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f'event="bookahead_threads_not_announced" {error!r}', file=sys.stderr, flush=True)

    loader.advertise_sockets = advertise_sockets


def load_settings():
    try:
        return Settings()
    except Fault as fault:
        return fault


SETTINGS = load_settings()
THREADS = threading.BoundedSemaphore(MOST_THREADS)
ANNOUNCED = False
announce_threads()
