"""`python -m runtime.server`: starts the supervisor, which starts the server process."""

import sys

from runtime.server.supervisor import main

if __name__ == "__main__":
    sys.exit(main())
