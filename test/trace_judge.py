"""Says what is wrong with a trace of offload-run, beside the statistics of the same call.

    python trace_judge.py trace.json stats.json

What must hold of any device: each queue does one thing after another, nothing starts before it was launched, the
copies of a run move what the statistics say, and the last run's times are those of the statistics."""
import json
import sys

QUEUES = ("compute", "h2d", "d2h", "host")


def nanoseconds(event, key):
    return round(event[key] * 1000)


def row_fault(events):
    """Of one queue's slices, in the order of the file."""
    end = 0
    for event in events:
        if event["dur"] < 0 or nanoseconds(event, "ts") < end:
            return "slices overlap at %s" % event
        if event["ts"] < event["args"].get("launch", 0):
            return "starts before its launch: %s" % event
        end = nanoseconds(event, "ts") + nanoseconds(event, "dur")
    return ""


def sums_fault(queue, events, stats):
    """Of one queue's slices in the last run."""
    busy = sum(nanoseconds(e, "dur") for e in events if e["cat"] in (queue, "pause"))
    stall = sum(nanoseconds(e, "dur") for e in events if e["cat"] == "stall")
    told = stats["queues"][queue]
    # Copies in several pieces, and reading the clock twice, part the two by little.
    for name, here, there in (("busy", busy, told["busy_ns"]), ("stalled", stall, told["stall_ns"])):
        if abs(here - there) > 1e-2 * there + 2e4 * (1 + told["operations"]) ** 0.5:
            return "%s for %d ns, the statistics say %d" % (name, here, there)
    moved = sum(e["args"].get("bytes", 0) for e in events)
    told_bytes = stats["measured"][queue + "_bytes"] if queue in ("h2d", "d2h") else 0
    return "" if moved == told_bytes else "moves %d bytes, the statistics say %d" % (moved, told_bytes)


def fault_of(trace, stats):
    """"" where all is right."""
    events = trace["traceEvents"]
    rows = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    if sorted(rows) != sorted(QUEUES + ("launching thread",)):
        return "rows %s" % sorted(rows)
    slices = [e for e in events if e["ph"] == "X"]
    runs = sorted({e["args"]["run"] for e in slices})
    if runs != list(range(max(stats["runs"] - 15, 1), stats["runs"] + 1)):
        return "runs %s of %d" % (runs, stats["runs"])
    for queue in QUEUES:
        mine = [e for e in slices if e["tid"] == rows[queue]]
        last = [e for e in mine if e["args"]["run"] == runs[-1]]
        fault = row_fault(mine) or sums_fault(queue, last, stats)
        if fault:
            return "%s: %s" % (queue, fault)
    if not any(e["cat"] == "compute" for e in slices) or not any(e["cat"] == "stall" for e in slices):
        return "no operation of compute, or no stall"
    return ""


if __name__ == "__main__":
    with open(sys.argv[1]) as trace, open(sys.argv[2]) as stats:
        sys.exit(fault_of(json.load(trace), json.load(stats)) or 0)
