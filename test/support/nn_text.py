# SPDX-License-Identifier: Apache-2.0
"""Evaluates the `nn` dialect's text with numpy, in f64: what the importer made of a graph, computed independently.

Weights must be external f32 data, in one piece or several: mebpc does not print those that the ONNX file holds."""

import math
import re
from pathlib import Path

import numpy as np

_OP = re.compile(r"\s*(?:(?P<results>%[^=]+) = )?nn\.(?P<op>\w+)(?P<rest>.*)")
_PARAMETER = re.compile(r"nn\.parameter @(?P<name>\"[^\"]+\"|\S+) : tensor<(?P<shape>[\dx]*)xf32>(?P<rest>.*)")
_EXTERNAL = re.compile(r'#nn\.external<"(?P<file>[^"]+)", (?P<offset>\d+), (?P<bytes>\d+), "(?P<element>\w+)">')


class NNText:
    """@main of a module's text: `run` maps token ids [batch, sequence], of any size, to logits."""

    def __init__(self, text: str) -> None:
        self.operations = [match for line in text.splitlines() if (match := _OP.match(line))]
        self.parameters = {}
        for line in text.splitlines():
            if match := _PARAMETER.search(line):
                self.parameters[match["name"].strip('"')] = _read_parameter(match)

    def run(self, ids: np.ndarray) -> np.ndarray:
        """ids [batch, sequence] -> logits [batch, sequence, vocabulary]."""
        values = {"%arg0": ids}
        result = None
        for match in self.operations:
            if match["op"] == "parameter":
                continue
            if match["op"] == "read_parameter":
                name = match["rest"].split(" : ")[0].strip().lstrip("@").strip('"')
                result = self.parameters[name]
            else:
                operands = re.search(r"\(([^)]*)\)", match["rest"])[1]
                inputs = [values[name] for name in re.findall(r"%[\w#]+", operands)]
                result = _KERNELS[match["op"]](*inputs, **_attributes(match["rest"], ids.shape))
            _bind(values, match["results"], result)
        return result


def _read_parameter(match: re.Match) -> np.ndarray:
    shape = [int(size) for size in match["shape"].split("x")]
    is_transposed = "transposed" in match["rest"]
    own = re.search(r"shape = array<i64: (\d+), (\d+), (\d+)>", match["rest"])  # the model's, of experts
    stored = [int(size) for size in own.groups()] if own else shape[::-1] if is_transposed else shape
    data = b""
    for external in _EXTERNAL.finditer(match["rest"]):
        assert external["element"] == "f32"
        data += Path(external["file"]).read_bytes()[int(external["offset"]) :][: int(external["bytes"])]
    array = np.frombuffer(data, np.float32).reshape(stored).astype(np.float64)
    return (array.swapaxes(-1, -2) if is_transposed else array).reshape(shape)


def _bind(values: dict, results: str, result: object) -> None:
    names = [name.strip() for name in results.split(",")]
    if ":" in names[0]:
        base = names[0].split(":")[0]
        values.update({f"{base}#{i}": part for i, part in enumerate(result)})
    elif isinstance(result, tuple):
        values.update(zip(names, result, strict=True))
    else:
        values[names[0]] = result


def _attributes(rest: str, shape: tuple[int, int]) -> dict:
    found = {"shape": shape}
    # After the operands' parenthesis, before the types.
    braces = re.search(r"\{(.*?)\} :", rest)
    text = braces[1] if braces else ""
    found.update({name: True for name in text.split(", ") if name.isidentifier()})
    for name, value in re.findall(r"(\w+) = (array<[^>]*>|\"[^\"]*\"|[-+.\w]+)", text):
        if value.startswith("array"):
            found[name] = [float(v) for v in re.findall(r"[-+.\deE]+", value.split(":", 1)[1])]
        elif value in ("true", "false"):
            found[name] = value == "true"
        else:
            found[name] = value.strip('"') if value.startswith('"') else float(value) if "." in value else int(value)
    found["sizes"] = [int(size) for size in re.findall(r"tensor<(?:\?x\?x)?(\d+)xf32", rest.split("->")[-1])]
    return found


def _silu(x):
    return x / (1 + np.exp(-x))


def _gelu(x, approximation=0):
    if approximation:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def _softcap(x, softcap):
    return softcap * np.tanh(x / softcap) if softcap else x


def _split(x, sizes, groups=1, **_):
    parts = np.split(x.reshape(*x.shape[:-1], groups, -1), np.cumsum(sizes)[:-1] // groups, axis=-1)
    return tuple(part.reshape(*x.shape[:-1], -1) for part in parts)


def _concat(*parts, groups=1, **_):
    each = [part.reshape(*part.shape[:-1], groups, -1) for part in parts]
    return np.concatenate(each, axis=-1).reshape(*parts[0].shape[:-1], -1)


def _xielu(x, alpha_p, alpha_n, beta, epsilon):
    positive, negative = np.logaddexp(0, alpha_p), beta + np.logaddexp(0, alpha_n)
    return np.where(x > 0, positive * x * x, negative * (np.expm1(np.minimum(x, epsilon)) - x)) + beta * x


def _causal_conv(x, w, bias=0.0):
    """x [batch, sequence, channels], w [channels, width]; what it carries on is nothing that a graph reads."""
    width, length = w.shape[1], x.shape[1]
    padded = np.pad(x, ((0, 0), (width - 1, 0), (0, 0)))
    taps = (padded[:, width - 1 - j : width - 1 - j + length] * w[:, width - 1 - j] for j in range(width))
    return sum(taps, start=bias), None


def _decay(x, *vectors):
    """As graphs have it: with a rate, and a bias before it or none."""
    bias = vectors[0] if len(vectors) > 1 else 0.0
    factor = -np.exp(np.repeat(vectors[-1], x.shape[-1] // len(vectors[-1])))
    return factor * np.logaddexp(0, x + bias)


def _gated_delta(q, k, v, g, beta, heads, kv_heads, scale):
    batch, length = q.shape[:2]
    q, k = (np.repeat(each.reshape(batch, length, kv_heads, -1), heads // kv_heads, axis=2) for each in (q, k))
    v = v.reshape(batch, length, heads, -1)
    state, rows = np.zeros((batch, heads, k.shape[-1], v.shape[-1])), []
    for t in range(length):
        state = state * np.exp(g[:, t])[..., None, None]
        update = beta[:, t, :, None] * (v[:, t] - np.einsum("bhkp,bhk->bhp", state, k[:, t]))
        state = state + k[:, t, :, :, None] * update[:, :, None]
        rows.append(scale * np.einsum("bhkp,bhk->bhp", state, q[:, t]))
    return np.stack(rows, axis=1).reshape(batch, length, -1), None, None


_GATES = {
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": lambda x: _gelu(x, 1),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def _rms_norm(x, w, epsilon, weight_offset=0.0):
    groups = x.reshape(*x.shape[:-1], -1, w.size)
    normal = groups / np.sqrt((groups**2).mean(-1, keepdims=True) + epsilon)
    return (normal * (weight_offset + w)).reshape(x.shape)


def _layer_norm(x, w, b=0.0, *, epsilon, weight_offset=0.0):
    groups = x.reshape(*x.shape[:-1], -1, w.size)
    centered = groups - groups.mean(-1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon)
    return (normal * (weight_offset + w) + b).reshape(x.shape)


def _rope(x, head_dim, frequencies, scale=1.0, interleaved=False, inverse=False):
    heads = x.reshape(*x.shape[:-1], -1, head_dim)
    f = len(frequencies)
    angle = (np.arange(x.shape[1])[:, None] * np.array(frequencies))[None, :, None, :]
    angle = -angle if inverse else angle
    if interleaved:
        a, b = heads[..., : 2 * f : 2], heads[..., 1 : 2 * f : 2]
    else:
        a, b = heads[..., :f], heads[..., f : 2 * f]
    rotated = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
    if interleaved:
        rotated = [np.stack(rotated, -1).reshape(*a.shape[:-1], 2 * f)]
    return np.concatenate([scale * part for part in rotated] + [heads[..., 2 * f :]], -1).reshape(x.shape)


def _attention(q, k, v, sinks=None, *, heads, kv_heads, scale, window=0, softcap=None, slopes=None):
    batch, sequence, _ = q.shape
    split = ((q, heads), (k, kv_heads), (v, kv_heads))
    q, k, v = (x.reshape(batch, sequence, count, -1).transpose(0, 2, 1, 3) for x, count in split)
    k, v = (np.repeat(x, heads // kv_heads, 1) for x in (k, v))
    t, j = np.arange(sequence)[:, None], np.arange(sequence)[None, :]
    logits = _softcap(scale * q @ k.transpose(0, 1, 3, 2), softcap)
    if slopes:
        logits = logits + np.reshape(slopes, (-1, 1, 1)) * (j - t)
    logits = np.where((j <= t) & ((j > t - window) if window else True), logits, -np.inf)
    lse = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    if sinks is not None:
        lse = np.logaddexp(lse, sinks.reshape(-1, 1))
    output = np.exp(logits - lse[..., None]) @ v
    return output.transpose(0, 2, 1, 3).reshape(batch, sequence, -1), lse.transpose(0, 2, 1)


def _weights_of_near(logits, ids, threshold):
    left, weights = logits, []
    for own in np.split(ids, ids.shape[-1], -1):
        most = np.take_along_axis(logits, own, -1)
        exponentials = np.where(most - logits > threshold * np.maximum(abs(logits), most), 0, np.exp(left - most))
        weights.append(np.take_along_axis(exponentials, own, -1) / exponentials.sum(-1, keepdims=True))
        left = np.where(np.arange(logits.shape[-1]) == own, -np.inf, left)
    return np.concatenate(weights, -1)


def _route(logits, bias=0.0, *, score, normalized=False, epsilon=0.0, scale=1.0, threshold=0.0, sizes, **groups):
    experts = logits.shape[-1]
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    s = {
        "softmax": exponentials / exponentials.sum(-1, keepdims=True),
        "sigmoid": 1 / (1 + np.exp(-logits)),
        "softmax_of_chosen": logits,
        "softmax_of_near": logits,
    }[score]
    c = s + bias
    if count := groups.get("groups"):
        grouped = c.reshape(*c.shape[:-1], count, -1)
        best = np.sort(grouped, -1)[..., -groups["best_of_group"] :].sum(-1)
        kept = np.argsort(np.argsort(-best, -1), -1) < groups["top_groups"]
        c = np.where(np.repeat(kept, experts // count, -1), c, -np.inf)
    ids = np.argsort(-c, -1, kind="stable")[..., : sizes[0]]
    p = np.take_along_axis(s, ids, -1)
    if score == "softmax_of_chosen":
        p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)
    elif score == "softmax_of_near":
        p = _weights_of_near(logits, ids, threshold)
    return scale * p / (p.sum(-1, keepdims=True) + epsilon if normalized else 1), ids


def _expert_linear(x, w, ids, bias=None, *, sizes):
    slots = ids.shape[-1]
    outputs = sizes[0] // slots
    matrices = w.reshape(-1, outputs, w.shape[1])[ids]  # [batch, sequence, slots, out, in]
    each = x[..., None, :] if x.shape[-1] == w.shape[1] else x.reshape(*x.shape[:-1], slots, -1)
    y = (matrices @ each[..., None])[..., 0]
    return (y if bias is None else y + bias.reshape(-1, outputs)[ids]).reshape(*x.shape[:-1], -1)


def _expert_sum(y, weights):
    return (y.reshape(*weights.shape, -1) * weights[..., None]).sum(-2)


def _kernel(function, *names):
    return lambda *inputs, **attributes: function(*inputs, **{n: attributes[n] for n in names if n in attributes})


_KERNELS = {
    "embedding": _kernel(lambda ids, w: w[ids]),
    "position_embedding": lambda w, shape, offset=0, **_: np.broadcast_to(
        w[offset : offset + shape[1]], (*shape, w.shape[1])
    ),
    "linear": _kernel(lambda x, w, b=0.0: x @ w.T + b),
    "rms_norm": _kernel(_rms_norm, "epsilon", "weight_offset"),
    "layer_norm": _kernel(_layer_norm, "epsilon", "weight_offset"),
    "rope": _kernel(_rope, "head_dim", "frequencies", "scale", "interleaved", "inverse"),
    "attention": _kernel(_attention, "heads", "kv_heads", "scale", "window", "softcap", "slopes"),
    "causal_conv": _kernel(_causal_conv),
    "softplus": _kernel(_decay),
    "gated_delta": _kernel(_gated_delta, "heads", "kv_heads", "scale"),
    "silu": _kernel(_silu),
    "relu": _kernel(lambda x: np.maximum(x, 0)),
    "gelu": _kernel(_gelu, "approximation"),
    "xielu": _kernel(_xielu, "beta", "epsilon"),
    "gated": _kernel(
        lambda gate, up, activation: _GATES[activation](gate) * up,
        "activation",
    ),
    "add": _kernel(np.add),
    "multiply": _kernel(np.multiply),
    "scale": _kernel(lambda x, alpha, shift=0.0: alpha * x + shift, "alpha", "shift"),
    "clamp": _kernel(lambda x, lower=-np.inf, upper=np.inf: np.clip(x, lower, upper), "lower", "upper"),
    "softcap": _kernel(_softcap, "softcap"),
    "fill": lambda value, sizes, **_: np.full(sizes[0], value),  # of one row: the others are like it
    "split": _split,
    "concat": _concat,
    "repeat": lambda x, sizes, **_: np.tile(x, sizes[0] // x.shape[-1]),
    "route": _kernel(
        _route,
        "score",
        "normalized",
        "epsilon",
        "scale",
        "threshold",
        "groups",
        "top_groups",
        "best_of_group",
        "sizes",
    ),
    "expert_linear": _kernel(_expert_linear, "sizes"),
    "expert_sum": _kernel(_expert_sum),
}
