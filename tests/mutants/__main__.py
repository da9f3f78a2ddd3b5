"""`python -m tests.mutants`"""

import sys

from tests.conftest import no_numbers_from_loaded_modules
from tests.mutants.table import main

no_numbers_from_loaded_modules()
sys.exit(main())
