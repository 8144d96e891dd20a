"""Measure the quality and speed of secret detection: `python benchmarks/noticing_secrets.py`.

Prints the share of invented secrets that are masked completely, with the missed kinds; the share of false alarms among look-alikes and
among the paragraphs of the sample home and the docs; and the processor time for 1,000 texts of each group and for hostile texts.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from memory_assets.language.secrets import find_secrets, mask
from memory_assets_tests.language.secret_samples import harmless, secrets

ROOT = Path(__file__).parents[1]
HOSTILE = ("password for a at ", "eyJ-", "://a:", "curl -u ", "sk-", "api_key:::", "-----BEGIN PRIVATE KEY-----")


def main() -> None:
    samples = list(secrets(Random(1), 50))
    missed = Counter(kind for kind, text, secret in samples if secret in mask(text))
    print(
        f"invented secrets       {len(samples):>6,}  masked whole {1 - missed.total() / len(samples):.1%}  missed {dict(missed)}"
    )
    lookalikes = list(harmless(Random(2), 50))
    print_alarms("look-alikes", lookalikes)
    files = [*(ROOT / "data" / "sample").rglob("*"), *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    prose = [part for file in files if file.is_file() for part in file.read_text("utf-8", "replace").split("\n\n")]
    print_alarms("sample home and docs", prose)
    print("\nmilliseconds of processor time for 1,000 texts")
    for name, texts in (("prose", prose), ("look-alikes", lookalikes), ("secrets", [text for _, text, _ in samples])):
        print(
            f"  {name:<12} {milliseconds(texts) * 1_000 / len(texts):7.0f}   ({sum(map(len, texts)) // len(texts)} characters each)"
        )
    print("\nmilliseconds for one hostile text of 250,000 characters, and of 1,000,000")
    for unit in HOSTILE:
        small, large = ([unit * (size // len(unit))] for size in (250_000, 1_000_000))
        print(f"  {unit!r:<32} {milliseconds(small):7.0f} {milliseconds(large):7.0f}")


def print_alarms(name: str, texts: Sequence[str]) -> None:
    alarms = [text for text in texts if find_secrets(text)]
    print(f"{name:<22} {len(texts):>6,}  false alarms {len(alarms) / len(texts):.2%}  {[text[:60] for text in alarms[:3]]}")


def milliseconds(texts: Sequence[str]) -> float:
    start = time.process_time()
    for text in texts:
        find_secrets(text)
    return (time.process_time() - start) * 1_000


if __name__ == "__main__":
    main()
