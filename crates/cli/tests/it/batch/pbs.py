#!/usr/bin/env -S python3 -IS
"""A simulated PBS of three hosts with the observed behaviour of OpenPBS 23.06.06. The commands are links to this file, and
their state is one JSON file next to their folder, behind a lock. Jobs are real processes. Only the test uses `control`."""
import fcntl, json, os, pwd, signal, subprocess, sys, time

BIN = os.path.dirname(os.path.abspath(sys.argv[0]))
HOME = os.path.dirname(BIN)
PROGRAM, ARGS = os.path.basename(sys.argv[0]), sys.argv[1:]
USER = pwd.getpwuid(os.getuid()).pw_name
NOW = time.time()
# Seconds for which the vnodes are unknown after a restart of the server.
UNKNOWN_FOR = 2.5
NEW = {"next": 1, "up_at": 0.0, "away": [], "deny": 0, "deletes_for": 30.0, "cores": {"vm": 4, "pn2": 4, "pn3": 4},
       "resv": {}, "jobs": {}, "odd": False}


def out(text):
    sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode())


def fail(code, said):
    sys.stderr.write(said + "\n")
    return code


def ctime(at):
    return time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(at))


def when(text):
    import calendar
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M.%S"))


def options(words):
    """Options by letter, those of -l by name, and the other arguments."""
    found, rest, at = {}, [], 0
    while at < len(words):
        if words[at].startswith("-") and words[at] not in ("-F",):
            value = words[at + 1]
            if words[at] == "-l":
                name, value = value.split("=", 1)
                found[name] = value
            else:
                found[words[at]] = value
            at += 2
        else:
            rest.append(words[at])
            at += 1
    return found, rest


def chunks(select):
    amount, _, rest = select.partition(":")
    cores = [int(word[6:]) for word in rest.split(":") if word.startswith("ncpus=")]
    return int(amount), (cores or [1])[0]


def is_up(state, node):
    return node not in state["away"] and NOW >= state["up_at"] + UNKNOWN_FOR


def free(state, begin, end, without=None):
    """Cores that are free on each vnode that is up, during the whole interval."""
    left = {node: cores for node, cores in state["cores"].items() if is_up(state, node)}
    for name, resv in state["resv"].items():
        if name != without and resv["begin"] < end and begin < resv["end"]:
            for node, cores in resv["nodes"]:
                left[node] = left.get(node, 0) - cores
    for job in state["jobs"].values():
        if job["state"] == "R" and not job["queue"].startswith("R") and begin < job["start"] + job["walltime"]:
            left[job["node"]] = left.get(job["node"], 0) - job["cores"]
    return left


def place(state, select, begin, end, without=None):
    amount, cores = chunks(select)
    left, nodes = free(state, begin, end, without), []
    for node in sorted(left):
        while len(nodes) < amount and left[node] >= cores:
            nodes.append([node, cores])
            left[node] -= cores
    return nodes if len(nodes) == amount else None


def kill(job):
    if job["state"] == "R":
        try:
            os.killpg(job["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass
        job.update(state="F", exit=271, obit=NOW)
    elif job["state"] == "Q":
        job.update(state="F", obit=NOW)


def delete(state, name):
    resv = state["resv"][name]
    inside = [job for job in state["jobs"].values() if job["queue"] == name]
    had_jobs = any(job["state"] == "R" for job in inside)
    for job in inside:
        kill(job)
    if had_jobs:
        resv.update(state="RESV_BEING_DELETED", gone_at=NOW + state["deletes_for"])
    else:
        del state["resv"][name]


def advance(state):
    for name in list(state["resv"]):
        resv = state["resv"][name]
        if "gone_at" in resv:
            if NOW >= resv["gone_at"]:
                del state["resv"][name]
        elif NOW >= resv["end"]:
            delete(state, name)
    for number, job in state["jobs"].items():
        resv = state["resv"].get(job["queue"])
        done = os.path.join(HOME, number + ".exit")
        if job["state"] == "Q" and resv and "gone_at" not in resv and NOW >= resv["begin"]:
            script = os.path.join(HOME, number + ".sh")
            text = 'sh "$1" > "$2" 2>&1; echo $? > "$3.new" && mv "$3.new" "$3"'
            child = subprocess.Popen(["sh", "-c", text, "sh", script, job["output"], done], start_new_session=True,
                                     env={**os.environ, "PBS_JOBID": number + ".vm"}, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            job.update(state="R", start=NOW, pid=child.pid, node=resv["nodes"][0][0])
        elif job["state"] == "R" and os.path.exists(done):
            job.update(state="F", exit=int(open(done).read()), obit=NOW)


def pbs_rsub(state):
    given, _ = options(ARGS)
    begin, end = when(given["-R"]), when(given["-E"])
    if begin <= NOW:
        return fail(238, "pbs_rsub: Bad time specification(s)")
    name = f"R{state['next']}"
    state["next"] += 1
    nodes = place(state, given["select"], begin, end)
    if state["deny"] or nodes is None:
        state["deny"] = max(0, state["deny"] - 1)
        out(f"{name}.vm DENIED\n")
        return 0
    state["resv"][name] = {"name": given["-N"], "begin": begin, "end": end, "select": given["select"], "nodes": nodes,
                           "place": given["place"], "users": given["-U"], "state": "RESV_CONFIRMED"}
    out(f"{name}.vm CONFIRMED\n")
    return 0


def known(state, word):
    name = word.split(".")[0]
    return name if name in state["resv"] else None


def pbs_ralter(state):
    given, rest = options(ARGS)
    name = known(state, rest[0])
    if not name:
        return fail(236, "pbs_ralter: Unknown Reservation Id")
    resv = state["resv"][name]
    begin = when(given["-R"]) if "-R" in given else resv["begin"]
    end = when(given["-E"]) if "-E" in given else resv["end"]
    select = given.get("select", resv["select"])
    if chunks(select)[0] > chunks(resv["select"])[0]:
        return fail(79, "pbs_ralter: New select must be made up of a subset of the original chunks")
    nodes = place(state, select, begin, end, name)
    if nodes is None:
        out(f"pbs_ralter: {name}.vm DENIED\n")
        return 0
    resv.update(begin=begin, end=end, select=select, nodes=nodes)
    out(f"pbs_ralter: {name}.vm CONFIRMED\n")
    return 0


def pbs_rdel(state):
    name = known(state, ARGS[0])
    if not name:
        return fail(236, f"pbs_rdel: Unknown Reservation Id {ARGS[0]}")
    if "gone_at" not in state["resv"][name]:
        delete(state, name)
    return 0


def pbs_rstat(state):
    _, rest = options(ARGS)
    wanted = rest[1:] or list(state["resv"])
    for word in wanted:
        name = known(state, word)
        if not name:
            fail(0, "pbs_rstat: Unknown Reservation Id")
            continue
        resv = state["resv"][name]
        shown, nodes = resv["state"], "+".join(f"({node}:ncpus={cores})" for node, cores in resv["nodes"]).encode()
        if shown == "RESV_CONFIRMED" and any(node in state["away"] for node, _ in resv["nodes"]):
            # Bytes of freed memory, different each time.
            shown, nodes = "RESV_DEGRADED", b"^Gw^Y\xff" + str(NOW).encode() + b"\n\xca(^\"U"
        elif shown == "RESV_CONFIRMED" and resv["begin"] <= NOW:
            shown = "RESV_RUNNING"
        amount, cores = chunks(resv["select"])
        out(f"Resv ID: {name}.vm\nReserve_Name = {resv['name']}\nReserve_Owner = {USER}@vm\nreserve_state = {shown}\n"
            f"reserve_substate = 2\nreserve_start = {ctime(resv['begin'])}\nreserve_end = {ctime(resv['end'])}\n"
            f"reserve_duration = {resv['end'] - resv['begin']}\nqueue = {name}\nResource_List.ncpus = {amount * cores}\n"
            f"Resource_List.nodect = {amount}\nResource_List.select = {resv['select']}\n"
            f"Resource_List.place = {resv['place']}\nschedselect = {resv['select']}\n")
        out(b"resv_nodes = " + nodes + b"\n")
        out(f"Authorized_Users = {resv['users']},{USER}@vm\nserver = vm\nVariable_List = PBS_O_HOST=vm\neuser = {USER}\n"
            "reserve_count = 1\npartition = pbs-default\n\n")
    return 0


def qsub(state):
    given, _ = options(ARGS)
    queue, number = given.get("-q", "workq"), str(state["next"])
    if queue.startswith("R") and queue not in state["resv"]:
        return fail(170, "qsub: Unknown queue")
    state["next"] += 1
    with open(os.path.join(HOME, number + ".sh"), "w") as script:
        script.write(sys.stdin.read())
    amount, cores = chunks(given["select"])
    hours, minutes, seconds = (int(part) for part in given["walltime"].split(":"))
    state["jobs"][number] = {"name": given["-N"], "queue": queue, "state": "Q", "cores": amount * cores, "submitted": NOW,
                             "chunks": amount, "walltime": hours * 3600 + minutes * 60 + seconds,
                             "variables": given.get("-v", ""), "output": os.path.abspath(given["-o"]), "node": "vm"}
    out(f"{number}.vm\n")
    return 0


def qdel(state):
    job = state["jobs"].get(ARGS[0].split(".")[0])
    if job is None:
        return fail(153, f"qdel: Unknown Job Id {ARGS[0]}")
    if job["state"] == "F":
        return fail(35, f"qdel: Job has finished {ARGS[0]}")
    kill(job)
    return 0


# Values that a job of any user may have: invalid UTF-8, a line feed, quotes, invalid numbers.
ODD = (b"Job Id: 9001.vm|Job_Name=inf|Job_Owner=eve@vm|job_state=H|queue=workq|Account_Name=00|qtime=Sun Nov 15 11:20:00 2026|"
       b"Resource_List.ncpus=1|Variable_List=X=^\x03^\xe4,Y=^\nJob Id: 1.vm|Submit_arguments=a\\\\x\\|b^\"\xff|project=00\n"
       b"Job Id: 9002.vm|Job_Name=torn|Job_Ow\n")


def show(number, job):
    text = (f"Job Id: {number}.vm|Job_Name={job['name']}|Job_Owner={USER}@vm|job_state={job['state']}|queue={job['queue']}|"
            f"server=vm|qtime={ctime(job['submitted'])}|Resource_List.ncpus={job['cores']}|"
            f"Resource_List.nodect={job['chunks']}|Resource_List.place=free|"
            f"Resource_List.walltime={time.strftime('%H:%M:%S', time.gmtime(job['walltime']))}|"
            f"Variable_List=PBS_O_HOST=vm,{job['variables']}")
    if "start" in job:
        text += f"|exec_vnode=({job['node']}:ncpus={job['cores']})|stime={ctime(job['start'])}"
    if "exit" in job:
        text += f"|Exit_status={job['exit']}"
    if "obit" in job:
        text += f"|obittime={ctime(job['obit'])}|history_timestamp={int(NOW)}"
    out(text + "\n")


def qstat(state):
    if "-B" in ARGS:
        out("Server: vm|server_state=Active|scheduling=True|job_history_enable=True|resources_default.walltime=24:00:00|"
            "pbs_version=23.06.06\n")
        return 0
    if "-x" in ARGS:
        number = ARGS[-1].split(".")[0]
        if number not in state["jobs"]:
            return fail(153, f"qstat: Unknown Job Id {ARGS[-1]}")
        show(number, state["jobs"][number])
        return 0
    for number, job in state["jobs"].items():
        if job["state"] != "F":
            show(number, job)
    if state["odd"]:
        out(ODD)
    return 0


def pbsnodes(state):
    for node, cores in state["cores"].items():
        word = "free" if is_up(state, node) else "down" if node in state["away"] else "state-unknown,down"
        out(f"Name={node}|Mom={node}|Port=15002|pbs_version=23.06.06|ntype=PBS|state={word}|pcpus={cores}|"
            f"resources_available.arch=linux|resources_available.host={node}|resources_available.ncpus={cores}|"
            f"resources_available.rack=00|resources_available.vnode={node}|resv_enable=True|sharing=default_shared\n")
    return 0


def qmgr(state):
    out("Sched default\n    scheduling = True\n    state = idle\n")
    return 0


def control(state):
    word, values = ARGS[0], ARGS[1:]
    if word == "away":
        state["away"] = values
    elif word == "restart":
        state["up_at"] = NOW + float(values[0])
    elif word == "end":
        for job in state["jobs"].values():
            kill(job)
    else:
        state[word] = json.loads(values[0])
    return 0


def main():
    with open(os.path.join(HOME, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = os.path.join(HOME, "state.json")
        state = json.load(open(path)) if os.path.exists(path) else dict(NEW)
        with open(os.path.join(HOME, "log"), "a") as log:
            log.write(" ".join([PROGRAM, *ARGS]) + "\n")
        if PROGRAM != "control" and NOW < state["up_at"]:
            said = f"Connection refused\n{PROGRAM}: cannot connect to server vm (errno=15010)"
            return fail({"qstat": 255, "pbsnodes": 1}.get(PROGRAM, 162), said)
        advance(state)
        code = globals()[PROGRAM](state)
        with open(path + ".new", "w") as new:
            json.dump(state, new)
        os.rename(path + ".new", path)
        sys.stdout.flush()
        return code


sys.exit(main())
