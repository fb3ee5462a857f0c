"""The parts of the HTML page: escapes, figures drawn as SVG, cards and tables."""
