"""The torture campaigns: kill, damage, fill, feed and load the program, and compare it with a model of what it promises.

`make torture` runs them all for an hour and prints one table; `test_torture.py` runs a minute of them.
"""
