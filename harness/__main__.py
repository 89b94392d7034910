"""`python -m harness` is `grade`."""

from harness.cli import main

main()
