"""One result model; one file for each output format."""
