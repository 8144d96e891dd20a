"""A session of a real Claude Code against a stand-in for its model."""
