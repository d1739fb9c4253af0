"""What the screens are made of: widgets that draw lines, and nothing that knows the engine."""
