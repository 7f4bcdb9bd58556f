"""Turns results into lines and into the tables of docs/performance.md."""
import re

BEGIN, END = "<!-- figures: written by bench/performance --write-docs -->", "<!-- end of figures -->"
TITLES = {
    "chain": "chain of 64 Linears 8192 x 8192, weights four times the budget",
    "blocks-2048": "eight Llama-3-8B-shaped blocks, 2048 tokens, nothing resident",
    "blocks-16384": "the same blocks, 16384 tokens, nothing resident",
    "resnet50": "ResNet-50, batch 32, all resident",
    "vit-l": "ViT-L/16, batch 32, all resident",
    "gpt2": "GPT-2 124M, batch 8 x 512, all resident",
    "loading": "the blocks from the page cache to the first result",
}
AGAINST = {"link": "the link's bound", "eager": "PyTorch eager", "baseline": "copying and registering"}
QUARTILES = ("median_ns", "low_ns", "high_ns")


def milliseconds(ns):
    return "%.2f" % (ns / 1e6)


def mebibytes(count):
    return "%.1f" % (count / 2 ** 20)


def agrees(figures):
    """Parts without a result to compare have no error."""
    return figures.get("error", 0) <= figures.get("tolerance", 0)


def is_met(figures):
    if not agrees(figures):
        return False
    return figures["ratio"] >= figures["goal"] if figures.get("at_least") else figures["ratio"] <= figures["goal"]


def goal(figures):
    return ("at least %g" if figures.get("at_least") else "at most %g") % figures["goal"]


def other_side(figures):
    if figures["against"] == "link":
        return figures["bound_ns"]
    return figures["times"]["eager" if figures["against"] == "eager" else figures["baseline"]]["median_ns"]


def holds_back(figures):
    """What the queues' own times say; those are of a run that keeps times."""
    told = []
    if "queues" in figures:
        times, queues = figures["timeline"], figures["queues"]
        step = times["landed_ns"]
        told.append("of %s ms compute busy %.1f %%, waiting %.1f %%; h2d busy %.1f %%, waiting %.1f %%" % (
            milliseconds(step), *(100 * queues[queue][key] / step for queue in ("compute", "h2d")
                                  for key in ("busy_ns", "stall_ns"))))
        told.append("launched after %s ms, last copy in %s, compute done %s" % tuple(
            milliseconds(ns) for ns in (times["launched_ns"], times["end_ns"]["h2d"], times["end_ns"]["compute"])))
        longest = sorted(times["operators"], key=lambda row: -row["busy_ns"])
        longest = [row for row in longest if row["queue"] == "compute"][:4]
        told.append("longest " + ", ".join("%d %s %s ms" % (row["count"], row["op"], milliseconds(row["busy_ns"]))
                                           for row in longest))
    if "eager_kernels" in figures:
        told.append("PyTorch's kernels %s ms" % milliseconds(figures["eager_kernels"]["total_ns"]))
    return "; ".join(told)


def line(name, figures):
    times = figures["times"]
    parts = ["%s: %s" % (name, "met" if is_met(figures) else "NOT MET"),
             "ratio %.3f to %s (%s)" % (figures["ratio"], AGAINST[figures["against"]], goal(figures))]
    parts += ["%s %s ms" % (k, milliseconds(v["median_ns"])) for k, v in times.items()]
    if "bound_ns" in figures:
        parts.append("bound %s ms at %.2f GB/s" % (milliseconds(figures["bound_ns"]),
                                                  figures["link_bytes_per_second"] / 1e9))
    if "error" in figures:
        parts += ["predicted %s ms" % milliseconds(figures["statistics"]["predicted"]["step_ns"]),
                  holds_back(figures), "error %.1e" % figures["error"]]
        if not agrees(figures):
            parts.append("DIFFERS FROM PYTORCH by more than %g" % figures["tolerance"])
    parts += ["MISSING " + text for text in figures.get("missing", [])]
    return "; ".join(parts + ["took %.0f s" % figures["part_seconds"]])


def summary_table(parts):
    rows = ["| what | type | ratio | to | goal | met |", "|---|---|---|---|---|---|"]
    for name, title in TITLES.items():
        if name in parts:
            f = parts[name]
            rows.append("| %s | %s | %.3f | %s | %s | %s |" % (
                title, f["dtype"], f["ratio"], AGAINST[f["against"]], goal(f), "yes" if is_met(f) else "no"))
    return rows


def time_table(parts):
    rows = ["| part | session, ms (quartiles) | other side, ms | PyTorch eager, ms | predicted, ms | copied in, MiB "
            "| budget, MiB | taken from the card, MiB | what holds it back |", "|---|---|---|---|---|---|---|---|---|"]
    for name in TITLES:
        if name not in parts or "error" not in parts[name]:
            continue
        f = parts[name]
        seen = f["statistics"]
        rows.append("| %s | %s (%s to %s) | %s | %s | %s | %s | %s | %s | %s |" % (
            name, *(milliseconds(f["times"]["session"][k]) for k in QUARTILES), milliseconds(other_side(f)),
            milliseconds(f["times"]["eager"]["median_ns"]), milliseconds(seen["predicted"]["step_ns"]),
            mebibytes(seen["measured"]["h2d_bytes"]), mebibytes(f["device_memory"]) if "device_memory" in f else "",
            mebibytes(seen["measured"].get("card_bytes", 0)), holds_back(f)))
    return rows


def load_table(figures):
    rows = ["| loading %s MiB | ms (quartiles) |" % mebibytes(figures["bytes"]), "|---|---|"]
    names = {"session": "from Session::load to the first result", "load": "of that, Session::load",
             "libraries": "in that, libraries of kernels", "trials": "in that, trials of kernels",
             "weights": "beside these, weights into registered memory",
             "first_run": "of that, the first run", "again": "both once more in the same process",
             "process": "the whole process, libraries and context included",
             "once": "copied by threads, then registered in one call", "shares": "copied and registered by threads"}
    for key, title in names.items():
        rows.append("| %s | %s (%s to %s) |" % (title, *(milliseconds(figures["times"][key][k]) for k in QUARTILES)))
    return rows


def figures_text(results):
    about, parts = results["machine"], results["parts"]
    text = ["Measured on %s on %s with PyTorch %s by" % (about["date"], about.get("card", about["device"]),
                                                        about["torch"]), "", "    " + about["command"], ""]
    rates = ["%.2f GB/s (%s)" % (parts[name]["link_bytes_per_second"] / 1e9, name)
             for name in TITLES if "link_bytes_per_second" in parts.get(name, {})]
    if rates:
        text += ["Measured rate of the link: %s." % ", ".join(rates), ""]
    text += summary_table(parts) + [""] + time_table(parts)
    if "loading" in parts:
        text += [""] + load_table(parts["loading"])
    return "\n".join(text)


def write_page(path, results):
    """Replaces what lies between the two marks; the rest of the page is written by
    hand."""
    page = path.read_text()
    if BEGIN not in page or END not in page:
        raise SystemExit("%s lacks the lines that figures go between" % path)
    inside = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    path.write_text(inside.sub(lambda _: "%s\n\n%s\n\n%s" % (BEGIN, figures_text(results), END), page))
