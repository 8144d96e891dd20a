"""Write the trained weights into the package, and calibrate their probabilities on held-out writers; see `README.md`."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from encoder import Encoder
from examples import FAMILIES, LABELS, Example, families, hits, pairs
from network import read_encoder, write_network
from scipy.optimize import minimize_scalar

from memory_assets.language import judge
from memory_assets.language.embedders.bge import bge_files
from memory_assets.language.judge import ANSWERS, STATEMENTS

NETWORKS = {"judge": (STATEMENTS, "relation"), "answers": (ANSWERS, "answer")}
"""Argument -> the network to write and the encoder's head for it."""


def logits_of(network: judge.Network, examples: list[Example]) -> np.ndarray:
    """Return the logits of a package network for the examples."""
    judge._opened.cache_clear()
    return judge._run(network, [(each.one, each.other) for each in examples])


def temperature_of(examples: list[Example], logits: np.ndarray) -> float:
    """Return the temperature that calibrates the probabilities."""
    if examples[0].is_question:
        signs = np.where([bool(each.answers) for each in examples], -1, 1)

        def loss(by: float) -> float:
            return float(np.mean(np.logaddexp(0, signs * logits[:, 0] / by)))
    else:
        judged = [place for place, each in enumerate(examples) if len(each.possible) == 1]
        truth = np.array([next(iter(examples[place].possible)) for place in judged])

        def loss(by: float) -> float:
            found = logits[judged] / by
            return float(np.mean(np.logaddexp.reduce(found, axis=1) - found[np.arange(len(truth)), truth]))

    return float(minimize_scalar(loss, bounds=(0.3, 5), method="bounded").x)


def print_thresholds(examples: list[Example], logits: np.ndarray) -> None:
    """Print precision and recall of each verdict by its probability threshold, and how well the probabilities are calibrated."""
    if examples[0].is_question:
        columns = [("answers", np.array([bool(each.answers) for each in examples]), 1 / (1 + np.exp(-logits[:, 0])))]
        truth = np.zeros(0)
    else:
        judged = [place for place, each in enumerate(examples) if len(each.possible) == 1]
        truth = np.array([next(iter(examples[place].possible)) for place in judged])
        shares = np.exp(logits[judged] - np.logaddexp.reduce(logits[judged], axis=1, keepdims=True))
        columns = [
            ("same", truth == judge.Relation.SAME, shares[:, 0]),
            ("changed or opposite", np.isin(truth, (1, 2)), shares[:, 1] + shares[:, 2]),
        ]
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
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("weights", type=Path, help="weights written by train.py or distil.py")
    parser.add_argument("--families", type=Path, default=FAMILIES)
    parser.add_argument("--held", nargs="*", default=[], help="writers that the weights have not seen")
    parser.add_argument("--hits", type=Path, help="what hits.py wrote")
    parser.add_argument("--temperature", type=float, default=1.0, help="temperature to use if nothing is held out")
    parser.add_argument("--tested", type=int, default=4000)
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the new weights in the mean with the package's weights"
    )
    given = parser.parse_args()
    network, head = NETWORKS[given.network]
    state = torch.load(given.weights)
    if given.share < 1:
        files = bge_files()
        assert files
        shipped = Encoder(files[0], len(LABELS), network.layers)
        read_encoder(shipped, network, head)
        state = {name: given.share * state[name] + (1 - given.share) * value for name, value in shipped.state_dict().items()}
    write_network(network, state, head, given.temperature)
    examples = [each for each in pairs() if any(each.group.startswith(held) for held in given.held)]
    writers = [each for each in given.held if (given.families / f"{each}.jsonl").is_file()]
    examples += families(writers, random.Random(5), given.families)
    examples += [each for each in hits(given.hits, random.Random(5)) if each.group in given.held] if given.hits else []
    examples = [each for each in examples if each.is_question is (network is ANSWERS)]
    if examples:
        examples = random.Random(2).sample(examples, min(given.tested, len(examples)))
        logits = logits_of(network, examples)
        found = temperature_of(examples, logits)
        print(f"temperature {found:.2f}")
        write_network(network, state, head, found)
        print_thresholds(examples, logits / found)


if __name__ == "__main__":
    main()
