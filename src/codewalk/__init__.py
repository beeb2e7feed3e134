"""Ties prose to code and results, so that a page about code cannot go stale.

The rooms, in the order in which they may import one another: errors, config
and digest; source and records; references; render; markdown and notebook;
pages; jobs; plugin and cli.
"""
