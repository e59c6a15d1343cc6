"""A HyperQueue server with a worker, and a stand-in for the commands of `hq` that a sweep uses.

The Python package has the server, the worker and the client of HyperQueue, but not its command line. Options and JSON
are those of hq 0.26: `hq submit --array`, `hq job info`.
"""

import json
import os
import pathlib
import sys

from hyperqueue import Client, Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.ffi.protocol import ResourceRequest


def server(folder):
    folder = pathlib.Path(folder)
    with LocalCluster(server_dir=str(folder), worker_config=WorkerConfig(cores=2)):
        (folder / "ready").touch()
        sys.stdin.read()  # until the test ends


def submit(client, words):
    options, program = words[: words.index("--")], words[words.index("--") + 1 :]
    named = dict(option.removeprefix("--").split("=", 1) for option in options)
    first, last = named.pop("array").split("-")
    assert first == "0" and named.pop("stdout") == "none", named
    stderr, cpus, name = named.pop("stderr"), named.pop("cpus"), named.pop("name")
    assert not named, f"unknown options {named}"
    job = Job(name=name, max_fails=None)
    for task in range(int(last) + 1):
        # Tasks of a job are numbered from 0, like those of the array.
        error = stderr.replace("%{TASK_ID}", str(task))
        job.program(program, stdout=None, stderr=error, resources=ResourceRequest(cpus=cpus))
    print(json.dumps({"id": client.submit(job).id}))


def info(client, job):
    def tell(jobs):
        counts = jobs[job]
        stats = {"running": 0, "waiting": 0 if counts["completed"] else counts["total"] - counts["finished"]}
        print(json.dumps([{"info": {"id": job, "task_stats": stats}}]), flush=True)
        os._exit(0)

    client.connection.wait_for_jobs((job,), tell)
    stats = {"running": 0, "waiting": 0}
    print(json.dumps([{"info": {"id": job, "task_stats": stats}}]))


def main(words):
    if words[0] == "server":
        return server(words[1])
    assert words[0] == "--output-mode=json", words
    client = Client(os.environ["HQ_SERVER_DIR"])
    if words[1] == "submit":
        return submit(client, words[2:])
    assert words[1:3] == ["job", "info"], words
    return info(client, int(words[3]))


main(sys.argv[1:])
