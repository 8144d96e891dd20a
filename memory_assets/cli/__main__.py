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
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from memory_assets.cli import main as program

    if is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    program.main()


if __name__ == "__main__":
    main()
