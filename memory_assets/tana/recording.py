"""A user's own Tana on file: its answers as JSON Lines, one an answer, to be given again without Tana.

A line is `{"method", "path", "sent", "status", "answer"}`; `path` holds the query, no line holds the token. The file is for its owner
alone, since the answers are the workspace's texts.
"""

import json
from collections import defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING

import httpx  # noqa: TID253 -- imported only by a client that records or replays

from memory_assets.errors import InvalidInputError

if TYPE_CHECKING:
    from typing import TextIO


class Recorder(httpx.AsyncBaseTransport):
    """Passes requests on to Tana and appends what it answers to a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        self._file: TextIO = path.open("a", encoding="utf-8")
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask Tana, and note request and answer."""
        response = await self._network.handle_async_request(request)
        body = await response.aread()
        await response.aclose()
        line = {
            "method": request.method,
            "path": request.url.raw_path.decode(),
            "sent": request.content.decode(),
            "status": response.status_code,
            "answer": body.decode("utf-8", "replace"),
        }
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()
        headers = {"Retry-After": wait} if (wait := response.headers.get("Retry-After")) else {}
        return httpx.Response(response.status_code, content=body, headers=headers)

    async def aclose(self) -> None:
        """Close file and connections."""
        self._file.close()
        await self._network.aclose()


class Replay(httpx.AsyncBaseTransport):
    """Answers from a recording: to equal requests in the order recorded, the last answer again and again.

    Raises:
        InvalidInputError: the file is not a recording.
    """

    def __init__(self, path: Path) -> None:
        self._answers: defaultdict[tuple[str, str, str], deque[tuple[int, str]]] = defaultdict(deque)
        try:
            for number, line in enumerate(path.read_bytes().splitlines(), start=1):
                try:
                    said = json.loads(line)
                    key = (said["method"], said["path"], said["sent"])
                    self._answers[key].append((int(said["status"]), str(said["answer"])))
                except (ValueError, KeyError, TypeError):
                    raise InvalidInputError(
                        f"Line {number} of {path} is not a recorded answer of Tana; record anew with MEMORY_TANA_RECORD."
                    ) from None
        except OSError as error:
            raise InvalidInputError(f"{path} cannot be read ({error.strerror}); check MEMORY_TANA_REPLAY.") from error

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The recorded answer; 404 to a request that was not recorded."""
        answers = self._answers.get((request.method, request.url.raw_path.decode(), request.content.decode()))
        if not answers:
            return httpx.Response(404, json={"message": "not recorded"})
        status, answer = answers.popleft() if len(answers) > 1 else answers[0]
        return httpx.Response(status, content=answer.encode())
