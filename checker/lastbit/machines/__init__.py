"""Matrix units, as data."""
