"""`python -m memory_assets.cli`."""

from memory_assets.cli.main import main

main()
