"""Rules of our own for lastbit: one in each file."""
