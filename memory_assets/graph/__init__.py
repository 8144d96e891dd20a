"""The graph of typed edges, entities and relevance scores derived from the memories, and the sleep cycles.

Unless its docstring says otherwise, a function that raises `StoreError` has written nothing.
"""
