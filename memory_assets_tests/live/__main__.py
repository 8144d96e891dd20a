"""Drive Claude Code through a session: start, prompts, a memory file that it writes, end. `make live` installs Claude Code from npm.

    python -m memory_assets_tests.live CLAUDE

Prints which memories the model was sent and fails if an expected one is missing.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memory_assets.operations.prompt import HEADING
from memory_assets_tests.live.model import WRITE, Model, serve

_PATIENCE_SECONDS = 60.0
_OTTO = "The office printer is called Otto and stands in room 4."


def main() -> None:
    """Run the session in a temporary home."""
    claude = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="live_", ignore_cleanup_errors=True) as folder:
        home, project = Path(folder, "home"), Path(folder, "src/atlas")
        project.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        server = serve()
        os.environ |= {
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "MEMORY_DATA_DIR": str(home / "data"),
            "MEMORY_CONFIG": os.devnull,
            "MEMORY_CLAUDE_PROJECTS_DIR": str(home / ".claude/projects"),
        }
        for name in [
            name for name in os.environ if name.startswith("CLAUDE") and name != "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"
        ]:
            del os.environ[name]
        print(subprocess.check_output([claude, "--version"], text=True).strip(), flush=True)
        memory("install", "claude-code")
        memory("store", _OTTO, "--project", str(project))
        for day in range(1, 15):
            memory(
                "store", f"Invoice run {day} of the bakery was sent to the accountant on day {day}.", "--project", "/elsewhere"
            )
        silo = home / ".claude/projects" / str(project).replace("/", "-").replace("_", "-") / "memory"
        silo.mkdir(parents=True)
        session(claude, project, silo)


def memory(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "memory_assets.cli", *arguments], check=True, capture_output=True, text=True
    ).stdout


def session(claude: str, project: Path, silo: Path) -> None:
    """Send the prompts one after the other, each after the previous answer, and check what the model was sent."""
    command = [claude, "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
    command += ["--permission-mode", "acceptEdits", "--allowedTools", "Write"]
    with subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def say(text: str) -> str:
            """Send a prompt, wait for its answer, and return what the model was sent for it."""
            assert process.stdin
            assert process.stdout
            before = len(Model.requests)
            process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if json.loads(line).get("type") == "result":
                    break
            return json.dumps([each.get("messages", [])[-2:] for each in Model.requests[before:]], ensure_ascii=False)

        expect("The session's start tells what is known of the project.", _OTTO in say("hello"))
        say("thanks, go on")
        expect("A prompt that needs nothing is told nothing.", recalled() == 0)
        say(f"{WRITE}{silo}/kettle.md")
        expect(
            "A memory file that it wrote is searchable within seconds.", wait_for(lambda: "Ghent" in memory("search", "kettle"))
        )
        say("where was the red office kettle bought?")
        expect("The next prompt that needs it is told it.", recalled() == 1)
        say("where was the red office kettle bought?")
        expect("It is told once.", recalled() == 1)
    told = memory("noted", "--told")
    expect("`memory noted --told` lists it.", all(reason in told for reason in ("start", "prompt")))


def recalled() -> int:
    """Count the blocks of recalled memories in the conversation that the model was last sent."""
    return json.dumps(Model.requests[-1]["messages"]).count(HEADING)


def wait_for(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.5)
    return held


def expect(promise: str, held: bool) -> None:
    print(f"{'seen ' if held else 'MISSED'}  {promise}", flush=True)
    if not held:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
