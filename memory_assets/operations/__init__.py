"""What a user can do, each thing once: the command line, HTTP, MCP and Dagster parse, call and print.

A module is an operation. Its function does it; its answer has one JSON form (`model_dump_json`) and one text form (`text`).
"""
