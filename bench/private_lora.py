# SPDX-License-Identifier: Apache-2.0
"""What M of B M A (PrivateLoRA) learns beside LoRA on the same layers with the nearest number of trainables.

    .venv/bin/python bench/private_lora.py --data train.txt --eval valid.txt [--steps 300] [--eval-every 50]
        [--eval-tokens 8192] [--seq-len 128] [--rank 32] [--rates 1e-3 2.5e-3 5e-3 1e-2] [--lora-rates 2e-4 1e-3 5e-3]
        [--folder DIR] [--plot PICTURE.png]

SmolLM2-135M in bf16, q, k and v of all layers. Each way runs at each of its rates (the paper's for M is 5e-3) and has
its best beside the other's: the evaluation loss, and how much of LoRA's fall from the base model's loss M reaches. A
run that its folder already holds is not run again, so a bench that was stopped goes on.
"""

from pathlib import Path

from parts.training_ways import Run, Way, draw, parser_of, prepare, train

import mebp
from mebp.data import load_dataset
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate

TARGETS = ["q_proj", "k_proj", "v_proj"]


def compiled(exported: Path, bundle: Path, options: dict) -> int:
    """How many numbers it trains."""
    if not bundle.exists():
        mebp.compile(exported, bundle, weights="bf16", **options)
    return sum(trained["rows"] * trained["columns"] for trained in inspect(bundle)["trainables"])


def base_loss(bundle: Path, evaluation: Path) -> float:
    """Both ways begin with it: B or M is zero."""
    session = mebp.Session(bundle, forward_only=True)
    return evaluate(session, load_dataset(evaluation, Tokenizer(bundle), session.max_sequence))


def main() -> None:
    parser = parser_of(__doc__, "mebp-private-lora", eval_every=50, seq_len=128)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 2.5e-3, 5e-3, 1e-2])
    parser.add_argument("--lora-rates", type=float, nargs="+", default=[2e-4, 1e-3, 2.5e-3, 5e-3])
    arguments = parser.parse_args()
    exported, evaluation = prepare(arguments)

    made = lambda name: arguments.folder / f"{name}-{arguments.seq_len}.mebp"  # noqa: E731
    private = f"private-{arguments.rank}"
    adapter = mebp.PrivateLoRA(rank_down=arguments.rank, rank_up=arguments.rank, targets=TARGETS)
    count = compiled(exported, made(private), {"adapter": adapter})
    of_rank_1 = compiled(exported, made("lora-1"), {"lora": mebp.LoRA(rank=1, alpha=2, targets=TARGETS)})
    rank = max(1, round(count / of_rank_1))
    lora = f"lora-{rank}"
    ways = {
        private: Way(f"M of rank {arguments.rank}, {count:,} numbers", {}),
        lora: Way(f"LoRA of rank {rank}, {rank * of_rank_1:,} numbers", {}),
    }
    compiled(exported, made(lora), {"lora": mebp.LoRA(rank=rank, alpha=2 * rank, targets=TARGETS)})

    untrained = base_loss(made(private), evaluation)
    print(f"the base model: loss {untrained:.4f}", flush=True)
    best: dict[str, Run] = {}
    for name, rates in ((private, arguments.rates), (lora, arguments.lora_rates)):
        for rate in rates:
            run = train(f"{name}-{arguments.seq_len}", rate, made(name), evaluation, arguments)
            print(f"{ways[name].label}, lr {rate:g}: loss {run.losses[-1]:.4f} after {run.steps[-1]} steps", flush=True)
            if name not in best or run.losses[-1] < best[name].losses[-1]:
                best[name] = run
    falls = {name: untrained - run.losses[-1] for name, run in best.items()}
    for name, run in best.items():
        print(f"{ways[name].label}: best {run.losses[-1]:.4f} at lr {run.rate:g}, {falls[name]:.4f} below the base's")
    print(f"M has {falls[private] / falls[lora]:.1%} of LoRA's fall")
    if arguments.plot:
        draw(best, ways, arguments.plot)


if __name__ == "__main__":
    main()
