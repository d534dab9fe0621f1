# SPDX-License-Identifier: Apache-2.0
"""From a transformers model to a bundle, and a bundle's gradients against the reference's."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from transformers import PreTrainedModel

import mebp
from mebp.inspect import inspect
from support.reference import Reference, relative_error

TOLERANCE = 2e-5


def make_bundle(
    model: PreTrainedModel | str | Path,
    folder: Path,
    *,
    seq_len: int,
    batch: int = 1,
    strip_scopes: bool = False,
    weights: str = "int4",
    precision: str = "f32",
    **options: object,
) -> Path:
    """Exports and compiles; `strip_scopes` drops all that the exporter notes about where a node came from."""
    exported = folder / "model.onnx"
    mebp.export(model, exported, seq_len=seq_len, batch=batch)
    if strip_scopes:
        graph = onnx.load(exported, load_external_data=False)
        for index, node in enumerate(graph.graph.node):
            del node.metadata_props[:]
            node.name = f"n{index}"
        onnx.save(graph, exported)
    bundle = folder / "model.mebp"
    mebp.compile(exported, bundle, seq_len=seq_len, batch=batch, weights=weights, precision=precision, **options)
    return bundle


def randomise_adapter(session: mebp.Session, seed: int = 0, scale: float = 0.05) -> None:
    """B is zero at first, which would leave every gradient of A zero."""
    generator = np.random.default_rng(seed)
    session.set_trainables(
        {
            key: values if "lora_A" in key else generator.normal(0, scale, values.shape).astype(np.float32)
            for key, values in session.trainables().items()
        }
    )


def reference_for(
    bundle: Path, session: mebp.Session, model: PreTrainedModel, dtype: torch.dtype, **options: object
) -> Reference:
    """torch with this session's weights and adapter; options as Reference's."""
    alpha = inspect(bundle)["model"]["lora"]["alpha"]
    return Reference(model, session.base_weights(), session.trainables(), alpha, dtype, **options)


@dataclass(frozen=True)
class Comparison:
    """Relative errors against float64: of this runtime and of torch in a type that it has."""

    loss: float
    errors: dict[str, float]
    torch_loss: float
    torch_errors: dict[str, float]
    torch_type: str = "f32"

    def __str__(self) -> str:
        ours, torchs = list(self.errors.values()), list(self.torch_errors.values())
        return (
            f"{len(ours)} gradients: worst {max(ours):.1e}, median {np.median(ours):.1e}, loss {self.loss:.1e} "
            f"(torch {self.torch_type}: {max(torchs):.1e}, {np.median(torchs):.1e}, {self.torch_loss:.1e})"
        )

    def check(self) -> None:
        """Every tensor agrees to 2e-5, or to twice torch's own error where that is larger."""
        limits = {key: max(TOLERANCE, 2 * error) for key, error in self.torch_errors.items()}
        beyond = {key: error for key, error in self.errors.items() if not error <= limits[key]}
        assert not beyond, f"{len(beyond)} beyond the tolerance: {sorted(beyond.items())[:8]}; {self}"
        assert self.loss <= TOLERANCE, str(self)

    def check_rounded(self, factor: float = 1.1) -> None:
        """Median and maximum over the tensors are at most `factor` times torch's."""
        for statistic in (np.median, np.max):
            ours, limit = statistic(list(self.errors.values())), factor * statistic(list(self.torch_errors.values()))
            assert ours <= limit, f"{statistic.__name__} {ours:.2e} is beyond {limit:.2e}; {self}"


def compare_gradients(
    bundle: Path,
    session: mebp.Session,
    model: PreTrainedModel,
    ids: np.ndarray,
    labels: np.ndarray,
    dtype: torch.dtype = torch.float32,
    exact: tuple[float, dict[str, np.ndarray]] | None = None,
    **options: object,
) -> Comparison:
    """`dtype`, and options as Reference's: what torch computes in. `exact`: what float64 gives, where it is known."""
    if exact is None:
        exact = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, labels)
    exact_loss, exact_gradients = exact
    torch_loss, rounded = reference_for(bundle, session, model, dtype, **options).loss_and_gradients(ids, labels)
    loss, gradients = session.loss_and_gradients(ids, labels)
    assert gradients.keys() == exact_gradients.keys(), sorted(gradients.keys() ^ exact_gradients.keys())[:4]
    return Comparison(
        abs(loss - exact_loss) / abs(exact_loss),
        {key: relative_error(gradients[key], exact_gradients[key]) for key in exact_gradients},
        abs(torch_loss - exact_loss) / abs(exact_loss),
        {key: relative_error(rounded[key], exact_gradients[key]) for key in exact_gradients},
        {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype],
    )
