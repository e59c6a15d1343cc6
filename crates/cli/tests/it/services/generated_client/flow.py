"""The whole flow with a generated client: probe, hold, counter-offer, commit, watch, submit, cancel. Arguments: the
folder of the generated package and the URL of a broker."""

import datetime
import json
import sys
import uuid

sys.path.insert(0, sys.argv[1])

from bookahead_client import Client
from bookahead_client.api.jobs import cancel_job, show_job, submit_job
from bookahead_client.api.reservations import (
    cancel_reservation,
    commit_reservation,
    list_reservations,
    probe,
    reserve,
    show_reservation,
)
from bookahead_client.models import (
    AtLeastRequirement,
    Event,
    LaterRelaxation,
    Offers,
    Part,
    PretendedWork,
    Probe,
    Problem,
    ProblemCode,
    Request,
    Reservation,
    ReservationState,
    Reserve,
    SubmitJob,
)

client = Client(base_url=sys.argv[2])


def key():
    return f'"{uuid.uuid4()}"'


def wanted(capacity, hours):
    begin = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(hours=2)
    return Request(
        parts=[
            Part(
                capacity=capacity,
                duration_seconds=3600,
                earliest_start=begin,
                latest_end=begin + datetime.timedelta(hours=hours),
            )
        ]
    )


def expect(condition, value):
    if not condition:
        sys.exit(f"unexpected: {value}")
    return value


offers = probe.sync(client=client, body=Probe(request=wanted(4, 8)))
expect(isinstance(offers, Offers) and offers.offers[0].slots[0].capacity == 4, offers)

# The stream is read while things happen.
with client.get_httpx_client().stream("GET", "/v1/events", headers={"Accept": "text/event-stream"}) as stream:
    lines = stream.iter_lines()
    next(lines)

    held = reserve.sync(client=client, body=Reserve(request=wanted(4, 1)), idempotency_key=key())
    expect(isinstance(held, Reservation) and held.state == ReservationState.HELD, held)
    expect(0 < held.held_for_seconds <= 60, held)

    # The other sites are filled, until there is room only later.
    refused = None
    while not isinstance(refused, Problem):
        refused = reserve.sync(client=client, body=Reserve(request=wanted(4, 1), book=True), idempotency_key=key())
    expect(refused.code in (ProblemCode.NO_ROOM, ProblemCode.NO_CANDIDATE), refused)
    offer = next(offer for offer in refused.counter_offers if isinstance(offer.change, LaterRelaxation))
    accepted = reserve.sync(client=client, body=Reserve(request=offer.request, book=True), idempotency_key=key())
    expect(isinstance(accepted, Reservation) and accepted.state == ReservationState.COMMITTED, accepted)

    committed = commit_reservation.sync(held.id, client=client)
    expect(committed.state == ReservationState.COMMITTED, committed)

    kinds = []
    while "committed" not in kinds or kinds.count("held") < 2:
        line = next(lines)
        if line.startswith("data: "):
            event = Event.from_dict(json.loads(line.removeprefix("data: ")))
            kinds.append(event.kind.value)

job = submit_job.sync(
    client=client,
    body=SubmitJob(
        reservation=held.id,
        capacity=1,
        limit_seconds=60,
        work=PretendedWork(type_="pretended", run_seconds=30),
    ),
    idempotency_key=key(),
)
expect(not isinstance(job, Problem) and job.reservation == held.id, job)
expect(show_job.sync(job.id, client=client).id == job.id, job)
expect(cancel_job.sync(job.id, client=client).id == job.id, job)

cancelled = cancel_reservation.sync(accepted.id, client=client)
expect(cancelled.state == ReservationState.CANCELLED, cancelled)
again = show_reservation.sync(accepted.id, client=client)
expect(again.state == ReservationState.CANCELLED, again)
listed = list_reservations.sync(client=client, state="committed")
begins = [reservation.slots[0].begin for reservation in listed.reservations]
expect(listed.total == len(begins) and begins == sorted(begins), listed)

unknown = show_reservation.sync("rsv_1", client=client)
expect(isinstance(unknown, Problem) and unknown.code == ProblemCode.UNKNOWN, unknown)
gpus = AtLeastRequirement(attribute="gpus", test="at-least", value=4)
impossible = wanted(1, 1)
impossible.parts[0].requirements = [gpus]
nowhere = probe.sync(client=client, body=Probe(request=impossible))
expect(isinstance(nowhere, Problem) and nowhere.code == ProblemCode.NO_SUCH_RESOURCE, nowhere)
print("the whole flow")
