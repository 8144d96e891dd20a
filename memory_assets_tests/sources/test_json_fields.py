"""Values that JSON does not allow are reported with their JSON path."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.sources.files import RefusedFileError
from memory_assets.sources.json_fields import first_fault, loads


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ('{"a": [1, {"b": NaN}]}', "$.a[1].b", "NaN is not a JSON number"),
        ('{"a": -Infinity}', "$.a", "-Infinity is not a JSON number"),
        ('{"a": 1e999}', "$.a", "1e999 is too large a number"),
        ('{"a": ' + "9" * 5000 + "}", "$.a", "99999999999999999999... is too large a number"),
        ('{"x": {"k": 1, "k": 2}}', "$.x", 'the object has the key "k" twice'),
        ('{"odd key": "\\u0007"}', '$["odd key"]', "line 1 holds the control character U+0007"),
        ('["\\ud800"]', "$[0]", "line 1 holds the control character U+D800"),
        ('{"\\u0000": 1}', "$", "a key in it holds a control character"),
        ("[" * 40 + "]" * 40, "$" + "[0]" * 33, "it is nested deeper than 32 levels"),
        ('[NaN, {"b": NaN}]', "$[0]", "NaN is not a JSON number"),
    ],
)
def test_a_fault_is_found_with_its_json_path(text: str, path: str, reason: str) -> None:
    assert first_fault(loads(text), "$") == (path, reason)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nul", '{"a": "\x01"}', "[" * 100_000, '{"a":' * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(RefusedFileError) as caught:
        loads(text)
    assert caught.value.mend


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
        max_leaves=10,
    )
)
def test_json_without_faults_is_read_as_it_is(value: object) -> None:
    assert loads(json.dumps(value)) == value
    assert first_fault(value, "$") is None
