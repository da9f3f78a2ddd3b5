"""`python -m harness` runs the command `seatrial` where the console script is not on the path."""

import sys

from harness.cli import main

if __name__ == "__main__":
    sys.exit(main())
