"""`python -m harness.load CONFIG.json`: see main.py."""

import sys

from harness.load.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
