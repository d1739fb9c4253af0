"""The outside world, one module a neighbour: processes, locks, sockets, logs. It decides no rule."""
