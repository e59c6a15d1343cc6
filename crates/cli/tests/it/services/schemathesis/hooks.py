"""Makes most of what schemathesis draws worth an answer: times that lie ahead, amounts that there are, and
reservations and jobs that exist (BOOKAHEAD_KNOWN). What is meant to be wrong is left as it is. The same is drawn for the
same case on every run, but for the time of day."""

import datetime
import itertools
import os
import random
import zlib

import schemathesis
from schemathesis import GenerationMode

KNOWN = os.environ.get("BOOKAHEAD_KNOWN", "").split(",")
KEYS = itertools.count(1)


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    draw = random.Random(zlib.crc32(repr((case.path_parameters, case.body)).encode()))
    if draw.random() < 0.2:
        return
    identify(case, draw)
    head(case, draw)
    if isinstance(case.body, dict):
        case.body = sensible(case.body, draw)


def identify(case, draw):
    wanted = "job_" if "/jobs/{id}" in case.path else "rsv_"
    there = [one for one in KNOWN if one.startswith(wanted)]
    if "id" in case.path_parameters and there and draw.random() < 0.7:
        case.path_parameters = {**case.path_parameters, "id": draw.choice(there)}


def head(case, draw):
    """Sets a new key, and lets a change apply to any version."""
    headers = case.headers or {}
    if "Idempotency-Key" in headers or case.method in ("POST", "PUT"):
        headers["Idempotency-Key"] = f'"tried-{os.getpid()}-{next(KEYS)}"'
    if "If-Match" in headers and draw.random() < 0.8:
        headers["If-Match"] = "*"
    case.headers = headers


def sensible(body, draw):
    body = dict(body)
    request = body.get("request")
    if isinstance(request, dict):
        parts = [part(one, draw) for one in request.get("parts", [])][: draw.choice([1, 1, 1, 2, 3])]
        body["request"] = {**request, "parts": parts}
        if draw.random() < 0.7:
            body["request"].pop("constraints", None)
        body.pop("id", None)
    if "work" in body:
        body = part(body, draw)
        body.pop("id", None)
        body.pop("reservation", None)
        body["limit_seconds"] = draw.randint(1, 600)
        if "latest_end" in body:
            body["latest_end"] = ahead(draw.randint(1_000, 90_000))
    if "from" in body:
        body["from"] = ahead(draw.randint(0, 90_000))
    return body


def part(one, draw):
    one = {**one, "capacity": draw.randint(1, 8)}
    if "earliest_start" in one:
        begin, length = draw.randint(60, 80_000), draw.randint(1, 7_200)
        one["duration_seconds"] = length
        one["earliest_start"] = ahead(begin)
        one["latest_end"] = ahead(begin + length + draw.choice([0, 600, 7_200]))
    if draw.random() < 0.9:
        for field in ("requirements", "resource", "kind"):
            one.pop(field, None)
    return one


def ahead(seconds):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
