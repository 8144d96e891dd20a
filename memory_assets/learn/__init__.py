"""Curation of silos into PAI's canonical homes (check, review, apply, undo), and the context that a starting session gets.

After any of these errors the same command may be run again:

    ConflictError        another `memory learn` is running, or the step is already done or undone
    NotFoundError        there is no such proposal
    InvalidInputError    silos and homes belong to another tenant
    StoreError           decisions, journal or a home cannot be used
    EmbedderError        the embedder failed; nothing was written
    OSError              the disk refused a write; the next run continues from there
    RefusedFileError     a file of another program cannot be read or edited
"""
