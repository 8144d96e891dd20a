"""The graph of typed edges, entities and relevance scores derived from the memories, and the sleep cycles.

A function raises `StoreError` if a store cannot be read or written, and then, unless its docstring says otherwise, has written nothing.
"""
