"""python -m dcpctl is the program."""

from ._program import main

main()
