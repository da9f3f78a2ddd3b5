"""`python -m runtime.server`: the supervisor, which starts the server proper."""

import sys

from runtime.server.supervisor import main

if __name__ == "__main__":
    sys.exit(main())
