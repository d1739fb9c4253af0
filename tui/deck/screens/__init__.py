"""The pages of the deck, one a module, and the windows that open over them."""
