"""Silos curated into PAI's canonical homes: check, review, apply, undo; and what a session is told when it starts.

Errors, after which the same command may be run again:

    ConflictError        another `memory learn` is at work, or what is asked for was done or undone already
    NotFoundError        there is no such proposal
    InvalidInputError    silos and homes are another tenant's
    StoreError           decisions, journal or a home cannot be used
    EmbedderError        the embedder failed; nothing was written
    OSError              the disk does not take it; the next run goes on from there
    RefusedFileError     a file of somebody else cannot be read or edited
"""
