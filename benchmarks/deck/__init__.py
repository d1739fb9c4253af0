"""How fast the deck is in a real terminal, held against its budgets: `python -m benchmarks.deck`."""
