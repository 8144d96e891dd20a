"""`[[name]]` links are found only where they are links."""

import pytest

from memory_assets.sources.markdown import link_targets


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see [[postgres-decision]] and [[ other ]]", ("postgres-decision", "other")),
        ("[[b]] [[a]] [[b]]", ("b", "a")),
        ("[[name#heading]] [[name|shown as]] [[x#h|s]]", ("name", "x")),
        ("[[]] [[ ]] [single] [[open", ()),
        ("[[two\nlines]]", ()),
        ("`[[code]]` and [[out]]", ("out",)),
        ("- item\n  ```\n  [[ -f x ]]\n  ```\n  [[out]]", ("out",)),
        ("```bash\nif [[ -f x ]]; then\n```\n[[real]]", ("real",)),
        ("~~~\n[[never closed]]", ()),
        ("[[Größe 1]] [[[nested]]]", ("Größe 1", "nested")),
    ],
)
def test_targets_are_named_once_in_order_and_never_from_code(text: str, targets: tuple[str, ...]) -> None:
    assert link_targets(text) == targets
