"""Infer from observed bits which variant of a program produced them."""
