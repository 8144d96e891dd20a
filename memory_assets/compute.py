"""pyarrow's functions on columns. It makes them when it is imported, so type checkers know none of them."""

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
