"""Entry of the `memory` command and of `python -m memory_assets.cli`: while the program loads, Ctrl-C ends it without a traceback."""

import locale
import os
import signal
import sys


def main() -> None:
    """Load and run the command line. A process that ignores SIGINT, as in the background, still ignores it.

    Names of files are UTF-8 in every locale, so another one begins Python again in its UTF-8 mode; the terminal keeps its encoding.
    """
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.environ.setdefault("PYTHONIOENCODING", f"{locale.getencoding()}:surrogateescape")
        os.environ["PYTHONUTF8"] = "1"
        program = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *program, *map(_to_utf_8, sys.argv[1:])])  # noqa: S606
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from memory_assets.cli import main as program

    if is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    program.main()


def _to_utf_8(argument: str) -> bytes:
    """Return an argument in UTF-8: as it was given if that is UTF-8, as names of files are, else out of the locale's encoding."""
    given = os.fsencode(argument)
    try:
        given.decode("utf-8")
    except UnicodeDecodeError:
        return argument.encode("utf-8", "surrogateescape")
    return given


if __name__ == "__main__":
    main()
