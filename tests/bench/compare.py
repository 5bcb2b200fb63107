#!/usr/bin/env python3
"""Times fagen beside cuDNN and FlashAttention-2 (both through PyTorch) on one GPU.

All contestants of a cell run in this process on the same randn tensors, each captured in a CUDA graph; the
graphs are replayed in turns, so that a change of clocks meets all of them. A figure is the median over the
turns, with the smallest and largest. FlashAttention-3 enters by its recorded figures (fa3_h200.json), scaled
by cuDNN now over cuDNN then, a factor held to [0.88, 1.10]; or it is timed too, when --fa3 names the folder
of a built one.

    compare.py --seconds 300 --save runs.json              all cells that fit the time, rows as they end
    compare.py --only 'D128 causal' --pass fwd             cells whose name has these words
    compare.py --show runs.json [more.json] [--markdown | --short] [--plot speed.png]    no GPU needed
    compare.py --variants [--only softcap] [--no-flex]     variants beside FlexAttention: see variants.py

FLOPs are 4 B H S S D forward and 2.5 times that backward, half of it causal.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FA3 = HERE / "fa3_h200.json"
REPLAY_MS = 15  # one replay of a graph: long against the launch of the graph and the events


# ---- Cells -------------------------------------------------------------------------------------------


def cell_name(cell):
    mask = "causal" if cell["causal"] else "full"
    return "D{dim} {} S{seqlen} B{batch} H{heads}/{heads_kv}".format(mask, **cell)


def load_cells(words, passes):
    cells = json.loads(FA3.read_text())["cells"]
    return [(cell, p) for cell in cells for p in passes
            if all(word in cell_name(cell).split() for word in words)]


def flops(cell, which):
    pairs = cell["batch"] * cell["heads"] * cell["seqlen"] ** 2 * (0.5 if cell["causal"] else 1.0)
    return 4.0 * pairs * cell["dim"] * (1.0 if which == "fwd" else 2.5)


# ---- Contestants --------------------------------------------------------------------------------------


def peers(torch, backend, q, k, v, do, causal, which):
    """A call of PyTorch's attention with one backend, forward or backward alone."""
    from torch.nn.attention import sdpa_kernel
    views = [t.transpose(1, 2).detach().requires_grad_(which == "bwd") for t in (q, k, v)]
    gradient = do.transpose(1, 2)

    def forward():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                *views, is_causal=causal, enable_gqa=k.shape[2] != q.shape[2])

    if which == "fwd":
        return forward
    out = forward()
    return lambda: torch.autograd.grad(out, views, gradient, retain_graph=True)


def built_fa3(torch, folder, q, k, v, do, causal, which):
    """The same of FlashAttention-3, whose build leaves flash_attn_interface.py in a folder."""
    sys.path.insert(0, str(folder))
    from flash_attn_interface import flash_attn_func
    leaves = [t.detach().requires_grad_(which == "bwd") for t in (q, k, v)]

    def forward():
        out = flash_attn_func(*leaves, causal=causal)
        return out[0] if isinstance(out, tuple) else out  # older ones give LSE as well

    if which == "fwd":
        return forward
    out = forward()
    return lambda: torch.autograd.grad(out, leaves, do, retain_graph=True)


def contestants(torch, cell, which, options):
    sys.path.insert(0, str(ROOT / "examples" / "pytorch"))
    import fagen
    fagen.target = options.target
    from torch.nn.attention import SDPBackend

    def randn(heads):
        return torch.randn(cell["batch"], cell["seqlen"], heads, cell["dim"], device="cuda",
                           dtype=torch.bfloat16)

    causal = cell["causal"]
    q, k, v = randn(cell["heads"]), randn(cell["heads_kv"]), randn(cell["heads_kv"])
    do = randn(cell["heads"])
    calls = {
        "cudnn": lambda: peers(torch, SDPBackend.CUDNN_ATTENTION, q, k, v, do, causal, which),
        "fa2": lambda: peers(torch, SDPBackend.FLASH_ATTENTION, q, k, v, do, causal, which),
    }
    if options.fa3:
        calls["fa3"] = lambda: built_fa3(torch, options.fa3, q, k, v, do, causal, which)
    o, lse = fagen.forward(q, k, v, causal=causal)
    if which == "fwd":
        calls["fagen"] = lambda: lambda: fagen.forward(q, k, v, causal=causal)
    else:
        for name, deterministic in (("fagen", False), ("fagen_det", True))[:2 if options.det else 1]:
            calls[name] = lambda deterministic=deterministic: lambda: fagen.backward(
                do, q, k, v, o, lse, causal=causal, deterministic=deterministic)
    return calls


# ---- Measuring -----------------------------------------------------------------------------------------


def elapsed_ms(torch, run, during=lambda: None):
    """Milliseconds of what run() enqueues, and what during() gave while the GPU was at it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    seen = during()
    end.synchronize()
    return start.elapsed_time(end), seen


def capture(torch, make):
    """A graph of as many calls as take about REPLAY_MS, and that number."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call = make()
        call()
        once = min(elapsed_ms(torch, call)[0] for _ in range(2))
        count = max(1, min(200, round(REPLAY_MS / max(once, 1e-3))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                call()
    torch.cuda.synchronize()
    return graph, count, call


def clock_mhz(torch):
    try:
        return torch.cuda.clock_rate()
    except Exception:  # needs NVML's Python package
        return 0


def measure(torch, cell, which, options):
    calls = contestants(torch, cell, which, options)
    return {"cell": cell, "pass": which, **measure_calls(torch, calls, flops(cell, which), options)}


def measure_calls(torch, calls, work, options):
    """Of functions that make the calls, which stay alive to the end: graphs hold only addresses."""
    graphs, missing = {}, {}
    for name, make in calls.items():
        try:
            graphs[name] = capture(torch, make)
        except Exception as error:  # a peer that does not take this case is left out, in words
            missing[name] = str(error).split("\n")[0][:120]
    times, clocks = {name: [] for name in graphs}, {name: [] for name in graphs}
    for turn in range(options.turns + 1):
        for name, (graph, count, _) in graphs.items():
            ms, mhz = elapsed_ms(torch, graph.replay, lambda: clock_mhz(torch))
            if turn:  # the first turn warms up
                times[name].append(ms / count)
                clocks[name].append(mhz)
    return {"missing": missing,
            "mhz": {name: statistics.median(list_) for name, list_ in clocks.items()},
            "tflops": {name: [work / ms * 1e-9 for ms in list_] for name, list_ in times.items()}}


# ---- Reporting -----------------------------------------------------------------------------------------


def recorded_fa3(run, mode=""):
    """FlashAttention-3's figure for this run, or None; mode "det_": of its deterministic backward."""
    cell, which, cudnn = run["cell"], run["pass"], run["tflops"].get("cudnn")
    then, fa3 = cell.get(f"cudnn_{which}"), cell.get(f"fa3_{mode}{which}")
    if not (then and fa3 and cudnn):
        return None
    return fa3 * min(1.10, max(0.88, statistics.median(cudnn) / then))


def summary(run):
    """Medians, and the ratios that matter."""
    medians = {name: statistics.median(values) for name, values in run["tflops"].items()}
    fa3 = recorded_fa3(run)
    if fa3 and "fa3" not in medians:
        medians["fa3"] = fa3
    others = [medians[name] for name in ("cudnn", "fa2", "fa3") if name in medians]
    ours = medians.get("fagen")
    ratios = {}
    if ours and others:
        ratios["best"] = ours / max(others)
    if ours and "cudnn" in medians:
        ratios["cudnn"] = ours / medians["cudnn"]
    return medians, ratios


def spread(values):
    return 100.0 * (max(values) - min(values)) / statistics.median(values)


COLUMNS = ("fa2", "cudnn", "fa3", "fagen", "fagen_det")


def print_row(run, markdown):
    medians, ratios = summary(run)
    figures = []
    for name in COLUMNS:
        figure = f"{medians[name]:.0f}" if name in medians else "-"
        if name in run["tflops"]:
            figure += f" ({spread(run['tflops'][name]):.1f} %)"
        figures.append(figure)
    figures += [f"{ratios[r]:.2f}" if r in ratios else "-" for r in ("cudnn", "best")]
    figures.append("/".join(f"{run['mhz'].get(name, 0):.0f}" for name in ("cudnn", "fagen")))
    name = f"{run['pass']} {cell_name(run['cell'])}"
    if markdown:
        print(f"| {name} | " + " | ".join(figures) + " |")
    else:
        print(f"{name:36}" + "".join(f"{figure:>14}" for figure in figures), flush=True)
    for missing, why in run["missing"].items():
        print(f"    {missing} left out: {why}", file=sys.stderr)


def print_head(markdown):
    names = [*COLUMNS, "/ cudnn", "/ best", "MHz of both"]
    if markdown:
        print("| TFLOP/s, bf16 | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    else:
        print(f"{'TFLOP/s (spread)':36}" + "".join(f"{name:>14}" for name in names))


def print_short(runs):
    """For a README: a line for each pass, dimension and mask, a column for each length; fagen's TFLOP/s and,
    in brackets, the ratio to the best of the others. Then a line for each cell that is not of that form. The
    deterministic backward stands beside fagen's default."""
    lengths = sorted({run["cell"]["seqlen"] for run in runs if is_regular(run["cell"])})
    series, ordered, rest = {}, {}, {}
    for run in runs:
        medians, ratios = summary(run)
        if "fagen" not in medians or "best" not in ratios:
            continue
        figure = f"{medians['fagen']:.0f} ({ratios['best']:.2f})"
        cell = run["cell"]
        which = {"fwd": "forward", "bwd": "backward"}[run["pass"]]
        case = f"D = {cell['dim']}, {'causal' if cell['causal'] else 'full'}"
        sizes = "B = {batch}, H = {heads}/{heads_kv}, S = {seqlen}".format(**cell)
        if is_regular(cell):
            series.setdefault(f"{which}, {case}", {})[cell["seqlen"]] = figure
        else:
            rest.setdefault(f"{case}, {sizes}", {})[which] = figure
        if "fagen_det" in medians:
            figure = f"{medians['fagen_det']:.0f} ({medians['fagen_det'] / medians['fagen']:.2f})"
            if is_regular(cell):
                ordered.setdefault(case, {})[cell["seqlen"]] = figure
            else:
                rest[f"{case}, {sizes}"]["det"] = figure
    print_table("TFLOP/s (of the best other)", [f"S = {n}" for n in lengths], lengths, series)
    if ordered:
        print_table("deterministic backward (of the default)", [f"S = {n}" for n in lengths], lengths, ordered)
    print_table("TFLOP/s (of the best other)", ["forward", "backward", "deterministic (of the default)"],
                ["forward", "backward", "det"], rest)


def print_table(heading, titles, columns, lines):
    print(f"\n| {heading} | " + " | ".join(titles) + " |\n|---|" + "---|" * len(titles))
    for line in sorted(lines, key=lambda line: line.startswith("backward")):
        print(f"| {line} | " + " | ".join(lines[line].get(column, "-") for column in columns) + " |")
    print()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def print_means(runs):
    for which in ("fwd", "bwd"):
        best = [summary(r)[1]["best"] for r in runs if r["pass"] == which and "best" in summary(r)[1]]
        if best:
            print(f"{which}: geometric mean {geometric_mean(best):.3f} of the best of the others over "
                  f"{len(best)} cells, smallest {min(best):.3f}")
    both = [(run, summary(run)[0]) for run in runs if {"fagen", "fagen_det"} <= run["tflops"].keys()]
    if both:
        own = [medians["fagen_det"] / medians["fagen"] for _, medians in both]
        fa3 = [medians["fagen_det"] / recorded for run, medians in both
               for recorded in [recorded_fa3(run, "det_")] if recorded]
        print(f"deterministic: geometric mean {geometric_mean(own):.3f} of fagen's default, smallest "
              f"{min(own):.3f}; smallest {min(fa3, default=math.nan):.3f} of FA3's own deterministic mode")


def merge(files):
    """The turns of all files, cell by cell."""
    merged = {}
    for file in files:
        for run in json.loads(pathlib.Path(file).read_text()):
            key = (run["pass"], cell_name(run["cell"]))
            known = merged.setdefault(key, {**run, "tflops": {}})
            for name, values in run["tflops"].items():
                known["tflops"].setdefault(name, []).extend(values)
    return list(merged.values())


def is_regular(cell):
    """Whether the cell is one of the series over lengths, 16384 tokens a call and no groups."""
    return (cell["dim"] in (64, 128, 256) and cell["batch"] * cell["seqlen"] == 16384
            and cell["heads"] == cell["heads_kv"] and cell["seqlen"] >= 512)


def plot(runs, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    series = [r for r in runs if is_regular(r["cell"])]
    timed_fa3 = any("fa3" in r["tflops"] for r in series)
    panels = sorted({(r["pass"], r["cell"]["dim"], r["cell"]["causal"]) for r in series},
                    key=lambda p: (p[0] != "fwd", p[1:]))
    columns = 3
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(12, 3 * rows), squeeze=False)
    for axis, (which, dim, causal) in zip(axes.flat, panels):
        axis.set_title(f"{which} D={dim} {'causal' if causal else 'full'}")
        for name in ("fa2", "cudnn", "fa3", "fagen"):
            points = sorted((r["cell"]["seqlen"], summary(r)[0][name]) for r in series
                            if (r["pass"], r["cell"]["dim"], r["cell"]["causal"]) == (which, dim, causal)
                            and name in summary(r)[0])
            if points:
                axis.plot(*zip(*points), marker="o", linewidth=2.5 if name == "fagen" else 1.2,
                          linestyle="--" if name == "fa3" else "-",
                          label="fa3, recorded" if name == "fa3" and not timed_fa3 else name)
        axis.set_xscale("log", base=2)
        axis.set_xticks([512, 1024, 2048, 4096, 8192, 16384], ["512", "1k", "2k", "4k", "8k", "16k"])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("sequence length")
        axis.set_ylabel("TFLOP/s")
    axes.flat[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def print_gpu(torch):
    if not torch.cuda.is_available():
        sys.exit("compare.py: no GPU that PyTorch can use; --show FILE works without one")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}")


def run_cells(options):
    import torch
    print_gpu(torch)
    torch.manual_seed(options.seed)
    end, runs = time.monotonic() + options.seconds, []
    print_head(options.markdown)
    for cell, which in load_cells(options.only.split(), options.passes):
        if time.monotonic() > end:
            print("the time is spent; cells left over were not measured", file=sys.stderr)
            break
        runs.append(measure(torch, cell, which, options))
        print_row(runs[-1], options.markdown)
        torch.cuda.empty_cache()
        if options.save:
            pathlib.Path(options.save).write_text(json.dumps(runs))
    return runs


# ---- Variants ------------------------------------------------------------------------------------------


def measure_variant(torch, make_problem, options):
    """The two passes of a problem."""
    import variants
    problem = make_problem(torch)
    given = variants.tensors(torch, problem)
    made, missing = {}, {}
    for name, make_attention in variants.makers(torch, problem, options).items():
        try:
            made[name] = variants.Contestant(torch, make_attention(), given)
        except Exception as error:  # torch.compile may not work here
            missing[name] = str(error).strip().split("\n")[0][:120]
    runs = []
    for which in options.passes:
        calls = {name: lambda c=c: c.call(which) for name, c in made.items()}
        measured = measure_calls(torch, calls, problem.flops(which), options)
        measured["missing"].update(missing)
        runs.append({"problem": problem.name, "pass": which, "flops": problem.flops(which), **measured,
                     "mib": {name: c.mib for name, c in made.items()},
                     "first_s": {name: c.first[which] for name, c in made.items()}})
    return runs


def print_variant(run, markdown):
    for name, values in run["tflops"].items():
        median = statistics.median(values)
        figures = [run["pass"], run["problem"], name, f"{1e-9 * run['flops'] / median:.3f}", f"{median:.0f}",
                   f"{spread(values):.1f} %", f"{run['mhz'][name]:.0f}", f"{run['first_s'][name]:.2f}",
                   f"{run['mib'][name]:.0f}"]
        if markdown:
            print("| " + " | ".join(figures) + " |")
        else:
            print(f"{figures[0]} {figures[1]:16} {figures[2]:14}"
                  + "".join(f"{figure:>12}" for figure in figures[3:]), flush=True)
    for missing, why in run["missing"].items():
        print(f"    {missing} left out: {why}", file=sys.stderr)


def print_variant_head(markdown):
    titles = ["ms", "TFLOP/s", "spread", "MHz", "first call s", "MiB of both"]
    if markdown:
        print("| pass | problem | by | " + " | ".join(titles) + " |\n|---|---|---|" + "---|" * len(titles))
    else:
        print(f"{'visible pairs only':35}" + "".join(f"{title:>12}" for title in titles))


def start_up(torch):
    """What a process needs once is no part of a first call."""
    import fagen
    x = torch.randn(1, 64, 1, 64, device="cuda", dtype=torch.bfloat16)
    fagen.forward(x, x, x)
    torch.cuda.synchronize()


CACHES = ("FA_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")  # CUDA's: NVRTC's


def run_variants(options):
    sys.path.insert(0, str(ROOT / "examples" / "pytorch"))
    end, runs = time.monotonic() + options.seconds, []
    with tempfile.TemporaryDirectory() as folder:  # so that first calls find nothing on disk
        for name in CACHES:
            os.environ[name] = os.path.join(folder, name)
        import torch
        import variants
        print_gpu(torch)
        torch.manual_seed(options.seed)
        start_up(torch)
        print_variant_head(options.markdown)
        for make in variants.PROBLEMS:
            if time.monotonic() > end or options.only and make.__name__ not in options.only.split():
                continue
            runs += measure_variant(torch, make, options)
            for run in runs[-len(options.passes):]:
                print_variant(run, options.markdown)
            torch.cuda.empty_cache()
            if options.save:
                pathlib.Path(options.save).write_text(json.dumps(runs))


def of_flex(run, name, key):
    """A figure of `name` and, in brackets, FlexAttention's."""
    def written(contestant):
        values = run[key].get(contestant, "-")
        if key == "tflops" and contestant in run[key]:
            values = statistics.median(values)
        return values if values == "-" else f"{values:.2f}" if key == "first_s" else f"{values:.0f}"

    return f"{written(name)} ({written('flex')})"


def print_variants_short(runs):
    """For a README: a line for each problem and way."""
    print("| TFLOP/s, MiB, s (FlexAttention's) | forward | backward | memory of both | first call forward | first call "
          "backward |\n|---|" + "---|" * 5)
    both = {}
    for run in runs:
        both.setdefault(run["problem"], {})[run["pass"]] = run
    for problem, of in both.items():
        for name in of["fwd"]["tflops"] if len(of) == 2 else ():
            if name != "flex":
                limited = " within a workspace_limit" if name == "fagen_limited" else ""
                figures = [of_flex(of[which], name, key) for key, which in (
                    ("tflops", "fwd"), ("tflops", "bwd"), ("mib", "bwd"), ("first_s", "fwd"), ("first_s", "bwd"))]
                print(f"| {problem}{limited} | " + " | ".join(figures) + " |")


def show_variants(options):
    runs = [run for file in options.show for run in json.loads(pathlib.Path(file).read_text())]
    if options.short:
        print_variants_short(runs)
        return
    print_variant_head(options.markdown)
    for run in runs:
        print_variant(run, options.markdown)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="words a cell's name must have, such as 'D128 causal'; names of variants")
    parser.add_argument("--pass", dest="passes", choices=("fwd", "bwd"), action="append")
    parser.add_argument("--variants", action="store_true", help="variants beside FlexAttention")
    parser.add_argument("--no-flex", dest="flex", action="store_false", help="without it: it compiles for seconds")
    parser.add_argument("--det", action="store_true", help="time the deterministic backward too")
    parser.add_argument("--fa3", metavar="FOLDER", help="of a built FlashAttention-3, which is timed then")
    parser.add_argument("--target", choices=("sm80", "sm90"), help="fagen's kernels; its own choice if not given")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600, help="start no cell after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", help="write what was measured as JSON")
    parser.add_argument("--show", nargs="+", metavar="FILE", help="merge and print saved runs")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--short", action="store_true", help="with --show: the table of the README")
    parser.add_argument("--plot", metavar="PNG")
    options = parser.parse_args()
    options.passes = options.passes or ["fwd", "bwd"]
    if options.variants:
        show_variants(options) if options.show else run_variants(options)
        return
    if options.show:
        runs = merge(options.show)
        if options.short:
            print_short(runs)
        else:
            print_head(options.markdown)
            for run in runs:
                print_row(run, options.markdown)
    else:
        runs = run_cells(options)
    print_means(runs)
    if options.plot:
        plot(runs, options.plot)


if __name__ == "__main__":
    main()
