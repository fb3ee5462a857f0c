"""Value domains and policies: how a graph is evaluated."""
