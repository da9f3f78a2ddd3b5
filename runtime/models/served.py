"""Finds the model that a runtime serves, writes the embedded one where it is missing, and checks the files.

    python -m runtime.models.served [DIR]  ->  {"directory": "...", "weights_digest": "..."}

It ends with code 4, and with every problem in one line on stderr, when the model can't be served.
"""

import json
import sys
from pathlib import Path

from runtime.models.config import ModelRefused, read_config
from runtime.models.default import default_model
from runtime.models.loader import check_files, weights_digest
from runtime.models.tokenizer import read_tokenizer


def main() -> int:
    """Writes the directory of the model and the digest of its weights to stdout."""
    try:
        directory = Path(sys.argv[1]) if sys.argv[1:] else default_model()
        check_files(directory, read_config(directory))
        read_tokenizer(directory)
        found = {"directory": str(directory), "weights_digest": weights_digest(directory)}
    except (ModelRefused, OSError) as problem:
        print(problem, file=sys.stderr)
        return 4
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
