# SPDX-License-Identifier: Apache-2.0
"""What each way of training comes to by step and by second: LoRA, MeZO, and whole matrices by AdamW, GaLore
and Q-GaLore.

    .venv/bin/python bench/whole_models.py --data train.txt --eval valid.txt [--steps 300] [--eval-every 25]
        [--eval-tokens 8192] [--seq-len 256] [--rates 1e-4 3e-4 1e-3] [--ways full galore qgalore lora mezo]
        [--folder DIR] [--plot docs/images/whole_models.png]

SmolLM2-135M in bf16. Each way runs at each rate; the picture has its best. A run that its folder already holds is not
run again, so a bench that was stopped goes on.
"""

from parts.training_ways import Run, Way, draw, parser_of, prepare, train

import mebp

FULL = {"train": "full"}

WAYS = {
    "full": Way("AdamW on all matrices", {**FULL, "optimizer": "adamw"}, 0.1),
    "galore": Way("GaLore, rank 64", {**FULL, "optimizer": "galore", "galore_rank": 64}),
    "qgalore": Way("Q-GaLore, rank 64", {**FULL, "optimizer": "qgalore", "galore_rank": 64, "weights": "int8"}),
    "lora": Way("LoRA, rank 8", {"optimizer": "adamw"}),
    "mezo": Way("MeZO on LoRA", {"optimizer": "mezo"}, 0.1),
}


def main() -> None:
    parser = parser_of(__doc__, "mebp-whole-models", eval_every=25, seq_len=256)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 3e-4, 1e-3])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    exported, evaluation = prepare(arguments)
    best: dict[str, Run] = {}
    for name in arguments.ways:
        bundle = arguments.folder / f"{name}.mebp"
        if not bundle.exists():
            # MeZO moves what is f32, as adapters are, and frozen weights may be bf16 for all.
            mebp.compile(exported, bundle, **{"weights": "bf16", **WAYS[name].compiled})
        for rate in arguments.rates:
            run = train(name, rate * WAYS[name].rate_factor, bundle, evaluation, arguments)
            print(
                f"{WAYS[name].label}, lr {run.rate:g}: loss {run.losses[-1]:.4f} after {run.steps[-1]} steps, "
                f"{run.seconds[-1]:.0f} s, peak {run.peak_bytes / 1e6:.0f} MB",
                flush=True,
            )
            if name not in best or run.losses[-1] < best[name].losses[-1]:
                best[name] = run
    if arguments.plot:
        draw(best, WAYS, arguments.plot)


if __name__ == "__main__":
    main()
