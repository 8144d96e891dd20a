"""The torture campaigns: kill, damage, fill, feed and load the program, and count what it survives.

`make torture` runs them all and prints one table; `test_torture.py` runs a short form of each.
"""
