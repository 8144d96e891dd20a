"""Train the judge of statements and questions; see `README.md`."""

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from encoder import Encoder
from examples import FAMILIES, KNOWN, LABELS, Example, families, hits, pairs, sessions, silos, wordings, worlds
from network import read_encoder
from sklearn.metrics import average_precision_score, precision_recall_curve
from tokenizers import Tokenizer

from memory_assets.language.embedders.bge import bge_files
from memory_assets.language.judge import pair_tokens

BATCH = 32


def autocast() -> torch.autocast:
    """Return a context for half precision, enabled only if the processor supports it; emulation would be slow."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported())


def encode(tokenizer: Tokenizer, examples: Sequence[Example]) -> list[tuple[list[int], list[int]]]:
    """Return token ids and types of each pair."""
    pieces = {text: tokenizer.encode(text, add_special_tokens=False).ids for each in examples for text in each[:2]}
    pairs_of_tokens = (pair_tokens(pieces[one], pieces[other]) for one, other, *_ in examples)
    return [(ids.tolist(), types.tolist()) for ids, types in pairs_of_tokens]


def batches(examples: Sequence[Example], lengths: Sequence[int], chance: random.Random) -> list[list[int]]:
    """Return batches of example indices, each of one kind and similar length, in random order."""
    found = []
    for asked in (False, True):
        order = [place for place, each in enumerate(examples) if each.is_question is asked]
        order.sort(key=lambda place: lengths[place] + chance.random() * 6)
        found += [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    chance.shuffle(found)
    return found


def tensors(encoded: Sequence[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a padded batch."""
    longest = max(len(ids) for ids, _ in encoded)
    ids = torch.tensor([each + [0] * (longest - len(each)) for each, _ in encoded])
    types = torch.tensor([each + [0] * (longest - len(each)) for _, each in encoded])
    return ids, types, torch.arange(longest)[None, :] < torch.tensor([len(each) for each, _ in encoded])[:, None]


def loss_of(logits: torch.Tensor, examples: Sequence[Example]) -> torch.Tensor:
    """Return the cross entropy; an example with several possible relations uses their summed probability."""
    if examples[0].is_question:
        wanted = torch.tensor([float(bool(each.answers)) for each in examples])
        return torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], wanted)
    possible = torch.tensor([[label in each.possible for label in range(len(LABELS))] for each in examples])
    return -logits.log_softmax(1).masked_fill(~possible, -torch.inf).logsumexp(1).mean()


def predict(model: Encoder, tokenizer: Tokenizer, examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of the relations and of an answer."""
    model.eval()
    encoded = encode(tokenizer, examples)
    relations, answers = np.zeros((len(encoded), len(LABELS)), np.float32), np.zeros(len(encoded), np.float32)
    with torch.no_grad(), autocast():
        for places in batches(examples, [len(ids) for ids, _ in encoded], random.Random(0)):
            asked = examples[places[0]].is_question
            found = model(*tensors([encoded[place] for place in places]), asked=asked).float().numpy()
            if asked:
                answers[places] = found[:, 0]
            else:
                relations[places] = found
    return relations, answers


def report(examples: Sequence[Example], relations: np.ndarray, answers: np.ndarray) -> None:
    """Print the scores on held-out examples."""
    for group in [*sorted({each.group for each in examples}), ""]:
        places = [place for place, each in enumerate(examples) if each.group == group or not group]
        asked = [place for place in places if examples[place].is_question]
        judged = [place for place in places if len(examples[place].possible) == 1]
        line = f"{group or 'all':18}"
        if judged:
            shares = np.exp(relations[judged] - relations[judged].max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            truth = np.array([next(iter(examples[place].possible)) for place in judged])
            differs = np.isin(truth, (1, 2))
            precision, recall, thresholds = precision_recall_curve(truth == 0, shares[:, 0])
            good = precision[:-1] >= 0.95
            best = recall[:-1][good].max(initial=0)
            least = thresholds[good][recall[:-1][good].argmax()] if good.any() else 1.0
            line += (
                f" right {np.mean(shares.argmax(1) == truth):.3f} same AP {average_precision_score(truth == 0, shares[:, 0]):.3f}"
            )
            line += f" recall at .95 {best:.3f} (from {least:.3f}; changed as same {np.mean(shares[differs, 0] >= least):.3f})"
            line += f" differs AP {average_precision_score(differs, shares[:, 1] + shares[:, 2]):.3f}"
            if not group:
                line += "\n" + str(
                    [
                        [int(np.sum((truth == a) & (shares.argmax(1) == b))) for b in range(len(LABELS))]
                        for a in range(len(LABELS))
                    ]
                )
        if asked:
            truth = np.array([bool(examples[place].answers) for place in asked])
            line += f" answers AP {average_precision_score(truth, answers[asked]):.3f} right {np.mean((answers[asked] > 0) == truth):.3f}"
        print(line, flush=True)


class Steps:
    """Optimiser steps of a training: the rate rises for the first twelfth and then falls; for the heads it is five times as high."""

    def __init__(self, model: Encoder, rate: float, count: int) -> None:
        self._model = model
        slow = [value for name, value in model.named_parameters() if not name.startswith(("relation", "answer"))]
        fast = [*model.relation.parameters(), *model.answer.parameters()]
        groups = [{"params": slow, "lr": rate}, {"params": fast, "lr": rate * 5}]
        self._optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda at: min(at / (0.08 * count), (count - at) / (0.92 * count)) + 0.01
        )

    def take(self, loss: torch.Tensor) -> None:
        """Take one step down the gradient of the loss."""
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._schedule.step()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--families", type=Path, default=FAMILIES)
    parser.add_argument("--held", nargs="*", default=[], help="writers held out")
    parser.add_argument("--tested", type=int, default=3000, help="most held-out examples")
    parser.add_argument("--begin", type=Path, help="continue from the weights of an earlier training")
    parser.add_argument("--shipped", action="store_true", help="continue from the package's network")
    parser.add_argument("--hits", type=Path, help="what hits.py wrote")
    parser.add_argument("--known", type=float, default=1.0, help="share of the shipped network's training examples to draw again")
    parser.add_argument("--relations", action="store_true", help="train on pairs alone, not on questions")
    parser.add_argument("--most", type=int, default=1_000_000, help="most examples per epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.manual_seed(1)
    files = bge_files()
    assert files
    tokenizer = Tokenizer.from_file(str(files[1]))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    model = Encoder(files[0], len(LABELS))
    if given.begin:
        model.load_state_dict(torch.load(given.begin))
    elif given.shipped:
        read_encoder(model)
    writers = sorted(path.stem for path in given.families.glob("*.jsonl"))
    learnt = [each for each in writers if each not in given.held]

    def is_held(each: Example) -> bool:
        return any(each.group.startswith(held) for held in given.held)

    rest = [each for each in pairs() if not is_held(each)]
    tested = [each for each in pairs() if is_held(each)]
    for seed in range(2):
        tested += families([each for each in writers if each in given.held], random.Random(seed), given.families)
        tested += [each for each in wordings(random.Random(seed)) if is_held(each)]
    tested += [each for each in hits(given.hits, random.Random(3)) if is_held(each)] if given.hits else []
    tested = list(dict.fromkeys(tested))
    tested = random.Random(1).sample(tested, min(given.tested, len(tested)))
    chances = [random.Random(given.seed + epoch) for epoch in range(given.epochs)]
    drawn = []
    for chance in chances:
        old, new = ([each for each in learnt if (each in KNOWN) is known] for known in (True, False))
        known = [*rest, *worlds(chance), *silos(chance), *families(old, chance, given.families)]
        new = families(new, chance, given.families)
        found = [
            *chance.sample(known, int(given.known * len(known))),
            *new,
            *wordings(chance),
            *sessions(chance),
            *(hits(given.hits, chance) if given.hits else ()),
        ]
        found = [each for each in found if not is_held(each) and not (given.relations and each.is_question)]
        drawn.append(chance.sample(found, min(given.most, len(found))))
    encoded = [encode(tokenizer, each) for each in drawn]
    plans = [
        batches(examples, [len(ids) for ids, _ in inputs], random.Random(epoch))
        for epoch, (examples, inputs) in enumerate(zip(drawn, encoded, strict=True))
    ]
    steps, step, started = sum(map(len, plans)), 0, time.time()
    taking = Steps(model, given.rate, steps)
    print(f"{[len(each) for each in drawn]} examples, {steps} steps, {len(tested)} held out", flush=True)
    for examples, inputs, plan in zip(drawn, encoded, plans, strict=True):
        model.train()
        running = 0.0
        for places in plan:
            chosen = [examples[place] for place in places]
            with autocast():
                found = model(*tensors([inputs[place] for place in places]), asked=chosen[0].is_question)
            loss = loss_of(found.float(), chosen)
            taking.take(loss)
            step, running = step + 1, 0.98 * running + 0.02 * loss.item()
            if step % 50 == 0:
                print(f"step {step} of {steps}, loss {running:.3f}, {time.time() - started:.0f} s", flush=True)
        if tested:
            report(tested, *predict(model, tokenizer, tested))
        torch.save(model.state_dict(), given.out)


if __name__ == "__main__":
    main()
