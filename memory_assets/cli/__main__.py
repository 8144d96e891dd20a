"""Entry of the `memory` command and of `python -m memory_assets.cli`: while the program loads, Ctrl-C ends it without a traceback."""

import signal


def main() -> None:
    """Load and run the command line. A process that ignores SIGINT, as in the background, still ignores it."""
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from memory_assets.cli import main as program

    if is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    program.main()


if __name__ == "__main__":
    main()
