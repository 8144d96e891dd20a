"""A tenant's memories as a long-running process keeps them in memory, beside the table on disk that stays the truth."""
