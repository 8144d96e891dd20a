"""Distil the whole network's judgement of answers into the first layers alone; see `README.md`."""

import argparse
import json
import random
import time
from pathlib import Path

import torch
from encoder import Encoder
from examples import FAMILIES, KNOWN, LABELS, Example, families, sessions
from network import read_encoder
from tokenizers import Tokenizer
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss
from train import Steps, autocast, batches, encode, predict, tensors

from memory_assets.language.embedders.bge import bge_files
from memory_assets.language.judge import ANSWERS

_LABELLED = 0.5
"""Weight of the labels relative to the teacher's logits, which are clipped at `_MOST`."""
_MOST = 6.0
_DROPOUT = 0.05


def examples_of(hits: Path, held: list[str], chance: random.Random) -> list[Example]:
    """Return pairs of a question and a text: every hit of hits.py, and the questions of two draws of the families and sessions."""
    found = []
    for line in hits.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if f"hits-{row['store']}" not in held:
            found += [
                Example(row["question"], text, frozenset(), kind == "answers", f"hits-{row['store']}")
                for kind in ("answers", "others")
                for text in row[kind]
            ]
    writers = [path.stem for path in sorted(FAMILIES.glob("*.jsonl")) if path.stem not in held]
    for _ in range(2):
        found += [each for each in families(writers, chance, FAMILIES) if each.is_question]
        found += sessions(chance, held)
    return list(dict.fromkeys(found))


def _has_learnt(each: Example) -> bool:
    """Return whether the package's answer network was trained on this example."""
    return each.group in KNOWN or (each.group.startswith("hits-") and not each.group.startswith(("hits-sessions", "hits-w")))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "teacher",
        type=Path,
        nargs="?",
        help="weights written by train.py; without them, training continues from the package's network, which is its own teacher",
    )
    parser.add_argument("--hits", type=Path, required=True, help="what hits.py wrote")
    parser.add_argument("--held", nargs="*", default=[], help="writers and stores to hold out")
    parser.add_argument("--known", type=float, default=1.0, help="share of the package network's training examples to draw again")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.manual_seed(1)
    files = bge_files()
    assert files
    tokenizer = Tokenizer.from_file(str(files[1]))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    model = Encoder(files[0], len(LABELS))
    if given.teacher:
        model.load_state_dict(torch.load(given.teacher))
    else:
        model.layers = model.layers[: ANSWERS.layers]
        read_encoder(model, ANSWERS, "answer")
    chance = random.Random(given.seed)
    examples = [
        each for each in examples_of(given.hits, given.held, chance) if not _has_learnt(each) or chance.random() < given.known
    ]
    is_taught = torch.tensor([bool(given.teacher) or _has_learnt(each) for each in examples])
    taught = torch.tensor(predict(model, tokenizer, examples)[1]).clamp(-_MOST, _MOST)
    answers = torch.tensor([float(bool(each.answers)) for each in examples])
    model.layers = model.layers[: ANSWERS.layers]
    print(f"{len(examples)} examples, {int(is_taught.sum())} with a teacher", flush=True)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = _DROPOUT
    inputs = encode(tokenizer, examples)
    lengths = [len(ids) for ids, _ in inputs]
    plan = [places for epoch in range(given.epochs) for places in batches(examples, lengths, random.Random(epoch))]
    steps = Steps(model, given.rate, len(plan))
    model.train()
    running, started = 0.0, time.time()
    for step, places in enumerate(plan, 1):
        with autocast():
            found = model(*tensors([inputs[place] for place in places]), asked=True)[:, 0].float()
        labelled = binary_cross_entropy_with_logits(found, answers[places])
        told = is_taught[places]
        loss = smooth_l1_loss(found[told], taught[places][told], reduction="sum") / len(places) + _LABELLED * labelled
        steps.take(loss)
        running = 0.98 * running + 0.02 * loss.item()
        if step % 100 == 0:
            print(f"step {step} of {len(plan)}, loss {running:.3f}, {time.time() - started:.0f} s", flush=True)
    torch.save(model.state_dict(), given.out)


if __name__ == "__main__":
    main()
