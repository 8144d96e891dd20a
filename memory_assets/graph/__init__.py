"""Typed edges, entities and relevance, all derived from the memories; and the sleep cycles.

If a store cannot be read or written, a function raises `StoreError` and has written nothing, unless its docstring says what stays.
"""
