"""`memory serve`."""

import os

import click

from memory_assets.cli.output import say


@click.command("serve", epilog="Example: memory serve --port 8000   (then: curl http://127.0.0.1:8000/api/v1/health)")
@click.option("--host", help="Address to listen on; default: MEMORY_HOST, else 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port; default: PORT, else 8000. 0 takes any free one.")
def serve(host: str | None, port: int | None) -> None:
    """Serve the memory over HTTP to every tenant that has a key, until interrupted."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # requests are the unit of work; threads of one would only spin
    from memory_assets.api.server import serve
    from memory_assets.settings import load_settings

    serve(load_settings(host=host, port=port), lambda line: say(f"memory: {line}", err=True))
