"""Write the trained weights into the package, and calibrate their probabilities on held-out writers; see `README.md`."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from examples import FAMILIES, Example, families, hits, pairs
from network import write_network
from scipy.optimize import minimize_scalar
from train import report

from memory_assets.language import judge


def logits_of(examples: list[Example]) -> np.ndarray:
    """What the package's network makes of the examples."""
    judge._session.cache_clear()
    found = np.zeros((len(examples), len(judge.Relation) + 1), np.float32)
    for asked in (False, True):
        places = [place for place, each in enumerate(examples) if each.is_question is asked]
        logits = judge._run([(examples[place].one, examples[place].other) for place in places], asked=asked)
        found[places, -1 if asked else slice(0, -1)] = logits[:, 0] if asked else logits
    return found


def temperatures_of(examples: list[Example], logits: np.ndarray) -> tuple[float, float]:
    """By what to divide the logits of relations and of answers, so that probabilities are shares."""
    judged = [place for place, each in enumerate(examples) if len(each.possible) == 1]
    truth = np.array([next(iter(examples[place].possible)) for place in judged])
    asked = [place for place, each in enumerate(examples) if each.is_question]
    answered = np.array([bool(examples[place].answers) for place in asked])

    def relations(by: float) -> float:
        found = logits[judged, :-1] / by
        return float(np.mean(np.logaddexp.reduce(found, axis=1) - found[np.arange(len(truth)), truth]))

    def answers(by: float) -> float:
        return float(np.mean(np.logaddexp(0, np.where(answered, -1, 1) * logits[asked, -1] / by)))

    first, second = (minimize_scalar(loss, bounds=(0.3, 5), method="bounded").x for loss in (relations, answers))
    return float(first), float(second)


def print_thresholds(examples: list[Example], logits: np.ndarray) -> None:
    """Precision and recall of each answer, by the probability from which it is given; and how true the probabilities are."""
    judged = [place for place, each in enumerate(examples) if len(each.possible) == 1]
    truth = np.array([next(iter(examples[place].possible)) for place in judged])
    shares = np.exp(logits[judged, :-1] - np.logaddexp.reduce(logits[judged, :-1], axis=1, keepdims=True))
    asked = [place for place, each in enumerate(examples) if each.is_question]
    columns = (
        ("same", truth == judge.Relation.SAME, shares[:, 0]),
        ("changed or opposite", np.isin(truth, (1, 2)), shares[:, 1] + shares[:, 2]),
        ("answers", np.array([bool(examples[place].answers) for place in asked]), 1 / (1 + np.exp(-logits[asked, -1]))),
    )
    for name, right, probability in columns:
        print(name)
        for least in (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97):
            found = probability >= least
            row = f"  from {least}: precision {right[found].mean() if found.any() else 1:.3f}, recall {found[right].mean():.3f}"
            if name == "same":
                row += f", changed or opposite passing {found[np.isin(truth, (1, 2))].mean():.4f}"
            print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path, help="what train.py wrote")
    parser.add_argument("--families", type=Path, default=FAMILIES)
    parser.add_argument(
        "--held", nargs="*", default=[], help="writers that the weights have not seen; without them the temperatures stay"
    )
    parser.add_argument("--hits", type=Path, help="what hits.py wrote")
    parser.add_argument("--temperatures", nargs=2, type=float, default=(1.0, 1.0))
    parser.add_argument("--tested", type=int, default=4000)
    given = parser.parse_args()
    state = torch.load(given.weights)
    write_network(state, tuple(given.temperatures))
    examples = [each for each in pairs() if any(each.group.startswith(held) for held in given.held)]
    writers = [each for each in given.held if (given.families / f"{each}.jsonl").is_file()]
    examples += families(writers, random.Random(5), given.families)
    examples += [each for each in hits(given.hits, random.Random(5)) if each.group in given.held] if given.hits else []
    if examples:
        examples = random.Random(2).sample(examples, min(given.tested, len(examples)))
        logits = logits_of(examples)
        found = temperatures_of(examples, logits)
        print(f"temperatures {found[0]:.2f} {found[1]:.2f}")
        write_network(state, found)
        logits = logits / np.array([found[0]] * (logits.shape[1] - 1) + [found[1]])
        report(examples, logits[:, :-1], logits[:, -1])
        print_thresholds(examples, logits)


if __name__ == "__main__":
    main()
