"""Torture campaigns: kill, damage, overfill, misfeed and overload the program, and compare it with a model of its promises.

`make torture` runs all campaigns for an hour and prints one table; `test_torture.py` runs them for a minute.
"""
