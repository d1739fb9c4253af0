"""The demo: a small world (a site, seven proxies) in a process of its own, and jobs that work in it.

Shows and proves what the engine does; the engine knows nothing of it. Uses the engine as any user does: through its door, its
commands and its configuration.
"""
