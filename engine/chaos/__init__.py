"""`taskdeck chaos`: a scratch engine at work while everything around it is broken on purpose, and what must be true then.

Uses the engine from outside, as `demo` does, whose world and judgement it shares.
"""
