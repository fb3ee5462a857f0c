"""Run the command line as `python -m lastbit`."""

from lastbit.cli import main

main()
