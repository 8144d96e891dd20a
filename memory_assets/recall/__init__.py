"""Search by meaning, words and graph.

Whatever searches raises StoreError if the store cannot be read or its vectors are another embedder's, and EmbedderError if the
question cannot be embedded.
"""
