"""Search by meaning, words and graph.

Every search raises StoreError if the store cannot be read or another embedder made its vectors, and EmbedderError if the question
cannot be embedded.
"""
