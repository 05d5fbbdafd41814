"""`python -m futad` is the command `futad`."""

import sys

from futad.cli import main

sys.exit(main())
