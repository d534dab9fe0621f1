# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of corpus/onnx, where the exporter or the importer reads or writes something new:

PYTHONPATH=python:test .venv/bin/python test/fuzz/write_onnx_seeds.py

They are exports of the tests' families, tinier still, and two graphs by hand of what those lack. A fuzzer wants them
small: names are counted anew, docstrings and declared shapes go, and scopes, too, but of GPT-2. Their weights lie in
model.safetensors, which the target fills."""

import tempfile
from pathlib import Path

import onnx.parser

import mebp
from support import models

CORPUS = Path(__file__).parent / "corpus" / "onnx"
LARGEST = 14000  # scripts/fuzz.sh takes 16,384 bytes; a mutant may grow
DECODER = {
    "hidden_size": 16,
    "head_dim": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 24,
    "vocab_size": 40,
    "num_hidden_layers": 1,
}
GPT2 = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 40}
EXPORTS = {
    "llama": ("llama", 1, DECODER),
    "llama-batch": ("llama", 2, DECODER),
    "qwen3": ("qwen3", 1, DECODER),
    "phi3": ("phi3", 1, DECODER),
    "gemma3": ("gemma3_text", 1, {**DECODER, "sliding_window": 4, "layer_types": ["sliding_attention"]}),
    "gpt2": ("gpt2", 1, GPT2),
}
GRAPHS = {
    "sequence": """<ir_version: 8, opset_import: ["" : 18]>
g (int64[1,4] ids) => (float[1,4,5] logits)
<float[3,4] table = {0,1,2,3,4,5,6,7,8,9,10,11}, float[1,4,4] x, float[1,4,2] part,
 float[2,2] up = {1,2,3,4}, float[2,5] head = {0,1,2,3,4,5,6,7,8,9}> {
  two = Constant<value_int = 2>()
  one = Constant<value_int = 1>()
  x = Gather(table, ids)
  parts = SplitToSequence<axis = 2>(x, two)
  part = SequenceAt(parts, one)
  hidden = MatMul(part, up)
  active = Relu(hidden)
  sum = Add(part, active)
  logits = MatMul(sum, head)
}""",
    "constants": """<ir_version: 8, opset_import: ["" : 18]>
g (int64[1,4] ids) => (float[1,4,5] logits)
<float[3,2] table = {0,1,2,3,4,5}, float[2,2] up = {1,2,3,4}, float[2,5] head = {0,1,2,3,4,5,6,7,8,9}> {
  shape = Shape(ids)
  zero = Constant<value_ints = [0]>()
  two = Constant<value_ints = [2]>()
  axis = Constant<value_int = 0>()
  square = Expand(two, shape)
  wide = Cast<to = 1>(square)
  ones = ConstantOfShape<value = float[1] {1.0}>(shape)
  both = Concat<axis = 0>(wide, ones)
  below = Trilu<upper = 0>(both)
  sums = CumSum(below, axis)
  first = Slice(sums, zero, two)
  left, right = Split<axis = 1, num_outputs = 2>(first)
  whole = Concat<axis = 1>(left, right)
  turned = Transpose(whole)
  product = MatMul(turned, whole)
  row = Gather<axis = 0>(product, axis)
  largest = ReduceMax<keepdims = 0>(row)
  pair = Concat<axis = 0>(zero, zero)
  corner = GatherND(product, pair)
  isLess = Less(corner, largest)
  number = Where(isLess, corner, largest)
  flat = Squeeze(number)
  x = Gather(table, ids)
  scaled = Mul(x, flat)
  hidden = MatMul(scaled, up)
  sum = Add(scaled, hidden)
  logits = MatMul(sum, head)
}""",
}


def shrink(model: onnx.ModelProto, keep_scopes: bool) -> None:
    names = {"": "", "input_ids": "input_ids", "logits": "logits"}
    place = 0
    del model.graph.value_info[:]
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            size = next(int(entry.value) for entry in tensor.external_data if entry.key == "length")
            del tensor.external_data[:]
            for key, value in {"location": "model.safetensors", "offset": place, "length": size}.items():
                tensor.external_data.add(key=key, value=str(value))
            place += size
            names[tensor.name] = tensor.name  # whose name has a meaning
    for index, node in enumerate(model.graph.node):
        node.name = f"n{index}"
        if not keep_scopes:
            del node.metadata_props[:]
        for values in (node.input, node.output):
            values[:] = [names.setdefault(name, f"v{len(names)}") for name in values]
    for tensor in model.graph.initializer:
        tensor.name = names[tensor.name]


def write(name: str, model: onnx.ModelProto) -> None:
    content = model.SerializeToString(deterministic=True)
    if len(content) > LARGEST:
        raise SystemExit(f"{name}: {len(content)} bytes, more than {LARGEST}; make its model smaller")
    (CORPUS / name).write_bytes(content)
    print(f"{name}: {len(content)} bytes, {len(model.graph.node)} nodes")


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, (family, batch, fields) in EXPORTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            mebp.export(models.build(family, **fields), path, seq_len=6, batch=batch)
            model = onnx.load(path, load_external_data=False)
        shrink(model, keep_scopes=family == "gpt2")
        write(name, model)
    for name, text in GRAPHS.items():
        write(name, onnx.parser.parse_model(text))


if __name__ == "__main__":
    main()
