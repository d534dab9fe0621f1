# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M over gRPC and TLS on loopback has the bits of one process: training, and generated text.

    .venv/bin/python bench/split_equality.py [--precision bf16 f32] [--steps 30] [--prompts 20] [--new 64] [--drafts 4]
        [--folder DIR]

Trains in bf16 and f32, on 1 and 4 threads, with 0 and with 2 first and last layers on the device, and compares each
step's loss, the gradient of every M at the beginning and at the end, and the adapter; then with steps of 4
micro-batches, of which 1, 2 and 4 are in flight. Answers the prompts greedily, with drafts and without. Ends with
status 1 where anything differs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from parts.questions import QUESTIONS
from parts.split_bundles import Bundles, compile_both, export

import mebp
from mebp.certificates import make_certificates
from mebp.chat import Chat
from mebp.split import Credentials, connect, served
from mebp.tokenizer import Tokenizer

SEQUENCE, POSITIONS, RATE = 32, 192, 5e-3
KEPT = ((0, 0), (2, 2))
IN_FLIGHT = (1, 2, 4)


@contextmanager
def over_tls(
    bundles: Bundles, certificates: Path, threads: int, in_flight: int = 1, **options: object
) -> Iterator[mebp.Session]:
    """A device's session, whose server is reached by the network."""
    ours, theirs = (
        Credentials(certificates / f"{name}.pem", certificates / f"{name}.key", certificates / "ca.pem")
        for name in ("client", "server")
    )
    with served(bundles.cloud, threads=threads) as server:
        port = server.listen("127.0.0.1:0", theirs)
        stream = connect(bundles.edge, f"127.0.0.1:{port}", ours, in_flight=in_flight)
        session = mebp.Session(bundles.edge, stream=stream, threads=threads, **options)
        yield session
        del session, stream


def train(session: mebp.Session, steps: int, micro_batches: int = 1) -> list[bytes]:
    """All that has to be equal, one after the other."""
    random = np.random.default_rng(0)
    shape = (steps + 1, micro_batches, 1, SEQUENCE)
    given = [list(ids) for ids in random.integers(0, session.vocabulary, shape, dtype=np.int32)]

    def gradients() -> list[bytes]:
        loss, found = session.loss_and_gradients(given[-1][0], given[-1][0])
        return [np.float64(loss).tobytes(), *(found[key].tobytes() for key in sorted(found))]

    begun = gradients()
    losses = [np.float64(session.step(ids, ids).loss).tobytes() for ids in given[:-1]]
    adapter = session.trainables()
    return [*begun, *losses, *gradients(), *(adapter[key].tobytes() for key in sorted(adapter))]


def training_is_equal(bundles: Bundles, certificates: Path, threads: int, steps: int) -> bool:
    options = {"lr": RATE, "accumulate": True, "return_gradients": True}
    expected = train(mebp.Session(bundles.whole, threads=threads, **options), steps)
    with over_tls(bundles, certificates, threads, **options) as session:
        return train(session, steps) == expected


def count_equal_in_flight(bundles: Bundles, certificates: Path, steps: int) -> int:
    """Of IN_FLIGHT, how many train as one process does."""
    options, micro_batches = {"lr": RATE, "accumulate": True, "return_gradients": True}, max(IN_FLIGHT)
    expected = train(mebp.Session(bundles.whole, threads=1, **options), steps, micro_batches)
    same = 0
    for count in IN_FLIGHT:
        with over_tls(bundles, certificates, 1, count, **options) as session:
            same += train(session, steps, micro_batches) == expected
    return same


def count_equal_answers(bundles: Bundles, certificates: Path, prompts: int, new: int, drafts: int) -> str:
    """How many answers are those of one process without drafts."""
    tokenizer = Tokenizer(bundles.whole)
    ids = [tokenizer.encode(Chat(tokenizer).prompt(question)) for question in QUESTIONS[:prompts]]
    one = mebp.Session(bundles.whole, generate_only=True)
    expected = [one.generate([prompt], new) for prompt in ids]

    def compare(session: mebp.Session, most: int) -> str:
        source = session.keys_and_values()
        begun = time.perf_counter()
        answers = [session.generate([prompt], new, drafts=most, source=source) for prompt in ids]
        seconds = time.perf_counter() - begun
        same = sum(np.array_equal(*pair) for pair in zip(answers, expected, strict=True))
        return (
            f"{same} of {len(ids)} equal, {source.tokens / source.passes:.2f} tokens a pass, "
            f"{len(ids) * new / seconds:.1f} a second"
        )

    lines = [f"  one process, drafts {drafts}: {compare(one, drafts)}"]
    with over_tls(bundles, certificates, 2, generate_only=True) as session:
        lines += [f"  over TLS, drafts {most}: {compare(session, most)}" for most in (0, drafts)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", nargs="+", choices=["bf16", "f32"], default=["bf16", "f32"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=len(QUESTIONS))
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--drafts", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mebp-split-equality")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    certificates = arguments.folder / "certificates"
    if not certificates.exists():
        make_certificates(certificates)
    model = export(arguments.folder, SEQUENCE)
    differs = False
    for precision in arguments.precision:
        for kept in KEPT:
            bundles = compile_both(model, precision, kept, f"--generate-len={POSITIONS}", "--weights=int8")
            print(f"{precision}, {kept[0]} first and {kept[1]} last layers on the device", flush=True)
            for threads in (1, 4):
                begun = time.perf_counter()
                same = training_is_equal(bundles, certificates, threads, arguments.steps)
                differs |= not same
                print(
                    f"  {arguments.steps} steps, {threads} threads: {'equal' if same else 'DIFFER'}, "
                    f"{time.perf_counter() - begun:.0f} s",
                    flush=True,
                )
            same = count_equal_in_flight(bundles, certificates, arguments.steps)
            differs |= same != len(IN_FLIGHT)
            print(f"  {arguments.steps} steps of 4, 1, 2 and 4 in flight: {same} of {len(IN_FLIGHT)} equal", flush=True)
            if precision == "bf16" and arguments.prompts:
                said = count_equal_answers(bundles, certificates, arguments.prompts, arguments.new, arguments.drafts)
                differs |= said.count(f"{arguments.prompts} of {arguments.prompts} equal") != 3
                print(said, flush=True)
    sys.exit(int(differs))


if __name__ == "__main__":
    main()
