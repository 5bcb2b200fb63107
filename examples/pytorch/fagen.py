"""Attention from libfagen on PyTorch tensors, through ctypes alone.

    o, lse = fagen.forward(q, k, v, causal=True)
    dq, dk, dv = fagen.backward(do, q, k, v, o, lse, causal=True)

    o, lse = fagen.forward(q, k, v, variants=["softcap"], params={"softcap.cap": 30.0})
    dq, dk, dv, dparams = fagen.backward(do, q, k, v, o, lse, variants=["rows"], params=tables)

q, o: batch x seqlen_q x heads_q x dim; k, v: batch x seqlen_k x heads_kv x dim, any strides with a last
stride of 1, on the processor (f16, bf16, f32) or on a GPU (f16, bf16). lse: batch x heads_q x seqlen_q, f32.
Variants act in the order given. params: by "variant.name", a number or 0-dimensional tensor for a scalar, a
contiguous float32 or int32 tensor on q's device for a table. If some have gradients, backward returns these
as well: a dict of float32 tensors by the same names, each shaped as what was given.
The library is $FAGEN_LIBRARY, else build/libfagen.so of this source tree, else the loader's libfagen.so.0.
"""

import ctypes
import os
import pathlib
import threading

import torch

_I32, _I64, _SIZE, _PTR = ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t, ctypes.c_void_p
_DTYPES = {torch.float16: 1, torch.bfloat16: 2, torch.float32: 3}
_TARGETS = {None: 0, "cpu": 1, "sm80": 2, "sm90": 3}
_CPU, _CUDA = 1, 2
_FWD, _BWD = 1, 3
_OK, _INVALID = 0, 10


target = None  # which kernels to use, one of _TARGETS; None: the library's choice
template_dir = None  # a folder of templates that come before the library's own


class Error(RuntimeError):
    """A status of the library other than FA_OK, with its message."""


class _Options(ctypes.Structure):
    _fields_ = [("size", _SIZE), ("backend", _I32), ("device", _I32), ("cu_context", _PTR),
                ("threads", _I32), ("reserved", _I32), ("template_dir", ctypes.c_char_p),
                ("cache_dir", ctypes.c_char_p), ("nvrtc", ctypes.c_char_p), ("log", ctypes.c_char_p),
                ("log_function", ctypes.c_void_p), ("log_user", ctypes.c_void_p)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", _PTR), ("stride_batch", _I64), ("stride_seq", _I64), ("stride_head", _I64)]


class _Param(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("slot", _I32), ("reserved", _I32),
                ("value", ctypes.c_double), ("data", _PTR), ("length", _I64), ("grad", _PTR)]


class _Args(ctypes.Structure):
    _fields_ = [("size", _SIZE), ("batch", _I64), ("heads_q", _I64), ("heads_kv", _I64),
                ("seqlen_q", _I64), ("seqlen_k", _I64), ("softmax_scale", ctypes.c_float),
                ("dtype", _I32), ("dim_qk", _I32), ("dim_v", _I32), ("target", _I32),
                ("causal", _I32), ("deterministic", _I32), ("variants", ctypes.c_char_p),
                ("q", _Tensor), ("k", _Tensor), ("v", _Tensor), ("o", _Tensor), ("lse", _PTR),
                ("dout", _Tensor), ("dlse", _PTR), ("dq", _Tensor), ("dk", _Tensor),
                ("dv", _Tensor), ("params", ctypes.POINTER(_Param)), ("num_params", _SIZE),
                ("workspace", _PTR), ("workspace_size", _SIZE), ("workspace_limit", _SIZE)]


class _Spec(ctypes.Structure):
    _fields_ = [("size", _SIZE), ("pass_", _I32), ("target", _I32), ("arch", _I32), ("dtype", _I32),
                ("dim_qk", _I32), ("dim_v", _I32), ("group", _I32), ("causal", _I32),
                ("deterministic", _I32), ("reserved", _I32), ("variants", ctypes.c_char * 120)]


def _load():
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "libfagen.so"
    path = os.environ.get("FAGEN_LIBRARY") or (str(built) if built.exists() else "libfagen.so.0")
    library = ctypes.CDLL(path)
    library.fa_error_message.restype = ctypes.c_char_p
    library.fa_status_name.restype = ctypes.c_char_p
    library.fa_context_create.argtypes = [ctypes.POINTER(_PTR), ctypes.POINTER(_Options)]
    library.fa_get_kernel.argtypes = [ctypes.POINTER(_PTR), _PTR, ctypes.POINTER(_Spec)]
    library.fa_workspace_size.argtypes = [ctypes.POINTER(_SIZE), _PTR, ctypes.POINTER(_Args)]
    library.fa_launch.argtypes = [_PTR, ctypes.POINTER(_Args), _PTR]
    return library


_library = _load()
_contexts = {}
_contexts_lock = threading.Lock()


def _need(status):
    if status:
        name = _library.fa_status_name(status).decode()
        raise Error(f"{name}: {_library.fa_error_message().decode()}")


def _context(device):
    """The context of a torch device and a folder of templates, made once."""
    key = (*(("cuda", device.index) if device.type == "cuda" else ("cpu", 0)), template_dir)
    with _contexts_lock:
        if key not in _contexts:
            options = _Options(size=ctypes.sizeof(_Options))
            options.backend = _CUDA if key[0] == "cuda" else _CPU
            options.device = key[1] + 1 if key[0] == "cuda" else 0
            options.template_dir = str(template_dir).encode() if template_dir else None
            context = _PTR()
            _need(_library.fa_context_create(ctypes.byref(context), ctypes.byref(options)))
            _contexts[key] = context
        return _contexts[key]


def _stream(device):
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None


def _tensor(name, t, like, shape):
    if t.device != like.device or t.dtype != like.dtype:
        raise ValueError(f"{name}: {t.dtype} on {t.device}; must be {like.dtype} on {like.device}")
    if tuple(t.shape) != tuple(shape):
        raise ValueError(f"{name}: shape {tuple(t.shape)}; must be {tuple(shape)}")
    if t.shape[-1] > 1 and t.stride(-1) != 1:
        raise ValueError(f"{name}: last stride {t.stride(-1)}; must be 1")
    return _Tensor(t.data_ptr(), t.stride(0), t.stride(1), t.stride(2))


def _rows(name, t, q):
    shape = (q.shape[0], q.shape[2], q.shape[1])
    if t.dtype != torch.float32 or tuple(t.shape) != shape or not t.is_contiguous():
        raise ValueError(f"{name}: must be contiguous float32 of shape {shape}")
    return t.data_ptr()


def _names(variants):
    return variants if isinstance(variants, str) else " ".join(variants)


def _params(params, device):
    """Scalars by value and tables by address, by name: {"softcap.cap": 30.0}."""
    items = []
    for name, value in (params or {}).items():
        item = _Param(name=name.encode())
        if not isinstance(value, torch.Tensor):
            item.value = value
        elif value.dim() == 0:
            item.value = value.item()
        else:
            item.data, item.length = _table(name, value, device), value.numel()
        items.append(item)
    return (_Param * len(items))(*items)


def _table(name, t, device):
    if t.dtype not in (torch.float32, torch.int32) or t.device != device or not t.is_contiguous():
        raise ValueError(f"{name}: {t.dtype} on {t.device}; must be contiguous float32 or int32 on {device}")
    return t.data_ptr()


def _args(q, k, v, causal, softmax_scale, variants, params):
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ValueError("q, k, v: must be batch x seqlen x heads x dim")
    if q.dtype not in _DTYPES:
        raise ValueError(f"q: {q.dtype}; must be one of {', '.join(map(str, _DTYPES))}")
    batch, seqlen_q, heads_q, dim = q.shape
    seqlen_k, heads_kv = k.shape[1], k.shape[2]
    args = _Args(size=ctypes.sizeof(_Args), batch=batch, heads_q=heads_q, heads_kv=heads_kv,
                 seqlen_q=seqlen_q, seqlen_k=seqlen_k, softmax_scale=softmax_scale or 0.0,
                 dtype=_DTYPES[q.dtype], dim_qk=dim, dim_v=v.shape[3], causal=int(causal),
                 variants=_names(variants).encode())
    args.q = _tensor("q", q, q, q.shape)
    args.k = _tensor("k", k, q, (batch, seqlen_k, heads_kv, dim))
    args.v = _tensor("v", v, q, (batch, seqlen_k, heads_kv, v.shape[3]))
    args.params = _params(params, q.device)
    args.num_params = len(params or {})
    return args


def _kernel(which, args, device):
    """The kernel that these arguments need, built at its first use."""
    if args.heads_kv and args.heads_q % args.heads_kv:
        raise ValueError(f"q: {args.heads_q} heads; must be a multiple of k's {args.heads_kv}")
    spec = _Spec(size=ctypes.sizeof(_Spec), pass_=which, target=_TARGETS[target],
                 dtype=args.dtype, dim_qk=args.dim_qk,
                 dim_v=args.dim_v, group=args.heads_q // max(args.heads_kv, 1), causal=args.causal,
                 deterministic=args.deterministic, variants=args.variants)
    kernel = _PTR()
    _need(_library.fa_get_kernel(ctypes.byref(kernel), _context(device), ctypes.byref(spec)))
    return kernel


def _run(kernel, args, device):
    """Launches with a workspace from PyTorch's own allocator, which graphs and streams know."""
    bytes_ = _SIZE()
    _need(_library.fa_workspace_size(ctypes.byref(bytes_), kernel, ctypes.byref(args)))
    if bytes_.value:
        memory = torch.empty(bytes_.value + 256, dtype=torch.uint8, device=device)
        args.workspace = (memory.data_ptr() + 255) // 256 * 256
        args.workspace_size = bytes_.value
    _need(_library.fa_launch(kernel, ctypes.byref(args), _stream(device)))


_gradients = {}  # (kernel, parameter): whether there is a gradient by it


def _has_gradient(kernel, args, item):
    """The library refuses a place for a gradient that there is none of, here without a launch."""
    key = (kernel.value, item.name)
    if key not in _gradients:
        bytes_ = _SIZE()
        _need(_library.fa_workspace_size(ctypes.byref(bytes_), kernel, ctypes.byref(args)))
        item.grad = ctypes.addressof(item)
        status = _library.fa_workspace_size(ctypes.byref(bytes_), kernel, ctypes.byref(args))
        item.grad = None
        if status not in (_OK, _INVALID):
            _need(status)
        _gradients[key] = status == _OK
    return _gradients[key]


def _take_gradients(kernel, args, params, device):
    """Memory for the gradients by the parameters that have any, by name."""
    taken = {}
    for item in args.params[:args.num_params]:
        if not _has_gradient(kernel, args, item):
            continue
        given = params[item.name.decode()]
        shape = given.shape if isinstance(given, torch.Tensor) else ()
        taken[item.name.decode()] = torch.empty(shape, dtype=torch.float32, device=device)
    for item in args.params[:args.num_params]:
        if item.name.decode() in taken:
            item.grad = taken[item.name.decode()].data_ptr()
    return taken


def forward(q, k, v, causal=False, softmax_scale=None, variants=(), params=None):
    """O and LSE on the current stream of q's device. softmax_scale None is 1 / sqrt(dim)."""
    args = _args(q, k, v, causal, softmax_scale, variants, params)
    o = torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype, device=q.device)
    lse = torch.empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32, device=q.device)
    args.o = _tensor("o", o, q, o.shape)
    args.lse = _rows("lse", lse, q)
    _run(_kernel(_FWD, args, q.device), args, q.device)
    return o, lse


def backward(do, q, k, v, o, lse, causal=False, softmax_scale=None, deterministic=False,
             variants=(), params=None, workspace_limit=0):
    """dQ, dK, dV, each laid out densely, on the current stream of q's device; and the gradients by parameters
    of variants when there are any. workspace_limit: bytes, 0 for none."""
    args = _args(q, k, v, causal, softmax_scale, variants, params)
    args.deterministic, args.workspace_limit = int(deterministic), workspace_limit
    shape = (*q.shape[:3], v.shape[3])
    args.o = _tensor("o", o, q, shape)
    args.dout = _tensor("do", do, q, shape)
    args.lse = _rows("lse", lse, q)
    dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
    args.dq = _tensor("dq", dq, q, q.shape)
    args.dk = _tensor("dk", dk, q, k.shape)
    args.dv = _tensor("dv", dv, q, v.shape)
    kernel = _kernel(_BWD, args, q.device)
    dparams = _take_gradients(kernel, args, params, q.device)
    _run(kernel, args, q.device)
    return (dq, dk, dv, dparams) if dparams else (dq, dk, dv)
