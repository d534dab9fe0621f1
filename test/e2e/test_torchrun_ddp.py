# SPDX-License-Identifier: Apache-2.0
"""The gradients of two processes beside those of torch's DistributedDataParallel with PEFT, and beside float64's."""

import json

from support import models
from support.pipeline import make_bundle
from support.torchrun import torchrun

TOLERANCE = 2e-5  # of a tensor, or twice torch's own error where that is larger
RATE = 1024.0  # a step of SGD moves by the gradient: far enough that what it begins at rounds nothing off
# Micro-batches differ in their lengths and in how many labels count, so a mean over ranks would be another gradient.
PROGRAM = """
import json, sys
import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel
from mebp.arrays import IGNORED_LABEL
from mebp.distributed.global_batch import GlobalBatch
from mebp.distributed.group import joined
from mebp.session import Session
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import Reference
from transformers import AutoModelForCausalLM

_, model, bundle, rate = sys.argv
group, rate = joined(), float(rate)
shared = GlobalBatch(4, group)
session = Session(bundle, threads=1, optimizer="sgd", lr=rate, **shared.session_options())
randomise_adapter(session)
before = session.trainables()
random = np.random.default_rng(0)
ids = [random.integers(0, session.vocabulary, (1, length), dtype=np.int32) for length in (31, 32, 9, 17)]
labels = [np.where(random.random(each.shape) < 0.2, IGNORED_LABEL, each) for each in ids]
counted = [int((each[:, 1:] != IGNORED_LABEL).sum()) for each in labels]

def of_torch(dtype):
    weights = session.base_weights()
    reference = Reference(AutoModelForCausalLM.from_pretrained(model), weights, before, 16, dtype)
    reference.model = DistributedDataParallel(reference.model)
    own = range(group.rank * 2, group.rank * 2 + 2)
    for index in own:
        reference.model.require_backward_grad_sync = index == own[-1]
        loss = reference.loss(ids[index], labels[index])  # of which ranks' gradients are averaged
        (loss * (counted[index] * group.size / sum(counted))).backward()
    return {key: parameter.grad.numpy() for key, parameter in reference.parameters().items()}

exact, other = of_torch(torch.float64), of_torch(torch.float32)
shared.step(session, (ids, labels, None))
found = {key: (before[key].astype(np.float64) - values) / rate for key, values in session.trainables().items()}
if group.is_first:
    pairs = [(key, found[key], other[key], exact[key]) for key in exact]
    print(json.dumps({key: [relative_error(own, true), relative_error(its, true)] for key, own, its, true in pairs}))
"""


def test_the_first_gradients_are_those_of_ddp(tmp_path, show):
    model = models.build("llama", num_hidden_layers=2)
    bundle = make_bundle(model, tmp_path, seq_len=32)
    models.save(model, tmp_path / "model")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    status, out, err = torchrun(2, program, tmp_path / "model", bundle, RATE)
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])
    assert len(found) == 2 * 7 * 2  # A and B of seven layers in each of two
    worst, of_torch = (max(column) for column in zip(*found.values(), strict=True))
    show(f"gradients of two processes: {worst:.1e} off float64's at most, torch's DDP with PEFT {of_torch:.1e}")
    for key, (own, its) in found.items():
        assert own <= max(TOLERANCE, 2 * its), key
