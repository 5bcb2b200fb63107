#!/usr/bin/env python3
"""Looks for better tiles and schedules than those in templates/sm90/tiles.lua and tiles_bwd.lua.

    tune.py compile 'fwd bf16 d160 S512,4096' 'bwd bf16 d128 causal S4096' --out DIR    needs no GPU
    tune.py time DIR                                                         on a GPU, with PyTorch

A row is the words of a spec and sequence lengths; B and H (as H32/8) give batch and heads, otherwise the
problem has 16384 tokens and heads x dim = 2048. `compile` enumerates the tiles that registers and shared
memory allow, writes for each an overlay of templates whose sm90/candidate.lua names it, and compiles that:
candidates that spill, or whose products the compiler serialises, fall out with the reason. --only keeps
candidates with these values: --only keys=64,96 turns=1.

`time` checks the rest against float64, leaves out whose error is more than 1.08 of the better of cuDNN's and
FA2's, times all once and then the best in turns with the current row and cuDNN. It prints for every length
TFLOP/s with their spread over the turns, clock and tensor utilisation (the card is power-limited: a figure says
little without its clock), and a row to be pasted into the table if one is ahead of the current in every turn.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import warnings

import compare

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


# ---- Rows --------------------------------------------------------------------------------------------


def read_row(text):
    """{"spec": words, "pass", "dtype", "dim_qk", "dim_v", "group", "causal", "det", "problems": [...]}"""
    words, lengths, batch, heads = [], [], None, None
    for word in text.split():
        if match := re.fullmatch(r"S([\d,]+)", word):
            lengths = [int(length) for length in match[1].split(",")]
        elif match := re.fullmatch(r"B(\d+)", word):
            batch = int(match[1])
        elif match := re.fullmatch(r"H(\d+)(?:/(\d+))?", word):
            heads = int(match[1]), int(match[2] or match[1])
        else:
            words.append(word)

    def number(pattern, otherwise):
        return next((int(m[1]) for w in words if (m := re.fullmatch(pattern, w))), otherwise)

    dim = number(r"d(\d+)", 0)
    group = heads[0] // heads[1] if heads else number(r"gqa(\d+)", 1)
    if not dim or not lengths or words[0] not in ("fwd", "bwd"):
        sys.exit(f"tune.py: row '{text}': as 'fwd bf16 d128 causal S512,4096'")
    if group > 1 and f"gqa{group}" not in words:
        words.append(f"gqa{group}")
    heads = heads or (max(1, 2048 // dim // group) * group, max(1, 2048 // dim // group))
    return {"spec": " ".join([words[0], "sm90", *words[1:]]), "pass": words[0],
            "dtype": "f16" if "f16" in words else "bf16", "dim_qk": dim, "dim_v": number(r"v(\d+)", dim),
            "group": group,
            "causal": "causal" in words, "det": "det" in words,
            "problems": [{"seqlen": s, "batch": batch or max(1, 16384 // s), "heads": heads[0],
                          "heads_kv": heads[1]} for s in lengths]}


# ---- Candidates --------------------------------------------------------------------------------------
# Registers a thread: what tiles take of a consumer's may leave SPARE for addresses and sums at least; the
# compiler decides. Shared memory, in bytes, as tiles.lua counts it; it checks again.

SPARE = 24
MOST_SPILLED = 128  # bytes: the warps that serve backward's consumers have few registers
BLOCK_BYTES, BARRIER_BYTES, ROW_BYTES = 227 * 1024, 1024, 128
FORWARD_REGISTERS = {2: 232, 3: 160, 4: 112}  # of a consumer, by warpgroups
BACKWARD_REGISTERS = {2: 240, 3: 160}


def chunks(columns):
    return -(-columns // 64)


def forward_candidates(row):
    """S, P, O and perhaps Q in registers; K and V in rings, Q and what leaves of O beside them."""
    for warpgroups, keys, stages, q_buffers, q_registers in itertools.product(
            (2, 3, 4), range(48, 257, 16), (2, 3), (1, 2), (False, True)):
        used = keys // 2 + keys // 4 + row["dim_v"] // 2 + q_registers * row["dim_qk"] // 4
        strips = free_strips(row, warpgroups, keys, stages, q_buffers)
        if used + SPARE > FORWARD_REGISTERS[warpgroups] or strips < 1:
            continue
        for turns, every_peak in itertools.product((False, True), (False, True)):
            yield {"warpgroups": warpgroups, "keys": keys, "stages": stages, "q_buffers": q_buffers,
                   "strips": strips, "turns": turns, "every_peak": every_peak, "q_registers": q_registers}


def free_strips(row, warpgroups, keys, stages, q_buffers):
    """Of O that shared memory holds beside the rings and Q."""
    qk_chunks, v_chunks = chunks(row["dim_qk"]), chunks(row["dim_v"])
    free = BLOCK_BYTES - BARRIER_BYTES - stages * (qk_chunks + v_chunks) * keys * ROW_BYTES
    free -= warpgroups * q_buffers * qk_chunks * 64 * ROW_BYTES
    return min(v_chunks, free // (warpgroups * 64 * ROW_BYTES))


def backward_candidates(row):
    """Tiles, and for groups of heads into how many parts they are divided, a block each."""
    for tile in backward_tiles(row):
        yield tile
        if row["group"] > 1 and not row["det"]:
            yield from ({**tile, "parts": parts} for parts in range(1, row["group"] + 1)
                        if row["group"] % parts == 0)


def backward_tiles(row):
    """dK and dV in registers, with S and dP and some of V, or with dQ where columns are divided."""
    dim_qk, dim_v = row["dim_qk"], row["dim_v"]
    if max(dim_qk, dim_v) <= 128:
        for queries, v_steps in itertools.product((64, 128), range(1, min(4, -(-dim_v // 16)) + 1)):
            if queries + (dim_qk + dim_v) // 2 + 4 * v_steps + SPARE <= BACKWARD_REGISTERS[2]:
                yield {"queries": queries, "keys": 128, "warpgroups": 2, "v_steps": v_steps}
    for warpgroups, keys in itertools.product((2, 3), range(48, 129, 16)):
        slices = sum(-(-chunks(dim) // warpgroups) for dim in (dim_qk, dim_v))
        products = max(32, keys // warpgroups)  # dQ, or S and dP
        if keys % (8 * warpgroups) == 0 and \
                slices * keys // 2 + products + SPARE <= BACKWARD_REGISTERS[warpgroups]:
            yield {"queries": 64, "keys": keys, "warpgroups": warpgroups, "wide": True}


def label(candidate):
    """64x128 and so on: rows x keys, then what else is chosen."""
    rows = candidate.get("queries") or 64 * candidate["warpgroups"]
    parts = [f"{rows}x{candidate['keys']}"]
    for name, value in candidate.items():
        if value and name not in ("keys", "queries"):
            parts.append(name if value is True else f"{name}{value}")
    return "_".join(parts)


def lua(candidate, reason):
    values = ", ".join(f"{name} = {str(value).lower()}" for name, value in candidate.items())
    return f'{{ {values}, reason = "{reason}" }}'


def overlay_of(out, row, candidate):
    return out / row["spec"].replace(" ", "_") / label(candidate)


def write_overlay(folder, row, candidate):
    (folder / "sm90").mkdir(parents=True, exist_ok=True)
    field = "forward = { %s }" if row["pass"] == "fwd" else "backward = %s"
    (folder / "sm90" / "candidate.lua").write_text(f"return {{ {field % lua(candidate, 'to be tried')} }}\n")


# ---- Compiling ---------------------------------------------------------------------------------------


def compile_one(program, spec, folder, cache):
    """What `fagen compile` says of the worst entry: registers, spilled bytes, warning; or a failure."""
    environment = {**os.environ, "FA_CACHE_DIR": str(cache), "FA_TEMPLATE_DIR": str(folder or "")}
    done = subprocess.run([program, "compile", spec, "--jobs", "1"], env=environment, text=True,
                          capture_output=True)
    if done.returncode == 3:
        sys.exit(f"tune.py: {done.stderr.strip()}")
    if done.returncode:
        return {"failure": done.stderr.strip().split("\n")[-1]}
    entries = re.findall(r"(\d+) +(\d+) +(-|C\d+) +\d+ \+ [\d?]+", done.stdout)
    warnings = [warning for _, _, warning in entries if warning != "-"]
    return {"registers": max(int(r) for r, _, _ in entries), "spilled": max(int(s) for _, s, _ in entries),
            "warning": warnings[0] if warnings else None}


def verdict(result):
    """Why a candidate falls out, or None."""
    if "failure" in result:
        return result["failure"]
    if result["warning"]:
        return f"{result['warning']}: its products are serialised"
    if result["spilled"] > MOST_SPILLED:
        return f"{result['spilled']} bytes of spills"
    return None


def wanted(candidate, only):
    given = dict(item.split("=", 1) for item in only)
    return all(str(int(candidate.get(name, 0))) in values.split(",") for name, values in given.items())


def compile_row(text, options, pool):
    row = read_row(text)
    enumerate_candidates = forward_candidates if row["pass"] == "fwd" else backward_candidates
    candidates = [c for c in enumerate_candidates(row) if wanted(c, options.only)]
    overlays = [overlay_of(options.out, row, candidate) for candidate in candidates]
    for overlay, candidate in zip(overlays, candidates):
        write_overlay(overlay, row, candidate)
    results = list(pool.map(lambda overlay: compile_one(options.program, row["spec"], overlay,
                                                        options.out / "cache"), [None, *overlays]))
    if verdict(results[0]):
        print(f"{text}: the current row: {verdict(results[0])}")
    row["candidates"] = []
    print(f"{text}: {len(candidates)} candidates")
    for candidate, result in zip(candidates, results[1:]):
        why = verdict(result)
        print(f"  {label(candidate):64} {'out: ' + why if why else str(result['registers']) + ' registers'}")
        if not why:
            row["candidates"].append(candidate)
    print(f"  {len(row['candidates'])} are left")
    return row


def compile_rows(options):
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "cache").mkdir(mode=0o700, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = [compile_row(text, options, pool) for text in options.rows]
    (options.out / "rows.json").write_text(json.dumps(rows, indent=1))
    if not any(row["candidates"] for row in rows):
        sys.exit("tune.py: no candidate is left")


# ---- Running -----------------------------------------------------------------------------------------


class Contestant:
    """The kernels of one overlay, or of none, on the tensors of a problem."""

    def __init__(self, fagen, row, candidate, folder):
        self.fagen, self.row, self.candidate, self.folder = fagen, row, candidate, folder

    def forward(self, q, k, v):
        self.fagen.template_dir = self.folder if self.row["pass"] == "fwd" else None
        return self.fagen.forward(q, k, v, causal=self.row["causal"])

    def backward(self, do, q, k, v, o, lse):
        self.fagen.template_dir = self.folder
        return self.fagen.backward(do, q, k, v, o, lse, causal=self.row["causal"],
                                   deterministic=self.row["det"])

    def results(self, tensors):
        do, q, k, v = tensors
        o, lse = self.forward(q, k, v)
        return (o,) if self.row["pass"] == "fwd" else self.backward(do, q, k, v, o, lse)

    def call(self, tensors):
        """The pass alone, to be captured."""
        do, q, k, v = tensors
        if self.row["pass"] == "fwd":
            return lambda: self.forward(q, k, v)
        o, lse = self.forward(q, k, v)
        return lambda: self.backward(do, q, k, v, o, lse)


LONGEST_CHECKED = 2048  # float64 scores of more are a burden
PEERS = ("cuDNN", "FA2")


def make_tensors(torch, row, batch, heads, heads_kv, seqlen_q, seqlen_k):
    """dO, Q, K and V."""
    dtype = torch.float16 if row["dtype"] == "f16" else torch.bfloat16

    def randn(seqlen, heads, dim):
        return torch.randn(batch, seqlen, heads, dim, device="cuda").to(dtype)

    return (randn(seqlen_q, heads, row["dim_v"]), randn(seqlen_q, heads, row["dim_qk"]),
            randn(seqlen_k, heads_kv, row["dim_qk"]), randn(seqlen_k, heads_kv, row["dim_v"]))


def reference(torch, row, tensors):
    """O, or dQ, dK and dV, in float64."""
    do, q, k, v = (t.double().transpose(1, 2) for t in tensors)
    leaves = [t.detach().requires_grad_(row["pass"] == "bwd") for t in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    q, k, v = leaves[0], *(t.repeat_interleave(group, 1) for t in leaves[1:])
    scores = q @ k.transpose(2, 3) / math.sqrt(row["dim_qk"])
    if row["causal"]:
        shift = k.shape[2] - q.shape[2]
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device="cuda").triu(shift + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    o = torch.softmax(scores, -1) @ v
    outputs = (o,) if row["pass"] == "fwd" else torch.autograd.grad(o, leaves, do)
    return [t.detach().transpose(1, 2) for t in outputs]


def error(results, wanted_results):
    """The largest relative Frobenius error of the outputs; NaN is the largest of all."""
    errors = [((r.double() - w).norm() / w.norm()).item() for r, w in zip(results, wanted_results)]
    return math.inf if any(e != e for e in errors) else max(errors)


def limit(row):
    """Of errors against float64 on randn."""
    limits = {("fwd", "bf16"): 2.4e-3, ("fwd", "f16"): 3.0e-4, ("bwd", "bf16"): 2.7e-3, ("bwd", "f16"): 3.4e-4}
    return limits[row["pass"], row["dtype"]]


def peer_call(torch, peer, row, tensors):
    """PyTorch's attention by "cuDNN" or "FA2"."""
    from torch.nn.attention import SDPBackend
    backend = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}[peer]
    do, q, k, v = tensors
    return compare.peers(torch, backend, q, k, v, do, row["causal"], row["pass"])


def peer_results(torch, peer, row, tensors):
    results = peer_call(torch, peer, row, tensors)()
    return [t.transpose(1, 2) for t in (results if row["pass"] == "bwd" else (results,))]


def errors_of(torch, row, computed, shape):
    """By name, of functions from tensors to results; one that does not take the case is left out."""
    tensors = make_tensors(torch, row, *shape)
    right = reference(torch, row, tensors)
    errors = {}
    for name, compute in computed.items():
        try:
            errors[name] = error(compute(tensors), right)
        except RuntimeError as failure:
            print(f"  {name}: {str(failure).splitlines()[0]}")
    return errors


def small_shape(problem, batch, seqlen_q, seqlen_k):
    group = problem["heads"] // problem["heads_kv"]
    return batch, 2 * group, 2, seqlen_q, seqlen_k


def right_ones(torch, row, contestants):
    """Those that agree with float64 on odd shapes."""
    right = dict(contestants)
    for lengths in ((200, 333), (77, 91)):
        shape = small_shape(row["problems"][0], 2, *lengths)
        errors = errors_of(torch, row, {name: c.results for name, c in right.items()}, shape)
        for name in list(right):
            if errors.get(name, math.inf) > limit(row):
                print(f"  {name}: WRONG, error {errors.get(name)} at {shape}")
                del right[name]
    return right


def errors_at_length(torch, row, contestants, problem):
    """Of those and of the peers, at the problem's length or the longest that is no burden."""
    length = min(problem["seqlen"], LONGEST_CHECKED)
    computed = {name: c.results for name, c in contestants.items()}
    for peer in PEERS:
        computed[peer] = lambda tensors, peer=peer: peer_results(torch, peer, row, tensors)
    return errors_of(torch, row, computed, small_shape(problem, 4, length, length))


def precise_ones(contestants, errors):
    """Those whose error is at most 1.08 of the better peer's, and the current row."""
    most = 1.08 * min((errors[peer] for peer in PEERS if peer in errors), default=math.inf)
    return {name: c for name, c in contestants.items() if name == "now" or errors.get(name, math.inf) <= most}


# ---- Timing ------------------------------------------------------------------------------------------


def replay(torch, captured):
    """Milliseconds a call, and the clock under way."""
    graph, count, _ = captured
    ms, mhz = compare.elapsed_ms(torch, graph.replay, lambda: compare.clock_mhz(torch))
    return ms / count, mhz


def captured_calls(torch, row, contestants, tensors):
    """Graphs by name; cuDNN's too where it takes the case."""
    graphs = {name: compare.capture(torch, lambda c=c: c.call(tensors)) for name, c in contestants.items()}
    try:
        graphs["cuDNN"] = compare.capture(torch, lambda: peer_call(torch, "cuDNN", row, tensors))
    except RuntimeError as failure:
        print(f"  cuDNN left out: {str(failure).splitlines()[0]}")
    return graphs


def measure(torch, row, problem, contestants, options):
    """{name: {"ms": [...], "mhz": [...]}}: all once, the best of them, the current row and cuDNN in turns."""
    tensors = make_tensors(torch, row, problem["batch"], problem["heads"], problem["heads_kv"],
                           problem["seqlen"], problem["seqlen"])
    graphs = captured_calls(torch, row, contestants, tensors)
    for captured in graphs.values():
        replay(torch, captured)
    once = {name: replay(torch, captured)[0] for name, captured in graphs.items()}
    best = sorted((name for name in contestants if name != "now"), key=once.get)[:options.keep]
    kept = [name for name in graphs if name in ("now", "cuDNN") or name in best]
    runs = {name: {"ms": [], "mhz": []} for name in kept}
    for _ in range(options.turns):
        for name in kept:
            ms, mhz = replay(torch, graphs[name])
            runs[name]["ms"].append(ms)
            runs[name]["mhz"].append(mhz)
    return runs


# ---- Reporting ---------------------------------------------------------------------------------------


def tflops(row, problem, ms):
    pairs = problem["batch"] * problem["heads"] * problem["seqlen"] ** 2 * (0.5 if row["causal"] else 1.0)
    return 2.0 * pairs * (row["dim_qk"] + row["dim_v"]) * (1.0 if row["pass"] == "fwd" else 2.5) / ms * 1e-9


def figures(row, problem, runs, name, processors):
    """Of a contestant: median TFLOP/s, spread in percent, MHz, tensor utilisation in percent; and its speed over
    the current row's, turn by turn, since both meet the same clocks: the median and the least."""
    run = runs[name]
    median, mhz = tflops(row, problem, statistics.median(run["ms"])), statistics.median(run["mhz"])
    peak = processors * 4096 * mhz * 1e-6  # 16-bit products and sums a clock and multiprocessor
    ratios = [now / ms for now, ms in zip(runs["now"]["ms"], run["ms"])]
    return {"tflops": median, "spread": compare.spread(run["ms"]), "mhz": mhz,
            "busy": 100.0 * median / peak if mhz else math.nan,
            "of_now": statistics.median(ratios), "least_of_now": min(ratios)}


def print_figures(measured, errors):
    cudnn = measured.get("cuDNN", {"of_now": math.nan})["of_now"]
    for name, f in sorted(measured.items(), key=lambda item: -item[1]["of_now"]):
        error_told = f"error {errors[name]:.2e}" if name in errors else ""
        print(f"  {name:64} {f['tflops']:6.0f} TFLOP/s ({f['spread']:4.1f} %) {f['mhz']:5.0f} MHz"
              f" {f['busy']:4.0f} % busy  {f['of_now']:5.3f} of now (least {f['least_of_now']:5.3f})  {f['of_now'] / cudnn:5.3f} of cuDNN"
              f"  {error_told}", flush=True)


def print_proposal(measured, contestants):
    """The fastest, if it is ahead of the current row in every turn."""
    ranked = sorted((name for name in measured if name in contestants), key=lambda name: -measured[name]["of_now"])
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else "now"
    best, now = measured[first], measured["now"]
    told = (f"{best['tflops']:.0f} TFLOP/s at {best['mhz']:.0f} MHz, {best['busy']:.0f} % busy; "
            f"{best['of_now']:.3f} of the row before; {second} {measured[second]['of_now']:.3f}")
    if best["least_of_now"] <= 1.0:
        print(f"  proposal: keep the row, {now['tflops']:.0f} TFLOP/s; first is {first}: {told}")
    else:
        print(f"  proposal: {lua(contestants[first].candidate, told)}")


def time_problem(torch, row, problem, contestants, options):
    print("{} B{batch} H{heads}/{heads_kv} S{seqlen}".format(row["spec"], **problem))
    errors = errors_at_length(torch, row, contestants, problem)
    precise = precise_ones(contestants, errors)
    if len(precise) < len(contestants):
        print(f"  not timed: {len(contestants) - len(precise)} whose error is more than 1.08 of the better peer's")
    print("  errors of peers: " + ", ".join(f"{peer} {errors[peer]:.2e}" for peer in PEERS if peer in errors))
    runs = measure(torch, row, problem, precise, options)
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    measured = {name: figures(row, problem, runs, name, processors) for name in runs}
    print_figures(measured, errors)
    print_proposal(measured, contestants)
    torch.cuda.empty_cache()


def time_rows(options):
    import torch
    if not torch.cuda.is_available():
        sys.exit("tune.py: no GPU that PyTorch can use; `tune.py compile` needs none")
    os.environ["FA_CACHE_DIR"] = str(options.folder / "cache")
    sys.path.insert(0, str(ROOT / "examples" / "pytorch"))
    import fagen
    fagen.target = "sm90"
    warnings.simplefilter("ignore")  # PyTorch's, of each backend that it may not use
    torch.manual_seed(options.seed)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for row in json.loads((options.folder / "rows.json").read_text()):
        contestants = {label(c): Contestant(fagen, row, c, overlay_of(options.folder, row, c))
                       for c in row["candidates"]}
        contestants["now"] = Contestant(fagen, row, None, None)
        right = right_ones(torch, row, contestants)
        if "now" not in right:
            print(f"{row['spec']}: the current row is wrong; nothing is timed")
            continue
        for problem in row["problems"]:
            time_problem(torch, row, problem, right, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("compile", help="enumerate candidates and compile them; needs no GPU")
    command.add_argument("rows", nargs="+", metavar="ROW", help="as 'fwd bf16 d128 causal S512,4096'")
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.add_argument("--only", nargs="+", default=[], metavar="NAME=VALUE,...")
    command.add_argument("--program", default=str(ROOT / "build" / "fagen"))
    command.add_argument("--jobs", type=int, default=os.cpu_count())
    command.set_defaults(run=compile_rows)
    command = commands.add_parser("time", help="time what was compiled, on a GPU, and propose rows")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--turns", type=int, default=5)
    command.add_argument("--keep", type=int, default=4, help="candidates that are timed in turns")
    command.add_argument("--seed", type=int, default=0)
    command.set_defaults(run=time_rows)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
