"""The tensors of an ONNX file, read where they lie: ONNX Runtime runs such a file and does not give its weights away.

An ONNX file is one message of Protocol Buffers (onnx.proto), of which the fields that lead to a tensor's data are read here.
The package onnx, which could, takes 31 MB and 0.13 s to import.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    import numpy.typing as npt

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_DIMENSION, _TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_BYTES = 1, 2, 4, 8, 9
_TYPES = {1: np.dtype(np.float32), 2: np.dtype(np.uint8), 3: np.dtype(np.int8)}


def read_tensors(file: "mmap.mmap") -> "dict[str, npt.NDArray[Any]]":
    """Map the names of a file's initializers to their data in the file, for those of bytes and 32-bit floating point.

    Raises:
        ValueError: the file is not what this reads.
    """
    tensors: dict[str, npt.NDArray[Any]] = {}
    try:
        for number, begin, end in _fields(file, 0, len(file)):
            if number == _MODEL_GRAPH:
                for inner, start, stop in _fields(file, begin, end):
                    if inner == _GRAPH_INITIALIZER:
                        tensors |= _tensor(file, start, stop)
    except IndexError:
        raise ValueError("it ends in the middle of a field") from None
    return tensors


def _tensor(file: "mmap.mmap", begin: int, end: int) -> "dict[str, npt.NDArray[Any]]":
    """One tensor by its name; none if its data is in a field of another kind."""
    name, kind, shape, data = "", 0, list[int](), None
    for number, start, stop in _fields(file, begin, end):
        if number == _TENSOR_DIMENSION:
            shape.append(start)
        elif number == _TENSOR_TYPE:
            kind = start
        elif number == _TENSOR_NAME:
            name = file[start:stop].decode()
        elif number in {_TENSOR_FLOATS, _TENSOR_BYTES}:
            data = start, stop
    if data is None or kind not in _TYPES:
        return {}
    count = (data[1] - data[0]) // _TYPES[kind].itemsize
    return {name: np.frombuffer(file, _TYPES[kind], count, data[0]).reshape(shape)}


def _fields(file: "mmap.mmap", begin: int, end: int) -> "Iterator[tuple[int, int, int]]":
    """Yield a message's fields: number, and where its bytes begin and end; of a number, itself and where it ends."""
    while begin < end:
        key, begin = _varint(file, begin)
        value, after = _varint(file, begin)
        match key & 7:
            case 0:
                yield key >> 3, value, after
                begin = after
            case 2:
                begin = after + value
                yield key >> 3, after, begin
            case kind:
                raise ValueError(f"it has a field of kind {kind}")


def _varint(file: "mmap.mmap", place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the least first, and the place after it."""
    value = shift = 0
    while True:
        byte = file[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
