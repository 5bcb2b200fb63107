"""The problems of compare.py --variants: for each, fagen's variants and FlexAttention's functions for the same.

FlexAttention (torch.nn.attention.flex_attention) is compiled by torch.compile; its first call takes seconds.
FLOPs are those of the pairs that the mask keeps, counted one query at a time.
"""

import dataclasses
import pathlib
import sys
import time
import typing


@dataclasses.dataclass
class Problem:
    name: str
    batch: int
    heads: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int
    dim: int
    pairs: int  # that a head of a batch entry sees
    causal: bool = False
    variants: str = ""  # fagen's
    params: dict = dataclasses.field(default_factory=dict)
    keeps: typing.Callable | None = None  # FlexAttention's mask_mod and score_mod
    scores: typing.Callable | None = None
    workspace_limit: int = 0  # MiB, of one more contestant

    def flops(self, which):
        return 4.0 * self.batch * self.heads * self.pairs * self.dim * (1.0 if which == "fwd" else 2.5)


def square(name, seqlen, pairs, **how):
    return Problem(name, 2, 16, 16, seqlen, seqlen, 128, pairs, **how)


def causal_pairs(seqlen):
    return seqlen * (seqlen + 1) // 2


def causal_keeps(_b, _h, q, k):
    return k <= q


def window(torch, left=1024, seqlen=8192):
    return square("window1024", seqlen, sum(min(q, left) + 1 for q in range(seqlen)), variants="window",
                  params={"window.left": left, "window.right": 0},
                  keeps=lambda _b, _h, q, k: (k <= q) & (q - k <= left))


def softcap(torch, cap=30.0, seqlen=8192):
    return square("softcap causal", seqlen, causal_pairs(seqlen), causal=True, variants="softcap",
                  params={"softcap.cap": cap}, keeps=causal_keeps,
                  scores=lambda score, _b, _h, _q, _k: cap * torch.tanh(score / cap))


def alibi(torch, seqlen=8192):
    slopes = torch.exp2(-0.5 * torch.arange(1, 17, device="cuda", dtype=torch.float32))
    return square("alibi causal", seqlen, causal_pairs(seqlen), causal=True, variants="alibi",
                  params={"alibi.slopes": slopes}, keeps=causal_keeps,
                  scores=lambda score, _b, h, q, k: score - slopes[h] * (q - k).abs())


def document(torch, length=1000, seqlen=8192):
    ids = (torch.arange(seqlen, device="cuda") // length).to(torch.int32)
    tables = ids.repeat(2, 1).contiguous()
    return square("document causal", seqlen, sum(q % length + 1 for q in range(seqlen)), causal=True,
                  variants="document", params={"document.q_ids": tables, "document.k_ids": tables},
                  keeps=lambda _b, _h, q, k: (k <= q) & (ids[q] == ids[k]))


def block_draft(torch, prefix=8000, blocks=1024, rows=32):
    """Training of a drafter: 1024 blocks of 32 drafted rows, each after its own part of 8000 cached tokens."""
    anchor = torch.randint(64, prefix, (blocks,), device="cuda", dtype=torch.int32).sort().values

    def keeps(_b, _h, q, k):
        block = q // rows
        return torch.where(k < prefix, k < anchor[block], (k - prefix) // rows == block)

    queries = blocks * rows
    return Problem("block_draft", 1, 32, 8, queries, prefix + queries, 128,
                   rows * int(anchor.sum()) + queries * rows, variants="block_draft",
                   params={"block_draft.block": rows, "block_draft.window": -1, "block_draft.anchor": anchor},
                   keeps=keeps, workspace_limit=300)


PROBLEMS = (window, softcap, alibi, document, block_draft)


def tensors(torch, problem):
    """dO, Q, K, V."""
    def randn(seqlen, heads):
        return torch.randn(problem.batch, seqlen, heads, problem.dim, device="cuda", dtype=torch.bfloat16)

    queries = (problem.seqlen_q, problem.heads)
    keys = (problem.seqlen_k, problem.heads_kv)
    return randn(*queries), randn(*queries), randn(*keys), randn(*keys)


# ---- Contestants ---------------------------------------------------------------------------------------


class Fagen:
    def __init__(self, options, problem, workspace_limit=0):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch"))
        import fagen
        self.fagen, self.limit = fagen, workspace_limit * 2**20
        fagen.target = options.target
        self.how = {"causal": problem.causal, "variants": problem.variants, "params": problem.params}

    def forward(self, do, q, k, v):
        o, lse = self.fagen.forward(q, k, v, **self.how)
        return lambda: self.fagen.forward(q, k, v, **self.how), (o, lse)

    def backward(self, do, q, k, v, made):
        return lambda: self.fagen.backward(do, q, k, v, *made, workspace_limit=self.limit, **self.how)


class Flex:
    def __init__(self, torch, problem):
        from torch.nn.attention import flex_attention
        torch._dynamo.reset()  # there is a limit to what is compiled of one function
        torch._functorch.config.donated_buffer = False  # backward is called again and again
        self.torch = torch
        self.grouped = problem.heads != problem.heads_kv
        self.scores = problem.scores
        make_mask = torch.compile(flex_attention.create_block_mask)
        self.mask = make_mask(problem.keeps, None, None, problem.seqlen_q, problem.seqlen_k, device="cuda")
        self.attention = torch.compile(flex_attention.flex_attention)

    def forward(self, do, q, k, v):
        views = [t.transpose(1, 2).detach().requires_grad_() for t in (q, k, v)]

        def call():
            return self.attention(*views, score_mod=self.scores, block_mask=self.mask, enable_gqa=self.grouped)

        return call, (call(), views)

    def backward(self, do, q, k, v, made):
        o, views = made
        return lambda: self.torch.autograd.grad(o, views, do.transpose(1, 2), retain_graph=True)


def first_seconds(torch, call):
    begin = time.monotonic()
    result = call()
    torch.cuda.synchronize()
    return time.monotonic() - begin, result


class Contestant:
    """Called once forward and backward: seconds of the first calls, and of a later pair the MiB beside dO, Q, K
    and V: O, LSE, gradients and workspace."""

    def __init__(self, torch, attention, given):
        self.attention, self.given, self.first = attention, given, {}
        self.first["fwd"], (_, made) = first_seconds(torch, lambda: attention.forward(*given))
        self.first["bwd"], _ = first_seconds(torch, attention.backward(*given, made))
        del made, _
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self.call("bwd")()
        self.mib = (torch.cuda.max_memory_allocated() - before) / 2**20

    def call(self, which):
        """Of the pass alone; what backward needs is made now, on the current stream."""
        again, made = self.attention.forward(*self.given)
        return again if which == "fwd" else self.attention.backward(*self.given, made)


def makers(torch, problem, options):
    """Functions that make the contestants, by name."""
    found = {"fagen": lambda: Fagen(options, problem)}
    if problem.workspace_limit:
        found["fagen_limited"] = lambda: Fagen(options, problem, problem.workspace_limit)
    if options.flex:
        found["flex"] = lambda: Flex(torch, problem)
    return found

