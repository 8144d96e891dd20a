"""Other people's files are read within limits, without blocking and without leaving their folder."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.models import Source
from memory_assets.sources.files import (
    RefusedFileError,
    decode,
    last_lines,
    read_head,
    read_source_file,
    shown_path,
    stamp_of,
    text_fault,
)

needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")


def refused(path: Path, root: Path, max_bytes: int = 1000) -> RefusedFileError:
    with pytest.raises(RefusedFileError) as caught:
        read_source_file(path, root, max_bytes)
    assert caught.value.mend
    return caught.value


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x" * 1000)
    assert read_source_file(tmp_path / "a.md", tmp_path, 1000) == b"x" * 1000


def test_a_missing_file_is_no_refusal(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_source_file(tmp_path / "gone.md", tmp_path, 1000)


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link.md").symlink_to("../a.md")
    assert read_source_file(tmp_path / "sub" / "link.md", tmp_path, 1000) == b"text"
    assert stamp_of(str(tmp_path / "sub" / "link.md"), tmp_path) == stamp_of(str(tmp_path / "a.md"), tmp_path)


def test_a_root_that_is_itself_a_link_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("text")
    (tmp_path / "root").symlink_to("real")
    assert read_source_file(tmp_path / "root" / "a.md", tmp_path / "root", 1000) == b"text"


@pytest.mark.parametrize("target", ["../secret.md", "{outside}/secret.md"])
def test_a_link_out_of_the_root_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.md").symlink_to(target.format(outside=tmp_path))
    assert "leaves" in refused(root / "link.md", root).reason
    outside = stamp_of(str(tmp_path / "secret.md"), tmp_path)
    assert stamp_of(str(root / "link.md"), root) != outside


def test_a_folder_that_is_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "folder").symlink_to(tmp_path / "outside")
    assert "leaves" in refused(root / "folder" / "a.md", root).reason


def test_a_sibling_whose_name_begins_like_the_root_is_outside(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root-2").mkdir()
    (tmp_path / "root-2" / "a.md").write_text("secret")
    (tmp_path / "root" / "link.md").symlink_to(tmp_path / "root-2" / "a.md")
    assert "leaves" in refused(tmp_path / "root" / "link.md", tmp_path / "root").reason


def test_a_link_that_loops_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("b.md")
    (tmp_path / "b.md").symlink_to("a.md")
    assert "leads to itself" in refused(tmp_path / "a.md", tmp_path).reason


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("missing.md")
    assert "link to nothing" in refused(tmp_path / "a.md", tmp_path).reason


@pytest.mark.timeout(10)
def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert "named pipe" in refused(tmp_path / "pipe.md", tmp_path).reason


def test_a_socket_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.md"))
        assert "a socket" in refused(tmp_path / "s.md", tmp_path).reason
    (tmp_path / "folder.md").mkdir()
    assert "a folder" in refused(tmp_path / "folder.md", tmp_path).reason
    assert "a device" in refused(Path("/dev/zero"), Path("/dev")).reason


def test_a_large_file_is_refused_without_reading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "large.md").open("wb") as file:
        file.truncate(50 << 20)

    def no_reading(*_: object) -> bytes:
        raise AssertionError("the file was read")

    monkeypatch.setattr(os, "read", no_reading)
    assert "52,428,800 bytes" in refused(tmp_path / "large.md", tmp_path).reason


def test_only_the_head_of_a_large_file_is_read_where_that_is_enough(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"0123456789" * 1000)
    assert read_head(tmp_path / "t.jsonl", tmp_path, 15) == b"012345678901234"


def test_the_last_wanted_lines_are_read_past_lines_that_are_too_long_or_not_wanted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    long, passed = b"a" * (3 << 20), b"-" * 1000
    path.write_bytes(b"\n".join([b"a1", b"a2", *[passed] * 1000, b"a3", long, b"a4", b""]))
    assert last_lines(path, tmp_path, 1 << 20, lambda line: line.startswith(b"a")) == [b"a1", b"a2", b"a3", b"a4"]
    assert last_lines(path, tmp_path, 4 << 20, lambda line: line.startswith(b"a")) == [b"a1", b"a2", b"a3", long, b"a4"]
    assert last_lines(path, tmp_path, 3, lambda line: line.startswith(b"a")) == [b"a4"]
    path.write_bytes(b"a1\n" + b"-" * (9 << 20) + b"\na2")
    assert last_lines(path, tmp_path, 1 << 20, lambda line: line.startswith(b"a")) == [b"a2"]
    path.write_bytes(b"")
    assert last_lines(path, tmp_path, 1 << 20, lambda _: True) == []


def test_a_nul_byte_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"ab\x00cd")
    assert "NUL byte (at offset 2)" in refused(tmp_path / "a.md", tmp_path).reason


@needs_permissions
def test_a_file_that_may_not_be_read_is_refused_for_now(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "a.md").chmod(0)
    error = refused(tmp_path / "a.md", tmp_path)
    assert "Permission denied" in error.reason
    assert error.transient


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_byte_order_marks_decide_the_encoding(encoding: str) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    assert decode((mark + "Größe €5\r\nnext\rlast\n").encode(encoding)) == ("Größe €5\nnext\nlast\n", "")


def test_windows_1252_is_read_and_noted() -> None:
    text, note = decode("„Größe“ €5".encode("cp1252"))
    assert text == "„Größe“ €5"
    assert "Windows-1252" in note


def test_a_wrong_byte_in_utf_8_is_replaced_and_noted_and_the_rest_stays() -> None:
    text, note = decode("Größe „Zwölf“\n".encode() + b"caf\xe9\n")
    assert text == "Größe „Zwölf“\ncaf\ufffd\n"
    assert note == "1 byte that is not UTF-8 replaced, the first in line 2"


def test_a_replacement_character_that_was_written_is_no_fault() -> None:
    assert decode("was \ufffd here, größer".encode()) == ("was \ufffd here, größer", "")
    assert decode("\ufffd ä é ü".encode() + b" \x81" + b" padding that is long enough")[1].startswith("1 byte ")


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=30), st.integers(0), st.sampled_from([0x80, 0xC3, 0xFF]))
def test_one_wrong_byte_costs_one_character_where_there_are_others(text: str, where: int, byte: int) -> None:
    text = text.replace("\ufffd", "") + "ßß" + "." * 30
    whole = text.encode()
    where %= len(text)
    damaged = text[:where].encode() + bytes([byte]) + b"|" + text[where:].encode()
    decoded, note = decode(damaged)
    assert decoded == text[:where].removeprefix("\ufeff") + "\ufffd|" + text[where:]
    assert note
    assert decode(whole) == (text.removeprefix("\ufeff"), "")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfea", "not valid UTF-16"),
        (b"\xff\xfe\x00\xd8", "not valid UTF-16"),
        (b"bad \x81 \x81", "neither UTF-8 nor Windows-1252"),
        (b"one\ntwo \x1b[31m", "line 2 holds the control character U+001B"),
        (b"\x7f", "U+007F"),
        ("\x85".encode(), "U+0085"),
        ("a\x00b".encode("utf-16"), "U+0000"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(RefusedFileError, match=reason.replace("+", r"\+")):
        decode(data)


@given(st.binary(max_size=200))
def test_decoding_gives_clean_text_or_a_refusal(data: bytes) -> None:
    try:
        text, _ = decode(data)
    except RefusedFileError:
        return
    assert text_fault(text) is None
    assert "\r" not in text


def test_a_refusal_carries_source_path_and_key() -> None:
    refusal = RefusedFileError("why", "how", "line 3").refusal(Source.PAI_SEED, "/p", "k")
    assert (refusal.reason, refusal.mend, refusal.location, refusal.key) == ("why", "how", "line 3", "k")


def test_a_path_that_is_not_utf_8_is_shown_as_valid_text() -> None:
    assert shown_path(os.fsdecode(b"/a/\xe9.md")) == "/a/\\udce9.md"
