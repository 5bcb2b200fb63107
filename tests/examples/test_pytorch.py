"""test_pytorch.py: fagen.py on PyTorch tensors against PyTorch's own autograd in float64, on the
processor, and on a GPU where there is one. Variants are shipped ones and those of
tests/numeric/overlay."""

import math
import sys
import traceback

import torch

import fagen

INF = float("inf")


# ---- Attention in float64 ------------------------------------------------------------------------


def positions(q, k):
    """Of queries (column) and keys (row) on the key axis."""
    rows = torch.arange(q.shape[1], device=q.device)
    keys = torch.arange(k.shape[1], device=q.device)
    return rows[:, None] + k.shape[1] - q.shape[1], keys


def attention(q, k, v, keep=None, score=None, sink=None):
    """O and LSE; keep and score take what they change and the positions, sink is a logit a head."""
    group = q.shape[2] // k.shape[2]
    k, v = (t.repeat_interleave(group, dim=2) for t in (k, v))
    s = torch.einsum("bihc,bjhc->bhij", q, k) / math.sqrt(q.shape[3])
    at = positions(q, k)
    s = score(s, *at) if score else s
    s = s.masked_fill(~keep(*at), -INF) if keep else s
    terms = s
    if sink is not None:
        terms = torch.cat([s, sink[None, :, None, None].expand(*s.shape[:3], 1)], dim=3)
    lse = torch.logsumexp(terms, dim=3)
    p = torch.exp(s - torch.where(lse == -INF, 0.0, lse)[..., None])
    return torch.einsum("bhij,bjhc->bihc", p, v), lse


def causal(q, k):
    return k <= q


# ---- Comparing -----------------------------------------------------------------------------------


def assert_near(name, got, wanted, limit):
    got, wanted = got.double(), wanted.double()
    assert got.shape == wanted.shape, f"{name}: {tuple(got.shape)}, wanted {tuple(wanted.shape)}"
    finite = torch.isfinite(wanted)
    assert torch.equal(got[~finite], wanted[~finite]), f"{name}: infinities differ"
    error = (got - wanted)[finite].norm() / wanted[finite].norm().clamp(min=1e-30)
    assert error <= limit, f"{name}: error {error:.2e}, limit {limit:.1e}"


def inputs(device, dtype, seqlen_q=33, seqlen_k=50, heads=4, heads_kv=2, dim=40, dim_v=24):
    torch.manual_seed(seqlen_q * seqlen_k + heads)
    q = torch.randn(2, seqlen_q, heads, dim)
    k = torch.randn(2, seqlen_k, heads_kv, dim)
    v = torch.randn(2, seqlen_k, heads_kv, dim_v)
    return [t.to(dtype).to(device) for t in (q, k, v)]


def check(device, dtype, words, params=None, learned=(), **formula):
    """Both passes with these variants against autograd. learned names the params with gradients;
    formula gets all params in float64, by their names without the variant."""
    limit = {torch.float32: 5e-6, torch.bfloat16: 4e-3, torch.float16: 6e-4}[dtype]
    q, k, v = inputs(device, dtype)
    exact = {}
    for name, value in (params or {}).items():
        exact[name] = torch.as_tensor(value, device=device).double().requires_grad_(name in learned)
    p = {name.split(".")[1]: value for name, value in exact.items()}
    q64, k64, v64 = (t.double().requires_grad_() for t in (q, k, v))
    made = {key: make(p) for key, make in formula.items()}
    o64, lse64 = attention(q64, k64, v64, **made)
    do = torch.randn_like(o64).to(dtype)
    o64.backward(do.double())

    names = [word for word in words if word != "causal"]
    options = dict(causal="causal" in words, variants=names, params=params)
    o, lse = fagen.forward(q, k, v, **options)
    gradients = fagen.backward(do, q, k, v, o, lse, **options)
    assert_near("o", o, o64, limit)
    assert_near("lse", lse, lse64, limit)
    for name, got, leaf in zip(("dq", "dk", "dv"), gradients, (q64, k64, v64)):
        assert_near(name, got, leaf.grad, limit)
    assert len(gradients) == (4 if learned else 3), f"{len(gradients)} results"
    if learned:
        assert set(gradients[3]) == set(learned), f"gradients by {sorted(gradients[3])}"
        for name in learned:
            assert_near("d " + name, gradients[3][name], exact[name].grad, 4 * limit)


# ---- Cases ---------------------------------------------------------------------------------------


def plain_and_causal(device, dtype):
    check(device, dtype, [])
    check(device, dtype, ["causal"], keep=lambda p: causal)


def a_scalar_without_gradient(device, dtype):
    check(device, dtype, ["softcap"], {"softcap.cap": 3.5},
          score=lambda p: lambda s, i, j: p["cap"] * torch.tanh(s / p["cap"]))


def a_scalar_as_a_tensor(device, dtype):
    check(device, dtype, ["softcap", "causal"], {"softcap.cap": torch.tensor(2.0, device=device)},
          score=lambda p: lambda s, i, j: p["cap"] * torch.tanh(s / p["cap"]), keep=lambda p: causal)


def a_mask_of_integer_tables(device, dtype):
    torch.manual_seed(1)
    q_ids = torch.randint(0, 3, (2, 33), dtype=torch.int32, device=device)
    k_ids = torch.randint(0, 3, (2, 50), dtype=torch.int32, device=device)
    check(device, dtype, ["document"], {"document.q_ids": q_ids, "document.k_ids": k_ids},
          keep=lambda p: lambda i, j: (q_ids[:, :, None] == k_ids[:, None, :])[:, None])


def gradients_by_tables_and_a_scalar(device, dtype):
    torch.manual_seed(2)
    table = torch.randn(4, 21, device=device)
    check(device, dtype, ["bias"], {"bias.table": table}, ["bias.table"],
          score=lambda p: lambda s, i, j: s + p["table"][:, (j - i + 10).clamp(0, 20)])
    check(device, dtype, ["gated"], {"gated.gain": 1.5}, ["gated.gain"],
          score=lambda p: lambda s, i, j: p["gain"] * torch.sign(s) * torch.log1p(s.abs()))


def a_sink(device, dtype):
    logit = torch.tensor([0.5, -1.0, 2.0, 0.0], device=device)
    check(device, dtype, ["causal", "sink"], {"sink.logit": logit}, ["sink.logit"],
          keep=lambda p: causal, sink=lambda p: p["logit"])


def variants_compose_in_order(device, dtype):
    slopes = torch.tensor([0.1, 0.2, 0.3, 0.4], device=device)
    bend = dict(params={"softcap.cap": 2.0, "alibi.slopes": slopes})

    def softcap(p, s):
        return p["cap"] * torch.tanh(s / p["cap"])

    def alibi(p, s, i, j):
        return s - p["slopes"][:, None, None] * (i - j).abs()

    check(device, dtype, ["softcap", "alibi"],
          score=lambda p: lambda s, i, j: alibi(p, softcap(p, s), i, j), **bend)
    check(device, dtype, ["alibi", "softcap"],
          score=lambda p: lambda s, i, j: softcap(p, alibi(p, s, i, j)), **bend)


def strides_are_the_tensors_own(device, dtype):
    q, k, v = inputs(device, dtype)
    wanted = fagen.forward(q, k, v)[0]
    packed = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    assert torch.equal(fagen.forward(*packed)[0], wanted), "by heads"
    names = fagen.forward(q, k, v, variants="twice ahead")[0]
    assert torch.equal(fagen.forward(q, k, v, variants=["twice", "ahead"])[0], names), "one string"


def mistakes_are_told(device, dtype):
    q, k, v = inputs(device, dtype)
    cap = {"softcap.cap": 1.0}
    wrong = [
        (fagen.Error, "softcap.cap: missing", dict(variants=["softcap"])),
        (fagen.Error, "softcap.cap: 0; must be",
         dict(variants=["softcap"], params={"softcap.cap": 0.0})),
        (fagen.Error, "'softcap.cap' is no parameter", dict(params=cap)),
        (fagen.Error, "'softcup'", dict(variants=["softcup"])),
        (fagen.Error, "alibi.slopes: length 3; must be heads_q = 4",
         dict(variants=["alibi"], params={"alibi.slopes": torch.ones(3, device=device)})),
        (ValueError, "alibi.slopes: torch.float64",
         dict(variants=["alibi"], params={"alibi.slopes": torch.ones(4, device=device).double()})),
        (ValueError, "contiguous",
         dict(variants=["alibi"], params={"alibi.slopes": torch.ones(8, device=device)[::2]})),
    ]
    for kind, words, options in wrong:
        try:
            fagen.forward(q, k, v, **options)
        except kind as error:
            assert words in str(error), f"'{words}' is not in: {error}"
        else:
            raise AssertionError(f"no {kind.__name__}: {words}")


CASES = [plain_and_causal, a_scalar_without_gradient, a_scalar_as_a_tensor,
         a_mask_of_integer_tables, gradients_by_tables_and_a_scalar, a_sink,
         variants_compose_in_order, strides_are_the_tensors_own, mistakes_are_told]


def main():
    places = [("cpu", torch.float32), ("cpu", torch.bfloat16)]
    if torch.cuda.is_available():
        places += [("cuda", torch.bfloat16), ("cuda", torch.float16)]
    failed = 0
    for device, dtype in places:
        for case in CASES:
            name = f"{case.__name__}, {dtype} on {device}"
            try:
                case(torch.device(device, 0) if device == "cuda" else torch.device(device), dtype)
                print("ok -", name)
            except Exception:
                failed += 1
                print("not ok -", name)
                traceback.print_exc(file=sys.stdout)
    return 1 if failed else 0


sys.exit(main())
