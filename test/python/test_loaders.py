# SPDX-License-Identifier: Apache-2.0
"""What reads a model by somebody else's library: never the code that comes with it, and never a pickle."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from mebp.exporter import finding

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("python", "bench", "scripts", "examples", "docs", "packages", "test/support")
# Of transformers and what is built on it; each runs a model's own code where it is told to, or asks.
LOADERS = ("from_pretrained", "from_config", "pipeline")
# They take no trust_remote_code: PEFT has no code in its folders.
WITHOUT = ("PeftModel", "PeftConfig")
# Modules and functions that make objects, and so run code, of what they read.
PICKLES = ("pickle", "_pickle", "cPickle", "pickletools", "cloudpickle", "dill", "joblib", "shelve", "marshal",
           "torch.load", "torch.jit", "torch.hub", "torch.package", "torch.export.load",
           "numpy.lib.format")  # fmt: skip
REMOTE_CODE = ("get_class_from_dynamic_module", "dynamic_module_utils", "custom_generate", "allow_all_kernels")
# Others have nothing to find, and parsing all of them takes seconds.
WORDS = re.compile(
    "|".join((*LOADERS, *REMOTE_CODE, "trust_remote_code", "pickle", "dill", "joblib", "shelve", "marshal", "torch",
              "numpy.lib", "np.lib", "numpy.load", "np.load"))
)  # fmt: skip


def name_of(node: ast.expr) -> str:
    """a.b.c of a chain of names, with ? for what is none."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def is_constant(call: ast.Call, keyword: str, value: bool) -> bool:
    given = [each.value for each in call.keywords if each.arg == keyword]
    return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is value


def problems_of(source: str) -> Iterator[str]:
    if not WORDS.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield from problems_of_call(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                if is_in(whole, PICKLES) or set(whole.split(".")) & set(REMOTE_CODE):
                    yield f"{node.lineno}: imports {whole}"
        elif isinstance(node, ast.Attribute):
            name = name_of(node).replace("np.", "numpy.", 1)
            if is_in(name, PICKLES) or node.attr in REMOTE_CODE:
                yield f"{node.lineno}: has {name}"


def is_in(name: str, modules: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{module}.") for module in modules)


def problems_of_call(call: ast.Call) -> Iterator[str]:
    name = name_of(call.func)
    receiver, _, function = name.rpartition(".")
    if function in LOADERS and receiver not in WITHOUT:
        if not is_constant(call, "trust_remote_code", False):
            yield f"{call.lineno}: {name}() without trust_remote_code=False"
        reads_weights = function == "from_pretrained" and "Config" not in receiver and "Tokenizer" not in receiver
        if reads_weights and not is_constant(call, "use_safetensors", True):
            yield f"{call.lineno}: {name}() without use_safetensors=True"
    for keyword in call.keywords:
        if keyword.arg == "trust_remote_code" and not is_constant(call, keyword.arg, False):
            yield f"{call.lineno}: {name}() with trust_remote_code"
        if keyword.arg == "allow_pickle" and not is_constant(call, keyword.arg, False):
            yield f"{call.lineno}: {name}() with allow_pickle"
    if name in ("np.load", "numpy.load") and len(call.args) > 2:
        yield f"{call.lineno}: {name}() with allow_pickle"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_code_of_a_model_is_run_and_no_pickle_is_read(folder: str) -> None:
    files = [file for file in sorted((ROOT / folder).rglob("*.py")) if "build" not in file.relative_to(ROOT).parts]
    assert files or folder == "packages"
    assert [f"{file.relative_to(ROOT)}:{each}" for file in files for each in problems_of(file.read_text())] == []


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("AutoTokenizer.from_pretrained(p)", "AutoTokenizer.from_pretrained() without trust_remote_code=False"),
        ("AutoConfig.from_pretrained(p, trust_remote_code=x)", "AutoConfig.from_pretrained() with trust_remote_code"),
        ("getattr(t, n).from_config(c)", "?.from_config() without trust_remote_code=False"),
        ("kind.from_config(c, **options)", "kind.from_config() without trust_remote_code=False"),
        ("transformers.pipeline('x')", "transformers.pipeline() without trust_remote_code=False"),
        (
            "AutoModel.from_pretrained(p, trust_remote_code=False)",
            "AutoModel.from_pretrained() without use_safetensors",
        ),
        ("SFTTrainer(model=m, trust_remote_code=True)", "SFTTrainer() with trust_remote_code"),
        ("import pickle", "imports pickle"),
        ("from torch import load", "imports torch.load"),
        ("torch.load(p, weights_only=True)", "has torch.load"),
        ("torch.hub.load(p)", "has torch.hub"),
        ("np.load(p, allow_pickle=True)", "np.load() with allow_pickle"),
        ("np.load(p, None, True)", "np.load() with allow_pickle"),
        ("np.lib.format.read_array(f)", "has numpy.lib.format"),
        ("from transformers.dynamic_module_utils import custom_object_save", "imports transformers.dynamic_module"),
    ],
)
def test_what_would_is_found(source: str, problem: str) -> None:
    assert any(problem in found for found in problems_of(source))


def test_what_does_not_is_not_found() -> None:
    weights = "AutoModelForCausalLM.from_pretrained(p, trust_remote_code=False, use_safetensors=True)"
    assert list(problems_of(f"np.load(p); AutoConfig.from_pretrained(p, trust_remote_code=False); {weights}")) == []
    assert list(problems_of("PeftModel.from_pretrained(base, p)")) == []


@pytest.mark.parametrize("file", ["model.bin", "pytorch_model.bin", "adapter_model.bin", "evil.py", "model.pkl", "a.pt",
                                  "a.pth", "a.ckpt", "a.npz", "tf_model.h5", "model.msgpack", "a.so"])  # fmt: skip
def test_no_code_and_no_pickle_is_fetched(file: str) -> None:
    assert not any(fnmatch(file, pattern) for pattern in (*finding._HUB_WEIGHTS, *finding._HUB_REST))


def test_transformers_reads_settings_and_tokenizers_alone() -> None:
    """Of what somebody else has written; weights are read by mebp itself, from safetensors and GGUF."""
    calls = {
        name_of(node.func)
        for source in (file.read_text() for file in (ROOT / "python").rglob("*.py"))
        if "from_pretrained" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and name_of(node.func).endswith(".from_pretrained")
    }
    assert calls == {"AutoConfig.from_pretrained", "AutoTokenizer.from_pretrained"}
