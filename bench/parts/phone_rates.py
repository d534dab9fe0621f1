# SPDX-License-Identifier: Apache-2.0
"""A phone's rates for the compiler's cost model, out of what is published about its cores and its memory."""

import json
from dataclasses import dataclass
from pathlib import Path

TERMS = ("call", "product", "weight", "element")
BYTES_A_WEIGHT = 0.5  # int4; what is read of a type that is wider is counted too low
BYTES_OF_UPDATE = 28  # AdamW reads gradient, value and two moments, and writes the last three, in f32


@dataclass(frozen=True)
class Kernels:
    """What kernels reach of a phone. `share`: of the products that its cores could make, at best and at worst. The
    others: what a call, an unpacked weight and an activation cost beside their products and bytes."""

    share: list[float]
    call_nanoseconds: float
    products_a_weight: float
    products_an_element: float


@dataclass(frozen=True)
class Phone:
    """`warm`: the share of its speed that it keeps when it is hot."""

    name: str
    chip: str
    cores: list[dict]
    gigabytes_a_second: float
    warm: float
    sources: dict[str, str]

    def products_a_nanosecond(self) -> float:
        """Of all cores that the file names, without heat."""
        return sum(core["count"] * core["ghz"] * core["products_a_cycle"] for core in self.cores)


def read_phones(file: Path) -> tuple[Kernels, list[Phone]]:
    """Raises ValueError that names the file and what is wrong."""
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
        phones = [Phone(**phone) for phone in given["phones"]]
        kernels = Kernels(**given["kernels"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file}: a field is missing or unknown: {error}; see bench/parts/phones.json") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}: is not JSON: {error}") from None
    for phone in phones:
        if not (phone.products_a_nanosecond() > 0 and phone.gigabytes_a_second > 0 and 0 < phone.warm <= 1):
            raise ValueError(
                f"{file}: {phone.name}: give cores and memory a rate above 0, and warm a share of at most 1"
            )
    return kernels, phones


def make_rates(phone: Phone, kernels: Kernels, share: float, names: list[str]) -> dict:
    """A file for `mebpc --rates`, docs/format.md. `names`: those that calibration has. The memory is as fast warm as
    cold, and kernels reach the same share of it as of the products."""
    product = 1 / (share * phone.products_a_nanosecond())
    byte = 1 / (share * phone.gigabytes_a_second)

    def rates(name: str) -> list[float]:
        if name == "memory":  # a byte is written and read
            return [0, 0, 0, 2 * byte]
        if " " not in name or name.endswith(" large"):  # optimizers, and spilled bytes, which mebpc estimates
            return [0, 0, 0, BYTES_OF_UPDATE * byte]
        width = 2 if " bf16" in name else 4
        weight = kernels.products_a_weight * product + BYTES_A_WEIGHT * byte
        return [kernels.call_nanoseconds, product, weight, kernels.products_an_element * product + width * byte]

    return {
        "version": 1,
        "device": "cpu",
        "processor": f"{phone.chip}, a model",
        "kernels": "neon_bf16",
        "date": "",
        "threads": [1],
        "terms": list(TERMS),
        "nanoseconds": {name: [rates(name)] for name in names if name != "spill"},
    }
