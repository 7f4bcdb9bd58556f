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


def is_met(figures):
    return figures["ratio"] >= figures["goal"] if figures.get("at_least") else figures["ratio"] <= figures["goal"]


def goal(figures):
    return ("at least %g" if figures.get("at_least") else "at most %g") % figures["goal"]


def other_side(figures):
    if figures["against"] == "link":
        return figures["bound_ns"]
    return figures["times"]["eager" if figures["against"] == "eager" else figures["baseline"]]["median_ns"]


def holds_back(figures):
    """What the queues' own times say; those are of a run that keeps times."""
    step, queues = figures["timed_step_ns"], figures["queues"]

    def share(queue, key):
        return 100 * queues[queue][key] / step
    return "compute busy %.1f %%, waiting %.1f %%; h2d busy %.1f %%, waiting %.1f %% of %s ms" % (
        share("compute", "busy_ns"), share("compute", "stall_ns"), share("h2d", "busy_ns"), share("h2d", "stall_ns"),
        milliseconds(step))


def line(name, figures):
    times = figures["times"]
    parts = ["%s: %s" % (name, "met" if is_met(figures) else "NOT MET"),
             "ratio %.3f to %s (%s)" % (figures["ratio"], AGAINST[figures["against"]], goal(figures))]
    parts += ["%s %s ms" % (k, milliseconds(v["median_ns"])) for k, v in times.items()]
    if "bound_ns" in figures:
        parts.append("bound %s ms at %.2f GB/s" % (milliseconds(figures["bound_ns"]),
                                                  figures["link_bytes_per_second"] / 1e9))
    if "queues" in figures:
        parts += ["predicted %s ms" % milliseconds(figures["statistics"]["predicted"]["step_ns"]),
                  holds_back(figures), "error %.1e" % figures["error"]]
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
        if name not in parts or "queues" not in parts[name]:
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
             "first_run": "of that, the first run", "process": "the whole process, libraries and context included",
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
